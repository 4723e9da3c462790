"""The round graph: the tasks of a phase, what each waits for, and how its request is made; from plan and state alone.

What a task reads is asked of its request (`Order.reads` in `messages.order`): the bill, the cap, the objects that
travel along and the pool all count by that. A phase ends where the coordinator decides on results; within a phase a
task may begin once all tasks of the gates that it waits for are answered, whatever else is still in flight:

    sample ──► learn/0 ──► learn/1 ... ──► end of the round
    evaluate ────────────────────────────► end of the round

With `pipeline.lag` learning waits for nothing, as what it reads was sampled in an earlier round:

    sample ──────────────────────────────► end of the round
    evaluate ────────────────────────────► end of the round
    learn/0 ──► learn/1 ... ─────────────► end of the round

With micro-batches (`pipeline.rollouts`) sums over the first rollouts are made while others are still played:

    sample/0 ──► grad/0 ──┐
    sample/1 ──► grad/1 ──┴─► learn/0 ──► learn/1 ... ──► end of the round
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from marless.coordinator.core import controller, requests, rounds
from marless.coordinator.core.league_matches import matches
from marless.coordinator.core.opponents import evaluated_side
from marless.coordinator.core.state import Phase, Plan, State, WorkItem
from marless.coordinator.core.state_location import (
    REGROUP,
    WHOLE,
    learner_schedule,
    locations_after_learning,
    policies_in,
    serving,
    spec_of,
    sum_works,
)
from marless.coordinator.core.warm_functions import NOTHING, kept_dataset, kept_past, served_by
from marless.coordinator.placement.placement_rules import PLACEMENTS, SUMS, Work
from marless.coordinator.rules.sharing_trial import schedule
from marless.functions import keys
from marless.functions.algorithms.specification import StageSpec
from marless.functions.environments.base import EnvTask
from marless.functions.messages.actor import SampleTask
from marless.functions.messages.evaluator import EvaluateTask
from marless.functions.messages.exchange import Request
from marless.functions.messages.learner import LearnTask
from marless.functions.messages.message import Ref
from marless.functions.messages.order import Attempt
from marless.functions.messages.team import Team
from marless.functions.messages.usage import Usage

# The most objects of results that one attempt stores: what a lost attempt may have cost.
MOST_PUTS = 4
# An attempt reads an earlier answer, and objects under keys that are taken.
EXTRA_GETS = 1 + MOST_PUTS
# Interim analyses of a trial, at most.
LOOKS = 4
# An object that a later task will read.
_TO_COME = Ref(key="", sha256="", size=0)


class Node(msgspec.Struct, frozen=True, gc=False):
    """A task by name, with what serves it. `maker` makes its request from the name and the `part` of the work that it
    is: only tasks that are dispatched need one."""

    name: str
    item: WorkItem
    maker: Callable[[str, Any], Request]
    part: Any = None

    def request(self) -> Request:
        """The request of the first attempt, without a time limit."""
        return self.maker(self.name, self.part)


class Gate(NamedTuple):
    """Tasks that others wait for together; they may begin once the tasks of the gates `after` are answered."""

    name: str
    works: Collection[str]
    nodes: Callable[[], list[Node]]
    after: tuple[str, ...] = ()


class OpenGate(NamedTuple):
    """A gate whose tasks may begin: those without an answer, and the gates that wait for them."""

    unanswered: set[str]
    nodes: Callable[[], list[Node]]
    waiters: tuple[str, ...]


class WorkAttempt(Attempt, frozen=True, gc=False):
    """One attempt at a work item."""

    work: str
    item: WorkItem


def in_flight(plan: Plan, state: State) -> list[Node]:
    """The tasks of the phase that may begin, or have begun; without those of gates whose tasks are all answered."""
    return [node for gate in open_gates(plan, state) for node in gate.nodes()]


def open_gates(plan: Plan, state: State) -> list[OpenGate]:
    """The gates of the phase whose tasks may begin and are not all answered."""
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
    samples = () if PLACEMENTS[state.placement.rule].one_function else rounds.rollout_packs(plan, state)
    waves, lag = learner_schedule(plan, state), plan.config.pipeline.lag
    works = [work for wave in waves for work in wave]
    coming_works = [work for wave in waves[lag > 0 :] for work in wave]
    summing_works = _summing(plan, state)
    if not coming_works:
        return []
    learned = rounds.learned_round(plan, state) if lag else rounds.sampled_round(state, (_TO_COME,) * len(samples))
    tensors = (_TO_COME,) * (len(works) + len(summing_works))
    gets = _gets(requests.learn(plan, state, learned, tensors, state.objects))
    return [
        Node(work.name, _item(plan, state, "learner", kind, gets, peers=peers), _unready)
        for work, kind, peers in (
            *((work, work.kind(spec_of(plan).stages), len(works)) for work in coming_works),
            *((work, SUMS, len(summing_works)) for work in summing_works),
        )
    ]


def _unready(name: str, part: None) -> Request:
    raise ValueError(f"{name} cannot begin yet")


def ending(plan: Plan, state: State) -> list[Node]:
    """The evaluations that end every run and are not in flight yet, of the present policies."""
    streams = list(last_episodes(plan))
    if state.phase in streams:
        del streams[: streams.index(state.phase) + 1]
    return (
        []
        if PHASES[state.phase].sets_up
        else [node for stream in streams for node in _last_evaluations(plan, state, stream, state.policies, state.team)]
    )


def served_after(plan: Plan, state: State) -> dict[str, tuple[int, ...]]:
    """`State.served` after the phase in flight."""
    if state.phase != "round":
        return state.served
    if PLACEMENTS[state.placement.rule].one_function:
        # What the task plays is not stored yet when it fills its buffer.
        return served_by(state, "learner", 1, state.round - 1)
    learners = max(map(len, learner_schedule(plan, state)), default=0)
    state = replace(state, served=served_by(state, "actor", len(rounds.rollout_packs(plan, state)), state.round))
    return served_by(state, "learner", learners, state.round - plan.config.pipeline.lag)


def _describe(plan: Plan, state: State) -> list[Gate]:
    item = _item(plan, state, "actor", "describe")
    return [_gate("describe", [Node("describe", item, lambda name, part: requests.describe(plan, state))])]


def _initialise(plan: Plan, state: State) -> list[Gate]:
    request = requests.initialise(plan, state)
    item = _item(plan, state, "learner", "initialise", _gets(request))
    return [_gate("initialise", [Node("initialise", item, lambda name, part: request)])]


def _round(plan: Plan, state: State) -> list[Gate]:
    playing, learning = round_gates(plan, state)
    if rounds.is_evaluated(plan, state):
        nodes = evaluations(plan, state, "evaluate", plan.config.evaluation.episodes, state.policies)
        playing.append(_gate("evaluate", nodes))
    # Learners that wait for nothing begin first: they take longer than what is played beside them, and a round that
    # begins with its longest tasks ends sooner (Graham 1969, "Bounds on Multiprocessing Timing Anomalies").
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
        for number, works in enumerate(sum_works(plan, state, len(rounds.micro_batches(plan, state))))
    ]
    before_learning = () if plan.config.pipeline.lag else tuple(gate.name for gate in sums_gates or playing)
    learning = [
        Gate(
            name=f"learn/{wave}",
            works=[work.name for work in works],
            nodes=partial(learns, plan, state, wave),
            after=(f"learn/{wave - 1}",) if wave else before_learning,
        )
        for wave, works in enumerate(learner_schedule(plan, state))
    ]
    return playing + sums_gates, learning


def _gate(name: str, nodes: list[Node]) -> Gate:
    """A gate whose tasks wait for nothing."""
    return Gate(name, [node.name for node in nodes], lambda: nodes)


def _sampling(plan: Plan, state: State) -> list[Gate]:
    """The gates of the tasks that play: one for each micro-batch, or one."""
    if PLACEMENTS[state.placement.rule].one_function:
        return [Gate("sample", rounds.rollout_packs(plan, state), partial(_whole, plan, state))]
    if parts := rounds.micro_batches(plan, state):
        firsts = itertools.accumulate(map(len, parts), initial=0)
        return [
            Gate(f"sample/{number}", packs, partial(samples, plan, state, packs, first))
            for number, (packs, first) in enumerate(zip(parts, firsts, strict=False))
        ]
    packs = rounds.rollout_packs(plan, state)
    return [Gate("sample", packs, partial(samples, plan, state, packs))]


def samples(plan: Plan, state: State, packs: Mapping[str, tuple[int, ...]], first: int = 0) -> list[Node]:
    """The tasks that play these packs of rollouts of the round, of which `first` others come before."""
    like = requests.sample(plan, state)
    match_of = matches(plan.config, state.env_spec, state.league, state.round, state.controller.rollouts)

    def make(name: str, pack: tuple[int, ...]) -> SampleTask:
        sampling = replace(like.sampling, rollouts=pack, unfinished=rounds.begun_episodes(state, pack))
        request = replace(like, address=requests.address(plan, state, name), sampling=sampling)
        match = match_of.get(pack[0])
        return replace(request, match=requests.match(state, like, *match)) if match else request

    gets = _gets(_largest(state, like, packs.values()))
    items = _sample_items(plan, state, [len(pack) for pack in packs.values()], gets, first)
    return [Node(name, item, make, pack) for (name, pack), item in zip(packs.items(), items, strict=True)]


def _largest(state: State, like: SampleTask, packs: Collection[tuple[int, ...]]) -> SampleTask:
    """A sampling task that reads as much as any of the round may."""
    opponents = max((one.policies for one in state.league.checkpoints), key=len) if state.league else ()
    most_begun = max((rounds.begun_episodes(state, pack) for pack in packs), key=len) if state.unfinished else ()
    return replace(like, policies=like.policies + opponents, sampling=replace(like.sampling, unfinished=most_begun))


def _sample_items(plan: Plan, state: State, sizes: list[int], gets: int, first: int) -> list[WorkItem]:
    """The work items of tasks with so many rollouts, equal ones once."""
    memory_mb = function_memory(plan, state, serving(plan, "actor"))
    by_size, items = dict[tuple[int, int], WorkItem](), []
    peers = len(rounds.rollout_packs(plan, state))
    for number, size in enumerate(sizes, first):
        hits = kept_dataset(plan, state, "actor", number, memory_mb)
        if (size, hits.hits) not in by_size:
            by_size[size, hits.hits] = _item(
                plan, state, "actor", "sample", gets, size=size, peers=peers, expected_hits=hits
            )
        items.append(by_size[size, hits.hits])
    return items


def _whole(plan: Plan, state: State) -> list[Node]:
    request = requests.whole(plan, state)
    memory_mb = function_memory(plan, state, serving(plan, "learner"))
    item = _item(
        plan,
        state,
        "learner",
        "whole",
        _gets(request),
        weight=request.rounds,
        size=state.controller.rollouts * request.rounds,
        expected_hits=kept_dataset(plan, state, "learner", 0, memory_mb) + kept_past(state, 0, request.learning.past),
    )
    return [Node(WHOLE, item, lambda name, part: request)]


def learns(plan: Plan, state: State, wave: int) -> list[Node]:
    """The tasks of one wave of the round's learning; earlier waves must be answered."""
    waves = learner_schedule(plan, state)
    before = [work for works in waves[:wave] for work in works]
    publishers = [work for work in before if work.publish and work.first == waves[wave][0].first]
    summing = _summing(plan, state)
    learned = rounds.learned_round(plan, state)
    if wave:
        objects, parts = locations_after_learning(plan, state, wave)
        served_before = served_by(state, "learner", max(map(len, waves[:wave])), learned.round)
        state = replace(state, objects=objects, parts=parts, served=served_before)
    like = requests.learn(plan, state, learned, () if summing else _published(state, publishers))
    spec, peers, nodes = spec_of(plan), sum(map(len, waves)), []
    for number, work in enumerate(waves[wave]):
        of_groups = [one for one in summing if not {*one.groups}.isdisjoint(work.groups)]
        reading = replace(like, tensors=like.tensors + _published(state, of_groups))
        kind, hits = work.kind(spec.stages), kept_past(state, number, like.learning.past)
        nodes.append(_learn(plan, state, work, spec.stages, kind, peers, reading, learned.rollouts, hits))
    return nodes


