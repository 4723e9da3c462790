"""decide(plan, state) -> command: the next step of a run, as a pure function. It uses no clock, randomness, input or
output."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import msgspec

from marless.coordinator.core import budget
from marless.coordinator.core.budget import affordable, allowed_s, is_granted
from marless.coordinator.core.controller import is_payable
from marless.coordinator.core.events import Abandoned, Finishing, Stopped
from marless.coordinator.core.planning.next_placement import round_price
from marless.coordinator.core.round_graph import PHASES, OpenGate, WorkAttempt, coming_learners, open_gates, task_name
from marless.coordinator.core.round_nodes import Node
from marless.coordinator.core.state import Plan, Slot, State


@dataclass(frozen=True)
class Dispatch:
    """Start these attempts, after a commit that records them as dispatched.

    `awaited`: sets of unanswered works that other tasks wait for. A set's last answer calls for a decision.
    """

    tasks: tuple[WorkAttempt, ...]
    awaited: tuple[Collection[str], ...] = ()


@dataclass(frozen=True)
class Wait:
    """Do nothing until a function reports."""


@dataclass(frozen=True)
class Advance:
    """Every task of the phase is answered: continue with the next phase."""


Command = Dispatch | Wait | Advance | Abandoned | Finishing | Stopped
"""What a driver does next; where that only changes the state, the event that it applies."""


def decide(plan: Plan, state: State) -> Command:
    """The next command. The same plan and state always give the same one."""
    if state.status != "running":
        return Stopped(state.status, state.reason)
    gates, waiting = open_gates(plan, state), state.waiting
    ready = _ready(gates, waiting)
    if state.phase == "round" and not state.slots and (reason := limit_reached(plan, state, ready)):
        return _nothing_trained(plan, state, ready) if reason == "dollars" and not state.round else Finishing(reason)
    if not ready:
        return Wait() if waiting else Advance()
    if obstacle := _obstacle(plan, state, ready):
        # The attempts in flight are paid for: their reports are awaited first.
        return Wait() if waiting else obstacle
    if plan.platform.at_once is not None:
        ready = ready[: max(0, plan.platform.at_once - len(waiting))]
    if not ready:
        return Wait()
    return Dispatch(tuple(_attempt(plan, state, node) for node in ready), _awaited(gates))


def _ready(gates: list[OpenGate], waiting: Mapping[str, Slot]) -> list[Node]:
    # A gate may have thousands of tasks, so only gates that do more than wait make their tasks.
    works_of = [(gate.nodes, gate.unanswered - waiting.keys()) for gate in gates]
    return [node for nodes, works in works_of if works for node in nodes() if node.name in works]


def _awaited(gates: list[OpenGate]) -> tuple[set[str], ...]:
    """Return the works without an answer that other tasks wait for, as one set per combination of waiting gates."""
    by_waiters = defaultdict[tuple[str, ...], set[str]](set)
    for gate in gates:
        if gate.waiters:
            by_waiters[gate.waiters] |= gate.unanswered
    return tuple(by_waiters.values())


def limit_reached(plan: Plan, state: State, nodes: list[Node]) -> str:
    """Return the limit that ends the run at the start of a round that begins with `nodes`, or ''."""
    stop = plan.config.stop
    if stop.rounds is not None and state.round >= stop.rounds:
        return "rounds"
    if stop.env_steps is not None and state.env_steps >= stop.env_steps:
        return "env_steps"
    if stop.seconds is not None and state.seconds >= stop.seconds:
        return "seconds"
    if not is_payable(plan.config, state.controller, round_price(plan, state)):
        return "dollars"
    if stop.dollars is not None and not affordable(plan, state, [*nodes, *coming_learners(plan, state)]):
        return "dollars"
    return ""


def _nothing_trained(plan: Plan, state: State, nodes: list[Node]) -> Stopped:
    """End a run if its cap cannot pay for one round, which would begin with `nodes`."""
    cap = plan.config.stop.dollars
    price = round_price(plan, state)
    listed = 0.0 if is_payable(plan.config, state.controller, price) else price.dollars(state.controller.rollouts)
    needed = max(listed, budget.least_cap(plan, state, [*nodes, *coming_learners(plan, state)]))
    what = "a round with the evaluations at the end may cost more than"
    return Stopped("stopped", f"{what} stop.dollars ({cap:g}); a resume needs stop.dollars={needed:g}")


def _obstacle(plan: Plan, state: State, ready: list[Node]) -> Command | None:
    """The command if the `ready` attempts must not start."""
    if plan.allowance and not is_granted(plan, state, ready):
        return Wait() if plan.allowance.grows else Stopped("stopped", plan.allowance.reason)
    if PHASES[state.phase].optional and (event := _abandon_reason(plan, state, ready)):
        return Abandoned(event)
    return _stop_reason(plan, state, ready)


def _abandon_reason(plan: Plan, state: State, ready: list[Node]) -> str:
    if any(_give_up_reason(plan, state, node) for node in ready):
        return "skipped"
    return "" if affordable(plan, state, ready) else "unaffordable"


def _stop_reason(plan: Plan, state: State, ready: list[Node]) -> Stopped | None:
    for node in ready:
        if problem := _give_up_reason(plan, state, node):
            return Stopped("failed", problem)
    if affordable(plan, state, ready):
        return None
    cap = plan.config.stop.dollars
    return Stopped("stopped", f"the next attempt could pass stop.dollars ({cap}); a resume needs a higher one")


def _give_up_reason(plan: Plan, state: State, node: Node) -> str:
    if (slot := state.slots.get(node.name)) is None:
        return ""
    if slot.not_retryable:
        return f"{task_name(state, node.name)}: {slot.problem}"
    if slot.failures >= plan.config.attempts:
        attempts = f"{slot.failures} attempt{'s' if slot.failures > 1 else ''}"
        return f"{task_name(state, node.name)} failed after {attempts}, last: {slot.problem}"
    return ""


def _attempt(plan: Plan, state: State, node: Node) -> WorkAttempt:
    slot = state.slots.get(node.name)
    request = msgspec.structs.replace(
        node.request(),
        attempt=slot.attempt + 1 if slot else 0,
        timeout_s=allowed_s(plan, state, node),
        inline_objects=state.round_placement is not None and state.round_placement.inline_objects,
    )
    return WorkAttempt(node.item.function, request, node.name, node.item)
