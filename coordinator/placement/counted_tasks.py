"""The tasks of a round as a planner counts them, and the objects that they read and write."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from marless.coordinator.placement import message_size
from marless.coordinator.placement.placement_rules import (
    SUMS,
    RoundPlacement,
    Work,
    object_kind,
    packs_of_parts,
)
from marless.coordinator.placement.workload import Summing, Workload


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


def object_locations(schedule: Sequence[Sequence[Work]], workload: Workload) -> ObjectLocations:
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


def micro_batches(round_placement: RoundPlacement, workload: Workload) -> Sequence[Sequence[tuple[int, ...]]]:
    """The packs of rollouts of each micro-batch; one part of all where nobody sums."""
    size = workload.summing.rollouts if workload.summing else workload.rollouts
    per_invocation = 1 if workload.opponent_reads is not None else round_placement.rollouts_per_invocation
    return packs_of_parts(workload.rollouts, per_invocation, size)


def sampling_tasks(round_placement: RoundPlacement, workload: Workload, locations: ObjectLocations) -> list[Task]:
    """The tasks that play the round's rollouts, those with as many of them together."""
    league = workload.opponent_reads is not None
    sizes = Counter(len(pack) for packs in micro_batches(round_placement, workload) for pack in packs)
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


def learner_task(
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
        read_bytes=workload.rollouts * workload.rollout_bytes + read_bytes + pair_bytes * sum(map(pairs_of, before)),
        # The object that has the answer is always stored.
        makes=1 + trains + work.publish,
        made_bytes=made_bytes + work.publish * pairs_of(work) * pair_bytes,
        reply_bytes=report_bytes(workload, len(work.stages), work.groups, trains),
        summary_bytes=message_size.sampling_bytes(workload.rollouts, workload.rollout_episodes, workload.agents),
    )


def sum_task(
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
        reply_bytes=report_bytes(workload, 0, work.groups, trains=False),
        summary_bytes=message_size.sampling_bytes(rollouts, workload.rollout_episodes, workload.agents),
    )


def reading_sums(
    task: Task, work: Work, summing_works: Sequence[Work], parts: int, summing: Summing, workload: Workload
) -> Task:
    """The work's task, which also reads its groups' sums over so many parts."""
    read_works = [one for one in summing_works if not {*one.groups}.isdisjoint(work.groups)]
    groups = sum(len(one.groups) for one in read_works)
    more_bytes = parts * summing.bytes * groups / len(workload.members)
    return task._replace(reads=task.reads + parts * len(read_works), read_bytes=task.read_bytes + more_bytes)


def pairs_of(work: Work) -> int:
    """Pairs of a stage and a group; published tensors count per pair."""
    return len(work.stages) * len(work.groups)


def report_bytes(workload: Workload, stages: int, groups: Sequence[int], trains: bool = True) -> float:
    """Bytes of the reply of `stages` for `groups`; if it trains policies, it reports tables of all members."""
    agents = sum(workload.members[group] for group in groups) if trains else 0
    sharing = sum(members for group in groups if (members := workload.members[group]) > 1)
    tables = workload.table_bytes * agents / workload.agents
    return message_size.learning_bytes(stages, len(groups), agents, tables, sharing)