def sums(plan: Plan, state: State, micro_batch: int) -> list[Node]:
    """The tasks that sum over a micro-batch, whose rollouts must be sampled."""
    parts = rounds.micro_batches(plan, state)
    packs, works = parts[micro_batch], sum_works(plan, state, len(parts))[micro_batch]
    peers = len(parts) * len(works)
    sampled = rounds.sampled_round(state, rounds.trajectories(state, packs))
    like = replace(requests.learn(plan, state, sampled, ()), partial=micro_batch)
    rollouts, stages = sum(map(len, packs.values())), (spec_of(plan).sums,)
    return [_learn(plan, state, work, stages, SUMS, peers, like, rollouts) for work in works]


def _summing(plan: Plan, state: State) -> list[Work]:
    """The invocations that sum over micro-batches of the round, of all of them."""
    return [work for works in sum_works(plan, state, len(rounds.micro_batches(plan, state))) for work in works]


def _published(state: State, works: list[Work]) -> tuple[Ref, ...]:
    """The tensors that these works have stored for later ones of the round."""
    return tuple(done.objects["tensors"] for work in works if (done := state.slots[work.name].done))


def _learn(
    plan: Plan,
    state: State,
    work: Work,
    stages: Sequence[StageSpec],
    kind: str,
    peers: int,
    like: LearnTask,
    rollouts: int,
    expected_hits: Usage = NOTHING,
) -> Node:
    """A task of so many rollouts, of an algorithm of these stages."""
    refs = state.refs({f"{part}/{keys.group_name(group)}" for part, group in work.reads(stages)})
    trains = work.trains(stages)
    size = work.size(partial(rounds.agents_learned_from, plan, state)) * rollouts * rounds.rollout_steps(plan, state)
    gets = _gets(replace(like, state=refs))
    item = _item(plan, state, "learner", kind, gets, size=size, peers=peers, expected_hits=expected_hits)

    def make(name: str, part: None) -> LearnTask:
        """The request of the attempt called `name`; summaries, which cost a look at the state, only now."""
        summaries = controller.summaries(plan.config, state.controller) if trains else ()
        return replace(
            like,
            address=requests.address(plan, state, name),
            learning=replace(like.learning, summaries=summaries, updates=work.updates),
            stages=work.stages,
            groups=work.groups,
            omissions=work.omissions,
            state=refs,
            publish_tensors=work.publish and not like.learning.micro_batch,
            first_update=work.first,
        )

    return Node(work.name, item, make)


