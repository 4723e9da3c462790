"""The nodes of the round graph: each task with the function that serves it, and with the maker of its request.

By the model of the bill, reads of objects that warm functions have kept are not billed. Every invocation of a wave has
a separate execution environment. The i-th invocation of every wave uses the same environment, and environments live
until the run ends. An environment keeps the same data as a deployed function (`marless.functions.warm_cache`): the
run's dataset, if it fits, and its replay buffer. The number of local processes does not matter, so the bill is the same
everywhere. docs/decisions/0021 compares the model with AWS.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from marless.coordinator.core import controller, requests, rounds
from marless.coordinator.core.league_matches import matches
from marless.coordinator.core.opponents import evaluated_side
from marless.coordinator.core.state import Plan, State, WorkItem
from marless.coordinator.placement.placement_rules import SUMS, Work
from marless.functions import keys
from marless.functions.algorithms.specification import StageSpec
from marless.functions.environments.base import EnvTask
from marless.functions.function_specs import share_of
from marless.functions.messages.actor import SampleTask
from marless.functions.messages.evaluator import EvaluateTask
from marless.functions.messages.exchange import Request
from marless.functions.messages.learner import LearnTask, Past, past_objects
from marless.functions.messages.message import Ref
from marless.functions.messages.team import Team
from marless.functions.messages.usage import Usage

NOTHING = Usage()


def kept_dataset(plan: Plan, state: State, function: str, number: int, memory_mb: int) -> Usage:
    """The hit of a task that reads the run's dataset in the environment `number` of its function, or no hit."""
    if plan.inputs.dataset is None or number >= len(state.warm_rounds.get(function, ())):
        return NOTHING
    size = plan.inputs.dataset.size
    return Usage(hits=1, hit_bytes=size) if size <= share_of(memory_mb) else NOTHING


def kept_past(state: State, number: int, past: tuple[Past, ...]) -> Usage:
    """The hits of a learner's task in the rounds of its replay buffer, in the learner's environment `number`."""
    newest_rounds = state.warm_rounds.get("learner", ())
    if number >= len(newest_rounds) or not past:
        return NOTHING
    held_refs = past_objects(tuple(round_ for round_ in past if round_.round <= newest_rounds[number]))
    return Usage(hits=len(held_refs), hit_bytes=sum(ref.size for ref in held_refs))


def warm_by(state: State, function: str, environments: int, newest: int) -> dict[str, tuple[int, ...]]:
    """`State.warm_rounds` after so many environments of a function have kept the rounds up to `newest`."""
    others = state.warm_rounds.get(function, ())[environments:]
    return {**state.warm_rounds, function: (newest,) * environments + others}


def keeps(plan: Plan) -> bool:
    """Return whether functions keep any data of the run."""
    return plan.inputs.dataset is not None or plan.config.algorithm.replayed_steps > 0


def billed(usage: Usage, expected_hits: Usage, attempt: int) -> Usage:
    """Return the storage operations of an attempt on the bill. `WorkItem` explains `expected_hits`.

    An attempt that was refused, or found its task's answer, has not read all that its request names.
    """
    cold = usage.cold
    if cold.gets < expected_hits.hits + (attempt > 0):
        return cold
    read = max(0, cold.bytes_read - expected_hits.hit_bytes)
    return replace(cold, gets=cold.gets - expected_hits.hits, bytes_read=read)


# The most result objects that one attempt stores, which a lost attempt may have cost.
MOST_PUTS = 4
# An attempt reads an earlier answer, and objects under keys that are taken.
EXTRA_GETS = 1 + MOST_PUTS


class Node(msgspec.Struct, frozen=True, gc=False):
    """A task by name, with the function that serves it. `maker` makes its request from the name and the `part` of the
    work that it is: only tasks that are dispatched need one."""

    name: str
    item: WorkItem
    maker: Callable[[str, Any], Request]
    part: Any = None

    def request(self) -> Request:
        """The request of the first attempt, without a time limit."""
        return self.maker(self.name, self.part)


