"""The coordinator as a Lambda function: a shell around `marless.coordinator.drive.detached_turn` that events wake.

An event names a run of this tenant, or a study. `{"sweep": true}` comes from the schedule and means all live runs and
studies. Nothing else in an event is trusted: the ledger decides the next step.
"""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from msgspec.structs import asdict

from marless.coordinator.core import budget
from marless.coordinator.core.state import Plan, State
from marless.coordinator.drive import lease, run_manifest
from marless.coordinator.drive.completion_reports import Detached
from marless.coordinator.drive.detached_turn import CloudPorts, TurnResult, take_turn
from marless.coordinator.drive.lease import Lease
from marless.coordinator.drive.ledger_items import STATE, LedgerJournal, Unresumable, load_state
from marless.coordinator.drive.ports import Ports
from marless.coordinator.pricing.bill import Meter
from marless.functions.encoding import to_json
from marless.functions.errors import StaleVersion, StorageFault
from marless.infra.aws.detached_ports import Deployed, RunPorts, own_deployment
from marless.infra.entry.instrumentation import instrument
from marless.infra.local.own_process import OwnTime

if TYPE_CHECKING:
    from marless.coordinator.governor.tenant_budget import Allowance

# The most characters of a problem in a lease.
_LONGEST_PROBLEM = 400