def _regrouping(plan: Plan, state: State) -> list[Gate]:
    request = requests.regroup(plan, state)
    item = _item(plan, state, "learner", "regroup", _gets(request))
    return [_gate("regroup", [Node(REGROUP, item, lambda name, part: request)])]


def _trial(plan: Plan, state: State) -> list[Gate]:
    """The trial's episodes up to its next look, of the new and the old team on the same start states."""
    proposal, team = state.proposal, rounds.team_of(state)
    assert proposal is not None
    totals = (0, *schedule(plan.config.sharing.trial_episodes, LOOKS))
    episodes, stream = totals[proposal.look + 1] - totals[proposal.look], f"trial-{proposal.look}"
    arms = {
        "new": (policies_in(proposal.objects, proposal.parts), proposal.team),
        "old": (policies_in(*locations_after_learning(plan, state)), team),
    }
    # A trial decides how the run goes on, so it is of the env task that is learned.
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


def _last_evaluations(
    plan: Plan, state: State, stream: str, policies: tuple[Ref, ...], team: Team | None
) -> list[Node]:
    return evaluations(plan, state, stream, last_episodes(plan)[stream], policies, team)


def last_episodes(plan: Plan) -> dict[str, int]:
    """The episodes of the evaluations that end a run, in order."""
    return {"final": plan.config.evaluation.final_episodes, "absolute": 10 * plan.config.evaluation.episodes}