def samples(plan: Plan, state: State, packs: Mapping[str, tuple[int, ...]], first: int = 0) -> list[Node]:
    """Return the tasks that play these packs of rollouts, after `first` other tasks of the round."""
    template = requests.sample(plan, state)
    match_of = matches(plan.config, state.env_spec, state.league, state.round, state.controller.rollouts)

    def make(name: str, pack: tuple[int, ...]) -> SampleTask:
        sampling = replace(template.sampling, rollouts=pack, unfinished=rounds.begun_episodes(state, pack))
        request = replace(template, address=requests.address(plan, state, name), sampling=sampling)
        match = match_of.get(pack[0])
        return replace(request, match=requests.match(state, template, *match)) if match else request

    gets = gets_of(_largest(state, template, packs.values()))
    items = _sample_items(plan, state, [len(pack) for pack in packs.values()], gets, first)
    return [Node(name, item, make, pack) for (name, pack), item in zip(packs.items(), items, strict=True)]


def _largest(state: State, template: SampleTask, packs: Collection[tuple[int, ...]]) -> SampleTask:
    opponents = max((one.policies for one in state.league.checkpoints), key=len) if state.league else ()
    most_begun = max((rounds.begun_episodes(state, pack) for pack in packs), key=len) if state.unfinished else ()
    return replace(
        template, policies=template.policies + opponents, sampling=replace(template.sampling, unfinished=most_begun)
    )


def _sample_items(plan: Plan, state: State, sizes: list[int], gets: int, first: int) -> list[WorkItem]:
    """The work items of tasks with so many rollouts, equal ones once."""
    memory_mb = function_memory(plan, state, rounds.serving(plan, "actor"))
    by_size, items = dict[tuple[int, int], WorkItem](), []
    concurrent_items = len(rounds.rollout_packs(plan, state))
    for number, size in enumerate(sizes, first):
        hits = kept_dataset(plan, state, "actor", number, memory_mb)
        if (size, hits.hits) not in by_size:
            by_size[size, hits.hits] = item_of(plan, state, "actor", "sample", gets, 1, size, concurrent_items, hits)
        items.append(by_size[size, hits.hits])
    return items


def whole(plan: Plan, state: State) -> list[Node]:
    """The task that plays and learns the rounds in flight."""
    request = requests.whole(plan, state)
    memory_mb = function_memory(plan, state, rounds.serving(plan, "learner"))
    item = item_of(
        plan,
        state,
        "learner",
        "whole",
        gets_of(request),
        weight=request.rounds,
        size=state.controller.rollouts * request.rounds,
        expected_hits=kept_dataset(plan, state, "learner", 0, memory_mb) + kept_past(state, 0, request.learning.past),
    )
    return [Node(rounds.WHOLE, item, lambda name, part: request)]


def learns(plan: Plan, state: State, wave: int) -> list[Node]:
    """Return the tasks of one wave of the round's learning. Earlier waves must be answered."""
    waves = rounds.learner_schedule(plan, state)
    before = [work for works in waves[:wave] for work in works]
    publishers = [work for work in before if work.publish and work.first == waves[wave][0].first]
    summing = works_of_sums(plan, state)
    learned = rounds.learned_round(plan, state)
    if wave:
        objects, parts = rounds.locations_after_learning(plan, state, wave)
        warm_before = warm_by(state, "learner", max(map(len, waves[:wave])), learned.round)
        state = replace(state, objects=objects, parts=parts, warm_rounds=warm_before)
    template = requests.learn(plan, state, learned, () if summing else _published(state, publishers))
    spec, concurrent_items, nodes = rounds.spec_of(plan), sum(map(len, waves)), []
    for number, work in enumerate(waves[wave]):
        of_groups = [one for one in summing if not {*one.groups}.isdisjoint(work.groups)]
        reading = replace(template, tensors=template.tensors + _published(state, of_groups))
        kind, hits = work.kind(spec.stages), kept_past(state, number, template.learning.past)
        nodes.append(_learn(plan, state, work, spec.stages, kind, concurrent_items, reading, learned.rollouts, hits))
    return nodes


def sums(plan: Plan, state: State, micro_batch: int) -> list[Node]:
    """Return the tasks that sum over a micro-batch. Its rollouts must be sampled."""
    parts = rounds.micro_batches(plan, state)
    packs, works = parts[micro_batch], rounds.sum_works(plan, state)[micro_batch]
    concurrent_items = len(parts) * len(works)
    sampled = rounds.sampled_round(state, rounds.trajectories(state, packs))
    template = replace(requests.learn(plan, state, sampled, ()), partial=micro_batch)
    rollouts, stages = sum(map(len, packs.values())), (rounds.spec_of(plan).sums,)
    return [_learn(plan, state, work, stages, SUMS, concurrent_items, template, rollouts) for work in works]


