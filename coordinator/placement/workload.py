"""The tasks of a round in every placement, and the objects that they read and write.

Counts and bytes are those of the tasks that `coordinator.core.round_graph` makes. Prices are not considered.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from coordinator.placement import message_size
from coordinator.placement.placement_rules import (
    PACKED,
    PLACEMENTS,
    SUMS,
    WHOLE,
    Packs,
    RoundPlacement,
    Work,
    object_kind,
    packs_of_parts,
)
from coordinator.pricing.bill import Charge, Meter
from functions.algorithms.specification import StageSpec
from functions.function_specs import PLACED


class Summing(NamedTuple):
    """The `rollouts` of a micro-batch, the `stage` that sums over one, and the `bytes` of all groups' sums over it."""

    rollouts: int
    stage: StageSpec
    bytes: float


@dataclass(frozen=True)
class Workload:
    """The work of a round, independent of its placement.

    `members[group]` of the `agents` learn in a group. A rollout has `rollout_steps` environment steps and ends
    `rollout_episodes` episodes. For `most_rounds` rounds no rule reads their results and no evaluation is due. Bytes:
    `rollout_bytes` of a rollout's trajectory, `policy_bytes` of all groups' policies, `learner_bytes` of the rest of
    their state, `tensor_bytes` of all tensors that stages pass on within a round, `ledger_bytes` of the run's item,
    `table_bytes` of all tables that learners report in a round. `width` functions run at once. `regroups`: the round
    may end with another team. The stages run `updates` times. `replays`: trajectories are stored for later rounds;
    learners count as warm, so that they read only new ones. `packs`: the groups as `balanced` packs them.
    `member_rows`: every group learns from as many rows as one agent has. `unfinished_bytes` of a rollout's episodes go
    on in the next round; 0 where all end. `recorded`: rollouts are not played, so that actors read no policies.
    `input_reads`: how many other objects every task that samples reads. `opponent_reads`: the most objects with
    policies of one checkpoint of a league, whose rollouts are played by actors, each alone; None without a league.
    `lag`: how many rounds before it a round learns from; with 1 or more learners begin beside the actors.
    `summing`: how it is summed part by part; None where it is not. `base_bytes`: the object that every learner reads
    besides, because its networks are differences to what it holds; 0 where there is none.
    """

    agents: int
    members: Mapping[int, int]
    stages: Sequence[StageSpec]
    rollouts: int
    rollout_steps: int
    most_rounds: int
    rollout_bytes: float
    policy_bytes: float
    learner_bytes: float
    ledger_bytes: int
    width: int
    tensor_bytes: float = 0.0
    table_bytes: float = 0.0
    rollout_episodes: int = 0
    regroups: bool = False
    updates: int = 1
    replays: bool = False
    packs: Packs = ()
    member_rows: bool = False
    unfinished_bytes: float = 0.0
    recorded: bool = False
    input_reads: int = 0
    opponent_reads: int | None = None
    lag: int = 0
    summing: Summing | None = None
    base_bytes: float = 0.0

    def agents_learned_from(self, groups: Sequence[int]) -> int:
        """How many agents' rows the groups learn from."""
        return len(groups) if self.member_rows else sum(self.members[group] for group in groups)

    def with_base(self, reads: int, read_bytes: float) -> tuple[int, float]:
        """What a learner reads besides so many objects of so many bytes, and these."""
        return reads + (self.base_bytes > 0), read_bytes + self.base_bytes


class Task(NamedTuple):
    """`number` equal tasks of a wave, each with the objects it reads and makes.

    `reply_bytes` are in its answer and also in the header of an object that it makes; `summary_bytes` are those of the
    round's earlier replies in the objects that it reads.
    """

    function: str
    kind: str
    size: float
    reads: int
    read_bytes: float
    makes: int
    made_bytes: float
    reply_bytes: float
    number: int = 1
    summary_bytes: float = 0.0


class Gate(NamedTuple):
    """Tasks of a round, and the positions in the list of gates of those that they wait for, which precede them."""

    tasks: list[Task]
    after: tuple[int, ...]


class Object(NamedTuple):
    """An object with parts of the learner's state: the work that made it, and its kind."""

    work: str
    kind: str


