"""The round graph: the tasks of a phase, their dependencies and their requests, from plan and state alone.

`Order.reads` (`messages.order`) gives the objects that a request reads. The bill, the cap, the pool and inlined objects
all use it. A phase ends where the coordinator decides on results. Within a phase a task may begin once all tasks of the
gates before it are answered, even if other tasks are still in flight:

    sample ──► learn/0 ──► learn/1 ... ──► end of the round
    evaluate ────────────────────────────► end of the round

With `pipeline.lag` learning waits for no task, because an earlier round sampled its input:

    sample ──────────────────────────────► end of the round
    evaluate ────────────────────────────► end of the round
    learn/0 ──► learn/1 ... ─────────────► end of the round

With micro-batches (`pipeline.micro_batch`) sums over the first rollouts are made while others are still played:

    sample/0 ──► grad/0 ──┐
    sample/1 ──► grad/1 ──┴─► learn/0 ──► learn/1 ... ──► end of the round
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from marless.coordinator.core import requests, rounds
from marless.coordinator.core.round_nodes import (
    Node,
    evaluations,
    gets_of,
    item_of,
    learns,
    samples,
    sums,
    warm_by,
    whole,
    works_of_sums,
)
from marless.coordinator.core.state import Phase, Plan, State, WorkItem
from marless.coordinator.placement.placement_rules import PLACEMENTS, SUMS
from marless.coordinator.rules.sharing import schedule
from marless.functions.messages.exchange import Request
from marless.functions.messages.message import Ref
from marless.functions.messages.order import Attempt
from marless.functions.messages.team import Team

# Interim analyses of a trial, at most.
LOOKS = 4
# An object that a later task will read.
_TO_COME = Ref(key="", sha256="", size=0)


class Gate(NamedTuple):
    """Tasks that others wait for together. They may begin once the tasks of the gates `after` are answered."""

    name: str
    works: Collection[str]
    nodes: Callable[[], list[Node]]
    after: tuple[str, ...] = ()


class OpenGate(NamedTuple):
    """A gate that may begin: its unanswered tasks, and the gates that wait for them."""

    unanswered: set[str]
    nodes: Callable[[], list[Node]]
    waiters: tuple[str, ...]


class WorkAttempt(Attempt, frozen=True, gc=False):
    """One attempt at a work item."""

    work: str
    item: WorkItem


def in_flight(plan: Plan, state: State) -> list[Node]:
    """Return the tasks of the phase that may begin or have begun, except in gates with all tasks answered."""
    return [node for gate in open_gates(plan, state) for node in gate.nodes()]


def open_gates(plan: Plan, state: State) -> list[OpenGate]:
    """Return the gates of the phase that may begin and still have an unanswered task."""
    gates, waiters = PHASES[state.phase].gates(plan, state), defaultdict[str, list[str]](list)
    for gate in gates:
        for name in gate.after:
            waiters[name].append(gate.name)
    # Rounds have thousands of tasks and decisions need all of them: one pass over the slots, the rest is set algebra.
    answered_works = {work for work, slot in state.slots.items() if slot.done is not None}
    open_ones, passed_names = list[OpenGate](), set[str]()
    for gate in gates:
        if not passed_names.issuperset(gate.after):
            continue
        if answered_works.issuperset(gate.works):
            passed_names.add(gate.name)
        else:
            open_ones.append(OpenGate({*gate.works} - answered_works, gate.nodes, tuple(waiters[gate.name])))
    return open_ones


def coming_learners(plan: Plan, state: State) -> list[Node]:
    """The learners of the round that begins which may not begin yet, each as large as the largest may be."""
    waves, lag = rounds.learner_schedule(plan, state), plan.config.pipeline.lag
    coming, summing, stages = waves[lag > 0 :], works_of_sums(plan, state), rounds.spec_of(plan).stages
    if not coming:
        return []
    samples, works = rounds.rollout_packs(plan, state), sum(map(len, waves))
    learned = rounds.learned_round(plan, state) if lag else rounds.sampled_round(state, (_TO_COME,) * len(samples))
    tensors = (_TO_COME,) * (works + len(summing))
    gets = gets_of(requests.learn(plan, state, learned, tensors, state.objects))
    kinds = [(work.name, work.kind(stages), works) for wave in coming for work in wave]
    return [
        Node(name, item_of(plan, state, "learner", kind, gets, concurrent_items=number), _unready)
        for name, kind, number in [*kinds, *((work.name, SUMS, len(summing)) for work in summing)]
    ]


def _unready(name: str, part: None) -> Request:
    raise ValueError(f"{name} cannot begin yet")


def ending(plan: Plan, state: State) -> list[Node]:
    """The evaluations that end every run and are not in flight yet, of the present policies."""
    streams = list(LAST_EVALUATIONS)
    if state.phase in streams:
        del streams[: streams.index(state.phase) + 1]
    return (
        []
        if PHASES[state.phase].sets_up
        else [node for stream in streams for node in _last_evaluations(plan, state, stream, state.policies, state.team)]
    )


def warm_after(plan: Plan, state: State) -> dict[str, tuple[int, ...]]:
    """`State.warm_rounds` after the phase in flight."""
    if state.phase != "round":
        return state.warm_rounds
    if PLACEMENTS[state.placement.rule].one_function:
        # The task fills its buffer before its own rollouts are stored.
        return warm_by(state, "learner", 1, state.round - 1)
    learners = max(map(len, rounds.learner_schedule(plan, state)), default=0)
    state = replace(state, warm_rounds=warm_by(state, "actor", len(rounds.rollout_packs(plan, state)), state.round))
    return warm_by(state, "learner", learners, state.round - plan.config.pipeline.lag)


def _describe(plan: Plan, state: State) -> list[Gate]:
    item = item_of(plan, state, "actor", "describe")
    return [_gate("describe", [Node("describe", item, lambda name, part: requests.describe(plan, state))])]


def _learner(kind: str, name: str, make: Callable[[Plan, State], Request], plan: Plan, state: State) -> list[Gate]:
    request = make(plan, state)
    item = item_of(plan, state, "learner", kind, gets_of(request))
    return [_gate(kind, [Node(name, item, lambda name, part: request)])]


def _round(plan: Plan, state: State) -> list[Gate]:
    playing, learning = round_gates(plan, state)
    if rounds.is_evaluated(plan, state):
        episodes = plan.config.evaluation_sizes(state.env_spec.horizon).episodes
        playing.append(_gate("evaluate", evaluations(plan, state, "evaluate", episodes, state.policies)))
    # Learners that wait for no task begin first: they take longer than the tasks that play. A round that begins with
    # its longest tasks ends sooner (Graham 1969, "Bounds on Multiprocessing Timing Anomalies").
    return learning + playing if plan.config.pipeline.lag else playing + learning


def round_gates(plan: Plan, state: State) -> tuple[list[Gate], list[Gate]]:
    """The gates of the tasks that play and sum, and the gates of the tasks that learn."""
    playing = _sampling(plan, state)
    sums_gates = [
        Gate(
            name=f"grad/{number}",
            works=[work.name for work in works],
            nodes=partial(sums, plan, state, number),
            after=(f"sample/{number}",),
        )
        for number, works in enumerate(rounds.sum_works(plan, state))
    ]
    before_learning = () if plan.config.pipeline.lag else tuple(gate.name for gate in sums_gates or playing)
    learning = [
        Gate(
            name=f"learn/{wave}",
            works=[work.name for work in works],
            nodes=partial(learns, plan, state, wave),
            after=(f"learn/{wave - 1}",) if wave else before_learning,
        )
        for wave, works in enumerate(rounds.learner_schedule(plan, state))
    ]
    return playing + sums_gates, learning


def _gate(name: str, nodes: list[Node]) -> Gate:
    return Gate(name, [node.name for node in nodes], lambda: nodes)


def _sampling(plan: Plan, state: State) -> list[Gate]:
    if PLACEMENTS[state.placement.rule].one_function:
        return [Gate("sample", rounds.rollout_packs(plan, state), partial(whole, plan, state))]
    if parts := rounds.micro_batches(plan, state):
        firsts = itertools.accumulate(map(len, parts), initial=0)
        return [
            Gate(f"sample/{number}", packs, partial(samples, plan, state, packs, first))
            for number, (packs, first) in enumerate(zip(parts, firsts, strict=False))
        ]
    packs = rounds.rollout_packs(plan, state)
    return [Gate("sample", packs, partial(samples, plan, state, packs))]


def _trial(plan: Plan, state: State) -> list[Gate]:
    proposal, team = state.proposal, rounds.team_of(state)
    assert proposal is not None
    totals = (0, *schedule(plan.config.sharing.trial_episodes, LOOKS))
    episodes, stream = totals[proposal.look + 1] - totals[proposal.look], f"trial-{proposal.look}"
    arms = {
        "new": (rounds.policies_in(proposal.objects, proposal.parts), proposal.team),
        "old": (rounds.policies_in(*rounds.locations_after_learning(plan, state)), team),
    }
    # A trial decides how the run continues, so it uses the env task of training.
    task, everybody = plan.config.task, not team.fixed
    nodes = [
        node
        for arm, (policies, members) in arms.items()
        for node in evaluations(
            plan, state, stream, episodes, policies, members, f"trial/{arm}/{proposal.look:03d}", everybody, task
        )
    ]
    return [_gate("trial", nodes)]


def _last(plan: Plan, state: State) -> list[Gate]:
    policies, team = state.policies, state.team
    if state.phase == "absolute" and state.best:
        policies, team = state.best.policies, state.best.team
    return [_gate(state.phase, _last_evaluations(plan, state, state.phase, policies, team))]


# The evaluations that end a run, in order: phases of the run, and fields of `EvaluationSizes`.
LAST_EVALUATIONS = ("final", "absolute")


def _last_evaluations(
    plan: Plan, state: State, stream: str, policies: tuple[Ref, ...], team: Team | None
) -> list[Node]:
    sizes = plan.config.evaluation_sizes(state.env_spec.horizon)
    return evaluations(plan, state, stream, getattr(sizes, stream), policies, team)


@dataclass(frozen=True)
class PhaseOfRun:
    """A phase: its tasks, and its properties for other modules."""

    gates: Callable[[Plan, State], list[Gate]]
    doing: str = ""
    """What views say of it."""
    sets_up: bool = False
    """There are no networks yet."""
    in_round: bool = False
    """Where its objects are damaged, its round begins anew."""
    optional: bool = False
    """The run can do without what it would bring."""
    ends: bool = False
    """It follows the last round."""


PHASES: dict[Phase, PhaseOfRun] = {
    "describe": PhaseOfRun(_describe, "starting", sets_up=True),
    "initialise": PhaseOfRun(
        partial(_learner, "initialise", "initialise", requests.initialise), "starting", sets_up=True
    ),
    "round": PhaseOfRun(_round, in_round=True),
    "regroup": PhaseOfRun(partial(_learner, "regroup", rounds.REGROUP, requests.regroup), in_round=True, optional=True),
    "trial": PhaseOfRun(_trial, in_round=True, optional=True),
    "final": PhaseOfRun(_last, "final evaluation", ends=True),
    "absolute": PhaseOfRun(_last, "absolute metric", ends=True),
}


def task_name(state: State, work: str) -> str:
    """The name of a task in flight for the user, with its round if it has one: ``sample/00000-00000 of round 1``."""
    return f"{work} of round {state.round + 1}" if PHASES[state.phase].in_round else work