class Coordinator:
    """The Lambda handler, one for each execution environment."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._deployed: Deployed = own_deployment(environ)
        self._memory_mb = int(environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"])
        self._log, self._metrics = Logger(), Metrics()
        self._metrics.set_default_dimensions(Tenant=self._deployed.settings.tenant)
        self._time = OwnTime()

    def __call__(self, event: dict[str, Any], context: Any) -> dict[str, Any]:
        """Wake every live run, or take a turn of one run. Returns the outcome.

        Raises errors that another turn may not meet. A hopeless run is released, with the problem in its lease.
        """
        self._time.begin()
        if event.get("sweep"):
            # A sweep is billed to the deployment, not to a run.
            self._time.waive()
            return self._sweep()
        try:
            return self._wake(event)
        finally:
            self._time.end()

    def _repeated(self) -> Meter:
        return Meter(**asdict(self._deployed.retries.take()))

    def _sweep(self) -> dict[str, Any]:
        """Sends every live run an event, on the coordinator version that it began with."""
        runs, failures = self._deployed.live.items(""), []
        for run, coordinator in runs:
            try:
                self._deployed.wake(coordinator.decode(), run)
            except StorageFault as fault:  # the other runs are still woken
                self._log.error(str(fault), extra={"run": run})
                failures.append(run)
        if failures:
            raise StorageFault(f"could not wake {', '.join(failures)}")
        return {"woken": len(runs)}

    def _wake(self, event: dict[str, Any]) -> dict[str, Any]:
        run, tenant = event["run"], event["tenant"]
        self._log.set_correlation_id(run)
        if tenant != self._deployed.settings.tenant:
            raise ValueError(f"this deployment is of tenant {self._deployed.settings.tenant}, not of {tenant}")
        if run.startswith(run_manifest.STUDY):
            return self._govern(run)
        outside, start_time = self._deployed.outside(run), time.time()
        current, version = lease.read(outside.ledger)
        if current.holder != lease.CLOUD:
            if not current.is_taken("", outside.ledger.now()):  # a process that holds it may be about to hand it over
                self._unlist(run, outside)
            return {"run": run, "left": current.holder or "nobody"}
        try:
            return self._take_turn(outside, current, version)
        except StaleVersion:
            # Other turns were quicker again and again, and each does all that it finds.
            return {"run": run, "overtaken": True}
        except Exception as error:
            if not (current.stop or _for_good(error, outside, start_time)):
                raise  # the next sweep takes another turn
            problem = f"{type(error).__name__}: {error}"
            self._log.exception(problem)
            self._let_go(run, outside, version, problem)
            with suppress(StaleVersion):
                self._close_share(run)
            self._count_failed_run()
            return {"run": run, "problem": problem}

    def _govern(self, study: str) -> dict[str, Any]:
        """Takes a step of a study, which is billed to the deployment, as sweeps are."""
        from marless.coordinator.drive import study_governor

        self._time.waive()
        try:
            return study_governor.govern(self._deployed, study)
        except StaleVersion:
            # Other governors were quicker, so the sweep calls another governor.
            return {"run": study, "overtaken": True}

    def _take_turn(self, outside: RunPorts, current: Lease, version: int) -> dict[str, Any]:
        if (manifest := run_manifest.read(outside.ledger)) is None:
            raise Unresumable("its ledger does not say what it was asked to be")
        platform = msgspec.structs.replace(manifest.platform, coordinator_mb=self._memory_mb)
        plan, sender = replace(manifest.plan(), platform=platform), self._deployed.sender(manifest.functions)
        plan, granted_bytes = self._limited(manifest.study, plan) if manifest.study else (plan, ())
        plan = replace(plan, allowance=self._allowance(plan, outside))
        ports = Ports(outside.storage, outside.ledger, sender, LedgerJournal(outside.ledger), self._repeated)

        cloud = CloudPorts(outside.completions, outside.heads, sender, time.time)
        # A lease has a few bytes, and the smallest read unit is four kilobytes.
        loads = (len(to_json(manifest)), 0, *granted_bytes)
        detached = Detached(manifest.functions["coordinator"], self._time.take, loads)
        dispatching = not current.stop
        result = take_turn(plan, ports, cloud, detached, dispatching, current.resume)
        after = result.after
        self._emit_metrics(plan, result)
        is_over = after.status != "running" or not (dispatching or after.waiting)
        if plan.allowance:
            self._settle(plan, after, is_over)
        if is_over:
            self._let_go(plan.run, outside, version, "")
            if manifest.study:
                with suppress(StorageFault):  # the sweep wakes it, too
                    self._deployed.wake(manifest.functions["coordinator"], manifest.study)
        if after.status == "failed":
            self._count_failed_run()
        return {"run": plan.run, "round": after.round, "phase": after.phase, "status": after.status}

    def _limited(self, study: str, plan: Plan) -> tuple[Plan, tuple[int, ...]]:
        """See `study_governor.limited`. The import is here because only runs of studies need it."""
        from marless.coordinator.drive import study_governor

        return study_governor.limited(self._deployed, study, plan)

    def _allowance(self, plan: Plan, outside: RunPorts) -> "Allowance | None":
        """Return the run's allowance. Reads and writes of the budget are billed to the deployment, like a sweep."""
        from marless.coordinator.governor import tenant_budget

        def _bill() -> Decimal:
            state = load_state(outside.ledger)
            return budget.dollars(plan, state.meter) if state else Decimal(0)

        day = time.strftime("%Y-%m-%d", time.gmtime())
        return tenant_budget.enter(self._deployed.budget, plan.run, _bill, day)

    def _settle(self, plan: Plan, state: State, is_over: bool) -> None:
        """Write the run's bill into the tenant's budget, and the bill that it may reach before its next turn."""
        from marless.coordinator.governor import tenant_budget

        at_end, bill = budget.with_waiting(plan, state), budget.dollars(plan, state.meter)
        most = budget.dollars(plan, at_end) if is_over else budget.most_dollars(plan, state, [])
        tenant_budget.change(
            self._deployed.budget, lambda before: tenant_budget.with_bill(before, plan.run, bill, most, not is_over)
        )

    def _close_share(self, run: str) -> None:
        from marless.coordinator.governor import tenant_budget

        tenant_budget.change(self._deployed.budget, lambda before: tenant_budget.without_turns(before, run))

    def _count_failed_run(self) -> None:
        self._metrics.add_metric(name="FailedRuns", unit=MetricUnit.Count, value=1)
        self._metrics.flush_metrics()

    def _let_go(self, run: str, outside: RunPorts, version: int, problem: str) -> None:
        """Releases the lease unless the user has written it since it was read."""
        problem = " ".join(problem.split())[:_LONGEST_PROBLEM]
        with suppress(StaleVersion):
            lease.write(outside.ledger, Lease(problem=problem), version)
            self._unlist(run, outside)

    def _unlist(self, run: str, outside: RunPorts) -> None:
        """Removes the run from the live runs, and lists it again if it was handed over meanwhile."""
        record = self._deployed.live.load(run)
        self._deployed.live.remove(run)
        if record is not None and lease.read(outside.ledger)[0].holder == lease.CLOUD:
            with suppress(StaleVersion):
                self._deployed.live.commit(run, record.body, 0)

    def _emit_metrics(self, plan: Plan, result: TurnResult) -> None:
        before, after = result
        dollars = budget.dollars(plan, after.meter) - (budget.dollars(plan, before.meter) if before else 0)
        rounds = after.round - (before.round if before else 0)
        if not dollars:
            return
        self._metrics.add_metric(name="Spend", unit=MetricUnit.NoUnit, value=float(dollars))
        self._metrics.add_metric(name="Rounds", unit=MetricUnit.Count, value=rounds)
        self._metrics.flush_metrics()
        self._log.info("turn", extra={"round": after.round, "phase": after.phase, "status": after.status})


def _for_good(error: Exception, outside: RunPorts, start_time: float) -> bool:
    """Return whether every further wake would fail in the same way. Storage may answer again, and another turn may have
    deleted objects that this one, begun at `start_time`, had yet to read."""
    if isinstance(error, StorageFault):
        return False
    record = outside.ledger.load(STATE)
    return record is None or record.at < start_time


handler = instrument(Coordinator(os.environ), os.environ)