def works_of_sums(plan: Plan, state: State) -> list[Work]:
    """The invocations that sum over micro-batches of the round, of all of them."""
    return [work for works in rounds.sum_works(plan, state) for work in works]


def _published(state: State, works: list[Work]) -> tuple[Ref, ...]:
    return tuple(done.objects["tensors"] for work in works if (done := state.slots[work.name].done))


def _learn(
    plan: Plan,
    state: State,
    work: Work,
    stages: Sequence[StageSpec],
    kind: str,
    concurrent_items: int,
    template: LearnTask,
    rollouts: int,
    expected_hits: Usage = NOTHING,
) -> Node:
    refs = state.refs({f"{part}/{keys.group_name(group)}" for part, group in work.reads(stages)})
    trains = work.trains(stages)
    size = work.size(partial(rounds.agents_learned_from, plan, state)) * rollouts * rounds.rollout_steps(plan, state)
    gets = gets_of(replace(template, state=refs))
    item = item_of(plan, state, "learner", kind, gets, 1, size, concurrent_items, expected_hits)

    def make(name: str, part: None) -> LearnTask:
        """Return the request of the attempt `name`. Only now are summaries made, which cost a look at the state."""
        summaries = controller.summaries(plan.config, state.controller) if trains else ()
        return replace(
            template,
            address=requests.address(plan, state, name),
            learning=replace(template.learning, summaries=summaries, updates=work.updates),
            stages=work.stages,
            groups=work.groups,
            omissions=work.omissions,
            state=refs,
            publish_tensors=work.publish and not template.learning.micro_batch,
            first_update=work.first,
        )

    return Node(work.name, item, make)


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

    `policies` belong to `team`, by default the present one. `prefix` begins the tasks' names, by default the stream. If
    sides compete, returns count the `evaluated_side`, or with `everybody` all agents. `environment` is by default the
    evaluations' environment.
    """
    side = None if everybody else evaluated_side(plan.config, state.env_spec)
    size = plan.config.evaluation.episodes_per_invocation
    template = requests.evaluate(plan, state, environment or plan.config.evaluated_task, stream, policies, team, side)

    def make(name: str, share: tuple[int, int]) -> EvaluateTask:
        return replace(template, address=requests.address(plan, state, name), part=share[0], episodes=share[1])

    gets, nodes = gets_of(template), []
    for part, start in enumerate(starts := range(0, episodes, size)):
        count = min(size, episodes - start)
        item = item_of(plan, state, "evaluator", "evaluate", gets, weight=count, concurrent_items=len(starts))
        nodes.append(Node(f"{prefix or stream}/{part:03d}", item, make, (part, count)))
    return nodes


def most_puts(plan: Plan) -> int:
    """Return the most objects that one attempt stores. With resources this includes its record of calls."""
    return MOST_PUTS + bool(plan.config.resources)


def gets_of(request: Request) -> int:
    """The most objects that an attempt reads, kept answers left out: their number is the environment's."""
    return EXTRA_GETS + bool(request.resources) + len(request.reads())


def item_of(
    plan: Plan,
    state: State,
    function: str,
    kind: str,
    gets: int = EXTRA_GETS,
    weight: int = 1,
    size: float = 0.0,
    concurrent_items: int = 1,
    expected_hits: Usage = NOTHING,
) -> WorkItem:
    """`function` is the one that would do this work for most algorithms."""
    server = rounds.serving(plan, function)
    return WorkItem(
        function=server,
        memory_mb=function_memory(plan, state, server),
        kind=kind,
        weight=weight,
        size=size,
        concurrent_items=concurrent_items,
        gets=gets,
        expected_hits=expected_hits,
    )


def function_memory(plan: Plan, state: State, function: str) -> int:
    """Megabytes of a function: as the placement chose, else as the user set."""
    usual = plan.size_of(function).memory_mb
    return state.round_placement.memory_mb.get(function, usual) if state.round_placement else usual