def evaluations(
    plan: Plan,
    state: State,
    stream: str,
    episodes: int,
    policies: tuple[Ref, ...],
    team: Team | None = None,
    prefix: str = "",
    everybody: bool = False,
    environment: EnvTask | None = None,
) -> list[Node]:
    """`episodes` greedy episodes on the start states of `stream`, in parts of `evaluation.episodes_per_invocation`.

    `policies` belong to `team`, by default the present one. `prefix` is that of the tasks' names, by default the
    stream. Where sides compete, returns are those of the `evaluated_side`; with `everybody`, of all agents.
    `environment` is by default that of evaluations.
    """
    side = None if everybody else evaluated_side(plan.config, state.env_spec)
    size = plan.config.evaluation.episodes_per_invocation
    like = requests.evaluate(plan, state, environment or plan.config.evaluated_task, stream, policies, team, side)

    def make(name: str, share: tuple[int, int]) -> EvaluateTask:
        return replace(like, address=requests.address(plan, state, name), part=share[0], episodes=share[1])

    gets, nodes = _gets(like), []
    for part, start in enumerate(starts := range(0, episodes, size)):
        count = min(size, episodes - start)
        item = _item(plan, state, "evaluator", "evaluate", gets, weight=count, peers=len(starts))
        nodes.append(Node(f"{prefix or stream}/{part:03d}", item, make, (part, count)))
    return nodes


