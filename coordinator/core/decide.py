"""decide(plan, state) -> command: the next step of a run, as a pure function. No clock, no randomness, no input or
output."""

from dataclasses import dataclass

import msgspec

from coordinator.core.budget import affordable, allowed_s
from coordinator.core.controller import is_payable
from coordinator.core.list_prices import round_price
from coordinator.core.state import Plan, Slot, State, Status, WorkItem
from coordinator.core.state_location import learner_schedule
from coordinator.core.tasks import EXTRA_GETS, Attempt, PlannedTask, function_memory, in_flight, learning_kind


@dataclass(frozen=True)
class Dispatch:
    """Start these attempts, after a commit that records them as dispatched."""

    tasks: tuple[Attempt, ...]


@dataclass(frozen=True)
class Wait:
    """Do nothing until a function reports."""


@dataclass(frozen=True)
class Advance:
    """Every task of the phase is answered: continue with the next phase."""


@dataclass(frozen=True)
class Abandon:
    """Abandon the proposed team and end the round with the present one; `event` as in `RoundLine`."""

    event: str


@dataclass(frozen=True)
class Finish:
    """Train no more rounds: evaluate the policies and end."""

    reason: str


@dataclass(frozen=True)
class Stop:
    """End now; `stopped` and `failed` runs can be resumed."""

    status: Status
    reason: str


Command = Dispatch | Wait | Advance | Abandon | Finish | Stop


def decide(plan: Plan, state: State) -> Command:
    """The next command. The same plan and state always give the same one."""
    if state.status != "running":
        return Stop(state.status, state.reason)
    open_slots = [slot for slot in state.slots.values() if slot.done is None]
    if open_slots and all(slot.waiting for slot in open_slots):
        return Wait()
    tasks = in_flight(plan, state)
    if state.phase == "sample" and not state.slots and (reason := limit_reached(plan, state, tasks)):
        return Finish(reason)
    ready = [task for task in tasks if task.work not in state.slots or _may_be_dispatched(state.slots[task.work])]
    if not ready:
        return Advance()
    if state.phase in ("regroup", "trial") and (event := _abandon_reason(plan, state, ready)):
        return Wait() if any(slot.waiting for slot in open_slots) else Abandon(event)
    if ending := _stop_reason(plan, state, ready):
        # The attempts in flight are paid for: their reports are awaited first.
        return Wait() if any(slot.waiting for slot in open_slots) else ending
    if plan.platform.at_once is not None:
        ready = ready[: max(0, plan.platform.at_once - sum(slot.waiting for slot in open_slots))]
    return Dispatch(tuple(_attempt(plan, state, task) for task in ready)) if ready else Wait()


def limit_reached(plan: Plan, state: State, tasks: list[PlannedTask]) -> str:
    """Which limit ends the run at the start of a round, or ''."""
    stop = plan.config.stop
    if stop.rounds is not None and state.round >= stop.rounds:
        return "rounds"
    if stop.env_steps is not None and state.env_steps >= stop.env_steps:
        return "env_steps"
    if stop.seconds is not None and state.seconds >= stop.seconds:
        return "seconds"
    if not is_payable(plan.config, state.controller, round_price(plan, state)):
        return "dollars"
    if stop.dollars is not None and not affordable(plan, state, [*tasks, *_coming_learner_tasks(plan, state, tasks)]):
        return "dollars"
    return ""


def _coming_learner_tasks(plan: Plan, state: State, tasks: list[PlannedTask]) -> list[PlannedTask]:
    """Placeholders for the learner tasks of the round that `tasks` begin, whose inputs do not exist yet."""
    actors = [task for task in tasks if task.item.kind != "evaluate"]
    works = [work for wave in learner_schedule(plan, state) for work in wave]
    # A learner reads at most every trajectory, those of earlier rounds, every object of the state and the tensors of
    # every other work item.
    gets = EXTRA_GETS + len(actors) + len(state.objects) + len(works)
    gets += sum(len(round_.trajectories) for round_ in state.past)
    memory_mb = function_memory(plan, state, "learner")
    return [
        PlannedTask(
            work.name,
            WorkItem(
                function="learner", memory_mb=memory_mb, kind=learning_kind(plan, work), peers=len(works), gets=gets
            ),
            actors[0].maker,
        )
        for work in works
    ]


def _may_be_dispatched(slot: Slot) -> bool:
    return slot.done is None and not slot.waiting


def _abandon_reason(plan: Plan, state: State, ready: list[PlannedTask]) -> str:
    """Why the proposed team, which the run can do without, is abandoned; '' when it is not."""
    if any(_give_up_reason(plan, state, task) for task in ready):
        return "skipped"
    return "" if affordable(plan, state, ready) else "unaffordable"


def _stop_reason(plan: Plan, state: State, ready: list[PlannedTask]) -> Stop | None:
    """Why the run must end instead of dispatching the ready tasks; None when it need not."""
    for task in ready:
        if problem := _give_up_reason(plan, state, task):
            return Stop("failed", problem)
    if affordable(plan, state, ready):
        return None
    cap = plan.config.stop.dollars
    return Stop("stopped", f"the next attempt could pass stop.dollars ({cap}); raise it to go on")


def _give_up_reason(plan: Plan, state: State, task: PlannedTask) -> str:
    slot = state.slots.get(task.work)
    if slot is None:
        return ""
    if slot.not_retryable:
        return f"{task.work} of round {state.round}: {slot.problem}"
    if slot.failures >= plan.config.attempts:
        attempts = f"{slot.failures} attempt{'s' if slot.failures > 1 else ''}"
        return f"{task.work} of round {state.round} failed after {attempts}, last: {slot.problem}"
    return ""


def _attempt(plan: Plan, state: State, task: PlannedTask) -> Attempt:
    slot = state.slots.get(task.work)
    attempt = slot.attempt + 1 if slot else 0
    request = msgspec.structs.replace(task.make(), attempt=attempt, timeout_s=allowed_s(plan, state, task))
    return Attempt(task.work, task.item, request)
