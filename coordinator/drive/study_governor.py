"""The governor of a study in the cloud: begins its runs and sets the limits of each.

It lives for one step, as the coordinator of a detached run does, called by the sweep and by runs that end. A step is
one conditional write. The next governor may repeat all later actions of the step.
"""

from contextlib import suppress
from typing import Any, Protocol

import msgspec

from marless.coordinator.core import budget
from marless.coordinator.core.state import Plan
from marless.coordinator.drive import lease, run_manifest
from marless.coordinator.drive.ledger_items import STATE, Items, load_state
from marless.coordinator.drive.ports import Ledger
from marless.coordinator.drive.run_manifest import STUDY
from marless.coordinator.governor.shared_budget import least
from marless.coordinator.governor.study_state import RunOutcome, StudyPlan, StudyState, advance, initial_state
from marless.functions.encoding import JsonDecoder, to_json
from marless.functions.errors import StaleVersion, StorageFault

PLAN = "plan"
# How often a governor tries again after another governor overtook it.
_TRIES = 3

_PLAN_DECODER = JsonDecoder(StudyPlan)
_STATE_DECODER = JsonDecoder(StudyState)


class Outside(Protocol):
    """The ports of a run, or of a study."""

    @property
    def ledger(self) -> Ledger: ...


class Listing(Ledger, Items, Protocol):
    """The live runs and studies of a tenant, with the coordinators that drive them."""

    def remove(self, item: str) -> None: ...


class TenantDeployment(Protocol):
    """A tenant's deployment."""

    @property
    def live(self) -> Listing: ...

    def outside(self, run: str) -> Outside: ...

    def wake(self, coordinator: str, run: str) -> None: ...


def begin(deployment: TenantDeployment, plan: StudyPlan) -> StudyPlan:
    """Write a new study, or find the existing one, and call its first governor. Returns the study's plan.

    Raises `StorageFault`. The same call then continues from the parts already written.
    """
    study = STUDY + plan.study
    with suppress(StaleVersion):
        deployment.outside(study).ledger.commit(PLAN, to_json(plan), 0)
    stored_plan = read_plan(deployment, plan.study)
    assert stored_plan is not None
    state = read_state(deployment, plan.study)
    if state is None or not state.is_over(stored_plan):
        _list(deployment, study, stored_plan.coordinator)
        with suppress(StorageFault):  # the sweep wakes it
            deployment.wake(stored_plan.coordinator, study)
    return stored_plan


def govern(deployment: TenantDeployment, study: str) -> dict[str, Any]:
    """Take a step of the study and return its progress.

    Raises `StorageFault`, and `StaleVersion` if other governors were quicker again and again.
    """
    if (plan := read_plan(deployment, study.removeprefix(STUDY))) is None:
        deployment.live.remove(study)
        return {"run": study, "left": "nobody"}
    for tries_left in reversed(range(_TRIES)):
        try:
            state = _step(deployment, plan)
            break
        except StaleVersion:
            if not tries_left:
                raise
    live_names = {name for name, _ in deployment.live.items("")}
    for run in state.live:
        _keep_going(deployment, plan, run, run in live_names)
        if state.stopping:
            _stop_run(deployment, plan, run)
    if state.is_over(plan):
        deployment.live.remove(study)
    return {"run": study, "live": len(state.live), "over": len(state.over), "runs": len(plan.owners)}


def stop(deployment: TenantDeployment, plan: StudyPlan) -> None:
    """End the study: its active runs stop resumably, and its waiting runs never begin. Raises `StorageFault`."""
    ledger = deployment.outside(STUDY + plan.study).ledger
    while True:
        state, version = _load_state(ledger)
        state = msgspec.structs.replace(state or initial_state(plan), stopping=True)
        with suppress(StaleVersion):  # the governor was quicker
            ledger.commit(STATE, to_json(state), version)
            break
    with suppress(StorageFault):  # the sweep wakes it
        deployment.wake(plan.coordinator, STUDY + plan.study)