def most_puts(plan: Plan) -> int:
    """The most objects that one attempt stores: with resources also what it asked."""
    return MOST_PUTS + bool(plan.config.resources)


def _gets(request: Request) -> int:
    """The most objects that an attempt reads, kept answers left out: their number is the environment's."""
    return EXTRA_GETS + bool(request.resources) + len(request.reads())


def _item(
    plan: Plan,
    state: State,
    function: str,
    kind: str,
    gets: int = EXTRA_GETS,
    weight: int = 1,
    size: float = 0.0,
    peers: int = 1,
    expected_hits: Usage = NOTHING,
) -> WorkItem:
    """`function` is the one that would do this work for most algorithms."""
    server = serving(plan, function)
    return WorkItem(
        function=server,
        memory_mb=function_memory(plan, state, server),
        kind=kind,
        weight=weight,
        size=size,
        peers=peers,
        gets=gets,
        expected_hits=expected_hits,
    )


def function_memory(plan: Plan, state: State, function: str) -> int:
    """Megabytes of a function: as the placement chose, else as the user set."""
    usual = plan.size_of(function).memory_mb
    return state.round_placement.memory_mb.get(function, usual) if state.round_placement else usual


@dataclass(frozen=True)
class PhaseOfRun:
    """A phase: its tasks, and what others must know of it."""

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
    "initialise": PhaseOfRun(_initialise, "starting", sets_up=True),
    "round": PhaseOfRun(_round, in_round=True),
    "regroup": PhaseOfRun(_regrouping, in_round=True, optional=True),
    "trial": PhaseOfRun(_trial, in_round=True, optional=True),
    "final": PhaseOfRun(_last, "final evaluation", ends=True),
    "absolute": PhaseOfRun(_last, "absolute metric", ends=True),
}


def task_name(state: State, work: str) -> str:
    """The name of a task in flight for the user, with its round if it has one: ``sample/00000-00000 of round 1``."""
    return f"{work} of round {state.round + 1}" if PHASES[state.phase].in_round else work