@dataclass(frozen=True)
class ObjectLocations:
    """The object of every part and group in `where`, and `sizes` of the objects in bytes."""

    where: Mapping[tuple[str, int], Object]
    sizes: Mapping[Object, float]

    def weigh(self, objects: Iterable[Object]) -> tuple[int, float]:
        """The number of distinct objects, and their bytes."""
        distinct = dict.fromkeys(objects)
        return len(distinct), sum(self.sizes[item] for item in distinct)


class Layout:
    """The tasks of a workload in each placement, computed once."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self._locations: dict[str, ObjectLocations] = {}
        self._schedules: dict[tuple[str, int, int], list[list[Task]]] = {}

    def packs(self, rule: str) -> Packs:
        """The groups that learn together."""
        return self.workload.packs if PLACEMENTS[rule].balances else ()

    def locations(self, rule: str) -> ObjectLocations:
        """The objects of the learner's state; `whole` makes those that `packed` makes."""
        rule = PACKED if PLACEMENTS[rule].one_function else rule
        if rule not in self._locations:
            self._locations[rule] = _object_locations(self._works(rule), self.workload)
        return self._locations[rule]

    def schedule(self, round_placement: RoundPlacement) -> list[list[Task]]:
        """The round's tasks in waves, each of which begins after the one before it, or the one task of several rounds.

        With a lag the first learners are of one wave with the actors.
        """
        key = (round_placement.rule, round_placement.rollouts_per_invocation, round_placement.rounds_per_task)
        if key not in self._schedules:
            self._schedules[key] = (
                [[self._whole(round_placement)]]
                if PLACEMENTS[round_placement.rule].one_function
                else self._spread(round_placement)
            )
        return self._schedules[key]

    def request_bytes(self, round_placement: RoundPlacement) -> float:
        """Bytes of the largest request, inlined objects included."""
        return max(
            message_size.request_bytes(task.reads, self.workload.rollouts, self.workload.agents)
            + round_placement.inline_objects * message_size.base64_bytes(task.read_bytes + task.summary_bytes)
            for task in self._messages(round_placement)
        )

    def events(self, round_placement: RoundPlacement) -> Meter:
        """The requests beside the invocations of a round, or of a task of several rounds, if all are asynchronous."""
        meter = Meter()
        for task in (task for wave in self.schedule(round_placement) for task in wave):
            size = message_size.request_bytes(task.reads, self.workload.rollouts, self.workload.agents)
            meter += Meter(extra_requests=task.number * Meter().add_event(math.ceil(size)).extra_requests)
        return meter

    def answer_bytes(self, round_placement: RoundPlacement) -> float:
        """Bytes of the largest answer, inlined objects included."""
        return max(_answer_bytes(task, round_placement.inline_objects) for task in self._messages(round_placement))

    def answers_bytes(self, round_placement: RoundPlacement) -> float:
        """Bytes of all answers of a round, or of a task of several rounds."""
        return sum(
            task.number * _answer_bytes(task, round_placement.inline_objects)
            for wave in self.schedule(round_placement)
            for task in wave
        )

    def most_rounds(self, inline_objects: bool, size: float) -> int:
        """How many rounds one task of `whole` can run with an answer of at most `size` bytes; at least one."""
        _, state_bytes = self.locations(WHOLE).weigh(self.locations(WHOLE).where.values())
        around = message_size.answer_bytes(2, inline_objects * message_size.base64_bytes(state_bytes))
        a_round = self._sampled_bytes() + self._learned_bytes()
        return max(1, int((size - around) // (a_round + inline_objects * message_size.base64_bytes(a_round))))

    def operations(self, round_placement: RoundPlacement) -> Meter:
        """Invocations, storage and ledger use of a round (of one task, for `whole`) without checkpoints.

        Counts are those of a round after one with the same placement, without retries and evaluations; bytes assume
        that all parts of the learner's state have one size. The end of a round and the dispatch of the next are one
        commit, and every wave of learners is another.
        """
        schedule = self.schedule(round_placement)
        tasks = [task for wave in schedule for task in wave]
        storing_tasks = [] if round_placement.inline_objects else tasks
        meter = Meter(
            puts=sum(task.number * task.makes for task in storing_tasks),
            gets=sum(task.number * task.reads for task in storing_tasks),
            bytes_written=round(sum(task.number * task.made_bytes for task in storing_tasks)),
            bytes_read=round(sum(task.number * task.read_bytes for task in storing_tasks)),
            write_units=len(schedule) * Meter().add_commit(self.workload.ledger_bytes).write_units,
        )
        for name in PLACED:
            invocations = sum(task.number for task in tasks if task.function == name)
            meter = meter.add_charge(name, Charge(invocations=invocations))
        return meter

    def checkpointing(self, round_placement: RoundPlacement) -> Meter:
        """The use of one checkpoint: the ledger's second item, and with `inline_objects` every object that later rounds
        need."""
        size = self.workload.ledger_bytes
        meter = Meter().add_load(size).add_commit(size)
        if not round_placement.inline_objects:
            return meter
        sizes = [
            size
            for location, size in self.locations(round_placement.rule).sizes.items()
            if location.work != "initialise"
        ]
        workload = self.workload
        unfinished_bytes = workload.rollouts * workload.unfinished_bytes
        first_wave = self.schedule(round_placement)[0]
        players = sum(task.number for task in first_wave if task.kind in ("sample", "whole"))
        puts = len(sizes) + players * ((unfinished_bytes > 0) + workload.lag)
        trajectory_bytes = workload.lag * workload.rollouts * workload.rollout_bytes
        return meter + Meter(puts=puts, bytes_written=round(sum(sizes) + unfinished_bytes + trajectory_bytes))

    def _works(self, rule: str) -> list[list[Work]]:
        workload = self.workload
        return PLACEMENTS[rule](workload.stages, sorted(workload.members), workload.updates, self.packs(rule))

    def _whole(self, round_placement: RoundPlacement) -> Task:
        workload, locations = self.workload, self.locations(round_placement.rule)
        state, state_bytes = locations.weigh(locations.where.values())
        size = workload.rollouts * round_placement.rounds_per_task
        reply = round_placement.rounds_per_task * (self._sampled_bytes() + self._learned_bytes())
        object_bytes = state_bytes + (size * workload.rollout_bytes if workload.replays else 0.0)
        object_bytes += workload.rollouts * workload.unfinished_bytes
        objects = state + workload.replays + (workload.unfinished_bytes > 0)
        reads, read_bytes = workload.with_base(objects + workload.input_reads, object_bytes)
        return Task("learner", "whole", size, reads, read_bytes, objects, object_bytes, reply)

    def _sampled_bytes(self) -> float:
        """Bytes of the reply to sampling a round in one task."""
        return message_size.sampling_bytes(self.workload.rollouts, self.workload.rollout_episodes, self.workload.agents)

    def _learned_bytes(self) -> float:
        """Bytes of the reply to learning a round in one task."""
        return _report_size(self.workload, len(self.workload.stages), sorted(self.workload.members))

    def _messages(self, round_placement: RoundPlacement) -> Iterator[Task]:
        """The round's tasks, and the regroup task that may follow."""
        tasks = [task for wave in self.schedule(round_placement) for task in wave]
        yield from tasks
        if self.workload.regroups:
            yield self._regroup(round_placement, sum(task.number for task in tasks if task.function == "actor"))

    def _regroup(self, round_placement: RoundPlacement, trajectories: int) -> Task:
        """The largest regroup task: all groups end and every agent gets separate networks. It reads the learner's state
        after the round and the policies that sampled it."""
        workload, locations = self.workload, self.locations(round_placement.rule)
        state, state_bytes = locations.weigh(locations.where.values())
        trajectory_bytes = workload.rollouts * workload.rollout_bytes if trajectories else 0.0
        read_bytes = state_bytes + workload.policy_bytes + trajectory_bytes
        read_bytes += workload.rollouts * workload.unfinished_bytes
        made_bytes = (workload.policy_bytes + workload.learner_bytes) / len(workload.members) * workload.agents
        reply = message_size.learning_bytes(1, workload.agents, 0, 0.0)
        summaries = self._sampled_bytes() + self._learned_bytes()
        return Task(
            "learner",
            "regroup",
            0.0,
            trajectories + 2 * state + (trajectories if workload.unfinished_bytes else 0),
            read_bytes,
            2,
            made_bytes,
            reply,
            summary_bytes=summaries,
        )

    def gates(self, round_placement: RoundPlacement) -> list[Gate]:
        """The tasks of the `schedule` by what they wait for, as in `coordinator.core.round_graph`.

        Of micro-batches all but the last are taken to be summed beside the sampling.
        """
        waves = self.schedule(round_placement)
        afters: list[tuple[int, ...]] = [(number - 1,) if number else () for number in range(len(waves))]
        summing = self.workload.summing and not PLACEMENTS[round_placement.rule].one_function
        if self.workload.lag:
            players = [task for task in waves[0] if task.function == "actor"]
            waves, afters = [waves[0][: -len(players)], *waves[1:], players], [*afters, ()]
        elif summing and (beside := len(_parts(round_placement, self.workload)) - 1):
            afters[1 : beside + 3] = [()] * beside + [(0,), tuple(range(1, beside + 2))]
        return [Gate(tasks, after) for tasks, after in zip(waves, afters, strict=True)]

    def _spread(self, round_placement: RoundPlacement) -> list[list[Task]]:
        works, locations = self._works(round_placement.rule), self.locations(round_placement.rule)
        schedule = [_sampling(round_placement, self.workload, locations)]
        trajectories = sum(task.number for task in schedule[0])
        if summing := self.workload.summing:
            return schedule + self._summed(round_placement, works, trajectories, summing)
        pairs = sum(work.publish * _pairs(work) for wave in works for work in wave)
        publishing_works: list[Work] = []
        for wave in works:
            # Tensors of an update are read in that update only.
            before = [work for work in publishing_works if work.first == wave[0].first]
            schedule.append([_learner(work, before, pairs, trajectories, locations, self.workload) for work in wave])
            publishing_works += [work for work in wave if work.publish]
        return [schedule[1] + schedule[0], *schedule[2:]] if self.workload.lag else schedule

    def _summed(
        self, round_placement: RoundPlacement, works: list[list[Work]], trajectories: int, summing: Summing
    ) -> list[list[Task]]:
        """The waves of sums over each micro-batch, and of `works`, which learn from them."""
        workload, locations = self.workload, self.locations(round_placement.rule)
        groups, packs = sorted(workload.members), self.packs(round_placement.rule)
        waves = PLACEMENTS[round_placement.rule]((summing.stage,), groups, 1, packs)
        summing_works = [work for wave in waves for work in wave]
        parts = _parts(round_placement, workload)
        sums = [[_sum(work, summing, part, locations, workload) for work in summing_works] for part in parts]
        learning = [
            [_learner(replace(work, publish=False), (), 0, trajectories, locations, workload) for work in wave]
            for wave in works
        ]
        return sums + [
            [_reading_sums(*pair, summing_works, len(parts), summing, workload) for pair in zip(*wave, strict=True)]
            for wave in zip(learning, works, strict=True)
        ]


def _parts(round_placement: RoundPlacement, workload: Workload) -> Sequence[Sequence[tuple[int, ...]]]:
    """The packs of rollouts of each micro-batch; one part of all where nobody sums."""
    size = workload.summing.rollouts if workload.summing else workload.rollouts
    per_invocation = 1 if workload.opponent_reads is not None else round_placement.rollouts_per_invocation
    return packs_of_parts(workload.rollouts, per_invocation, size)


def _sum(
    work: Work, summing: Summing, packs: Sequence[Sequence[int]], locations: ObjectLocations, workload: Workload
) -> Task:
    """The task that sums over the rollouts of these packs."""
    reads, read_bytes = workload.with_base(
        *locations.weigh(locations.where[part] for part in work.reads((summing.stage,)))
    )
    rollouts = sum(map(len, packs))
    return Task(
        function="learner",
        kind=SUMS,
        size=rollouts * workload.rollout_steps * workload.agents_learned_from(work.groups),
        reads=len(packs) + reads,
        read_bytes=rollouts * workload.rollout_bytes + read_bytes,
        makes=1,
        made_bytes=summing.bytes * len(work.groups) / len(workload.members),
        reply_bytes=_report_size(workload, 0, work.groups, trains=False),
        summary_bytes=message_size.sampling_bytes(rollouts, workload.rollout_episodes, workload.agents),
    )


def _reading_sums(
    task: Task, work: Work, summing_works: Sequence[Work], parts: int, summing: Summing, workload: Workload
) -> Task:
    """The work's task, which also reads its groups' sums over so many parts."""
    read_works = [one for one in summing_works if not {*one.groups}.isdisjoint(work.groups)]
    groups = sum(len(one.groups) for one in read_works)
    more_bytes = parts * summing.bytes * groups / len(workload.members)
    return task._replace(reads=task.reads + parts * len(read_works), read_bytes=task.read_bytes + more_bytes)


def _object_locations(schedule: Sequence[Sequence[Work]], workload: Workload) -> ObjectLocations:
    """The object of every part of every group after a round; a part that no stage writes stays in its first object."""
    parts = {"policy", *(part for stage in workload.stages for part in (*stage.reads, *stage.writes))}
    where = {
        (part, group): Object("initialise", object_kind(part))
        for part in sorted(parts)
        for group in sorted(workload.members)
    }
    for work in (work for wave in schedule for work in wave):
        where |= {(part, group): Object(work.name, object_kind(part)) for part, group in work.writes(workload.stages)}
    groups, others = len(workload.members), max(1, len(parts) - 1)
    sizes: dict[Object, float] = {}
    for (part, _), location in where.items():
        share = workload.policy_bytes if part == "policy" else workload.learner_bytes / others
        sizes[location] = sizes.get(location, 0.0) + share / groups
    return ObjectLocations(where, sizes)


def _pairs(work: Work) -> int:
    """Pairs of a stage and a group; published tensors count per pair."""
    return len(work.stages) * len(work.groups)


def _sampling(round_placement: RoundPlacement, workload: Workload, locations: ObjectLocations) -> list[Task]:
    league = workload.opponent_reads is not None
    sizes = Counter(len(pack) for packs in _parts(round_placement, workload) for pack in packs)
    policies = (location for (part, _), location in locations.where.items() if part == "policy")
    reads, read_bytes = (0, 0.0) if workload.recorded else locations.weigh(policies)
    unfinished_objects = 1 if workload.unfinished_bytes else 0
    return [
        Task(
            function="actor",
            kind="sample",
            size=rollouts,
            reads=reads + unfinished_objects + workload.input_reads + (workload.opponent_reads or 0),
            read_bytes=read_bytes * (1 + league) + rollouts * workload.unfinished_bytes,
            makes=1 + unfinished_objects,
            made_bytes=rollouts * (workload.rollout_bytes + workload.unfinished_bytes),
            reply_bytes=message_size.sampling_bytes(rollouts, workload.rollout_episodes, workload.agents),
            number=number,
        )
        for rollouts, number in sorted(sizes.items(), reverse=True)
    ]


def _learner(
    work: Work, before: Sequence[Work], pairs: int, trajectories: int, locations: ObjectLocations, workload: Workload
) -> Task:
    """One work's task; `pairs` of stage and group publish tensors in the round, and the works `before` have done so."""
    reads, read_bytes = workload.with_base(
        *locations.weigh(locations.where[part] for part in work.reads(workload.stages))
    )
    _, made_bytes = locations.weigh(locations.where[part] for part in work.writes(workload.stages))
    pair_bytes = workload.tensor_bytes / pairs if pairs else 0.0
    trains = work.trains(workload.stages)
    return Task(
        function="learner",
        kind=work.kind(workload.stages),
        size=workload.rollouts * workload.rollout_steps * work.size(workload.agents_learned_from),
        reads=trajectories + reads + len(before),
        read_bytes=workload.rollouts * workload.rollout_bytes + read_bytes + pair_bytes * sum(map(_pairs, before)),
        # The object that has the answer is always stored.
        makes=1 + trains + work.publish,
        made_bytes=made_bytes + work.publish * _pairs(work) * pair_bytes,
        reply_bytes=_report_size(workload, len(work.stages), work.groups, trains),
        summary_bytes=message_size.sampling_bytes(workload.rollouts, workload.rollout_episodes, workload.agents),
    )


def _answer_bytes(task: Task, inline_objects: bool) -> float:
    return message_size.answer_bytes(task.makes, task.reply_bytes) + inline_objects * message_size.base64_bytes(
        task.made_bytes + task.reply_bytes
    )


def _report_size(workload: Workload, stages: int, groups: Sequence[int], trains: bool = True) -> float:
    """Bytes of the reply of `stages` for `groups`; if it trains policies, it reports tables of all members."""
    agents = sum(workload.members[group] for group in groups) if trains else 0
    sharing = sum(members for group in groups if (members := workload.members[group]) > 1)
    tables = workload.table_bytes * agents / workload.agents
    return message_size.learning_bytes(stages, len(groups), agents, tables, sharing)