def read_plan(deployment: TenantDeployment, study: str) -> StudyPlan | None:
    """Return the study's plan, or None. Raises `Undecodable`."""
    record = deployment.outside(STUDY + study).ledger.load(PLAN)
    return _PLAN_DECODER.decode(record.body, "the study's plan") if record else None


def read_state(deployment: TenantDeployment, study: str) -> StudyState | None:
    """Return the study's progress, or None before its first step. Raises `Undecodable`."""
    return _load_state(deployment.outside(STUDY + study).ledger)[0]


def _load_state(ledger: Ledger) -> tuple[StudyState | None, int]:
    record = ledger.load(STATE)
    return (_STATE_DECODER.decode(record.body, "the study's state"), record.version) if record else (None, 0)


def limited(deployment: TenantDeployment, study: str, plan: Plan) -> tuple[Plan, tuple[int, ...]]:
    """Return the plan of a run with the limits of its study, and the bytes of each item that was read.

    A run that is over, and was taken up by hand, keeps to its own limits.
    """
    if (record := deployment.outside(study).ledger.load(STATE)) is None:
        return plan, (0,)
    grant = _STATE_DECODER.decode(record.body, "the study's state").live.get(plan.run)
    if grant is not None:
        dollars = least([plan.config.stop.dollars, grant.dollars])
        plan = plan.limited(dollars, concurrency=grant.width, at_once=grant.width)
    return plan, (len(record.body),)


def _step(deployment: TenantDeployment, plan: StudyPlan) -> StudyState:
    ledger = deployment.outside(STUDY + plan.study).ledger
    stored_state, version = _load_state(ledger)
    state = stored_state or initial_state(plan)
    looks = {run: _outcome(deployment.outside(run).ledger) for run in state.live}
    after = advance(plan, state, {run: outcome for run, outcome in looks.items() if outcome is not None})
    if after != stored_state:
        ledger.commit(STATE, to_json(after), version)
    return after


def _outcome(ledger: Ledger) -> RunOutcome | None:
    lease_, version = lease.read(ledger)
    if not version or lease_.is_taken("", ledger.now()):
        return None
    manifest, state = run_manifest.read(ledger), load_state(ledger)
    if manifest is None or state is None:
        return RunOutcome(status="failed", dollars=0.0, reason=lease_.problem or "it never began")
    # It is driven no more, so its bill holds the highest cost of all unreported attempts.
    plan = manifest.plan()
    dollars = float(budget.dollars(plan, budget.with_waiting(plan, state)))
    if state.status == "finished":
        return RunOutcome(status="finished", dollars=dollars, reason=state.reason)
    if state.status == "running" and not lease_.problem:
        return RunOutcome(status="interrupted", dollars=dollars)
    return RunOutcome(status="failed", dollars=dollars, reason=lease_.problem or state.reason)


def _keep_going(deployment: TenantDeployment, plan: StudyPlan, run: str, is_live: bool) -> None:
    """Begin an active run unless an earlier governor has. List it again if a governor died before it could."""
    ledger = deployment.outside(run).ledger
    lease_, version = lease.read(ledger)
    if version:
        if lease_.holder == lease.CLOUD and not is_live:
            _list(deployment, run, plan.coordinator)
        return
    _list(deployment, run, plan.coordinator)
    try:
        lease.write(ledger, lease.Lease(holder=lease.CLOUD), 0)
    except StaleVersion:
        return  # another governor has begun it
    # A sweep that saw the run without a driver may have removed it from the list.
    _list(deployment, run, plan.coordinator)
    with suppress(StorageFault):  # the sweep wakes it
        deployment.wake(plan.coordinator, run)


def _stop_run(deployment: TenantDeployment, plan: StudyPlan, run: str) -> None:
    ledger = deployment.outside(run).ledger
    if not lease.read(ledger)[0].stop:
        with suppress(StaleVersion, StorageFault):  # the sweep calls another governor
            lease.ask_to_stop(ledger)
            deployment.wake(plan.coordinator, run)


def _list(deployment: TenantDeployment, run: str, coordinator: str) -> None:
    with suppress(StaleVersion):
        deployment.live.commit(run, coordinator.encode(), 0)
