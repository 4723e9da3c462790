"""The tasks of a workload in every placement: in waves, by what they wait for, and what they use together.

Counts and bytes are those of the tasks that `marless.coordinator.core.round_graph` makes. Prices are not considered.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from marless.coordinator.placement import message_size
from marless.coordinator.placement.counted_tasks import (
    ObjectLocations,
    Task,
    learner_task,
    micro_batches,
    object_locations,
    pairs_of,
    reading_sums,
    report_bytes,
    sampling_tasks,
    sum_task,
)
from marless.coordinator.placement.placement_rules import (
    PACKED,
    PLACEMENTS,
    WHOLE,
    Packs,
    RoundPlacement,
    Work,
)
from marless.coordinator.placement.workload import Summing, Workload
from marless.coordinator.pricing.bill import Charge, Meter
from marless.functions.function_specs import PLACED


class Gate(NamedTuple):
    """Tasks of a round, and the positions in the list of gates of those that they wait for, which precede them."""

    tasks: list[Task]
    after: tuple[int, ...]


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
            self._locations[rule] = object_locations(self._works(rule), self.workload)
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
        return report_bytes(self.workload, len(self.workload.stages), sorted(self.workload.members))

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
        """The tasks of the `schedule` by what they wait for, as in `marless.coordinator.core.round_graph`.

        Of micro-batches all but the last are taken to be summed beside the sampling.
        """
        waves = self.schedule(round_placement)
        afters: list[tuple[int, ...]] = [(number - 1,) if number else () for number in range(len(waves))]
        summing = self.workload.summing and not PLACEMENTS[round_placement.rule].one_function
        if self.workload.lag:
            players = [task for task in waves[0] if task.function == "actor"]
            waves, afters = [waves[0][: -len(players)], *waves[1:], players], [*afters, ()]
        elif summing and (beside := len(micro_batches(round_placement, self.workload)) - 1):
            afters[1 : beside + 3] = [()] * beside + [(0,), tuple(range(1, beside + 2))]
        return [Gate(tasks, after) for tasks, after in zip(waves, afters, strict=True)]

    def _spread(self, round_placement: RoundPlacement) -> list[list[Task]]:
        works, locations = self._works(round_placement.rule), self.locations(round_placement.rule)
        schedule = [sampling_tasks(round_placement, self.workload, locations)]
        trajectories = sum(task.number for task in schedule[0])
        if summing := self.workload.summing:
            return schedule + self._summed(round_placement, works, trajectories, summing)
        pairs = sum(work.publish * pairs_of(work) for wave in works for work in wave)
        publishing_works: list[Work] = []
        for wave in works:
            # Tensors of an update are read in that update only.
            before = [work for work in publishing_works if work.first == wave[0].first]
            schedule.append(
                [learner_task(work, before, pairs, trajectories, locations, self.workload) for work in wave]
            )
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
        parts = micro_batches(round_placement, workload)
        sums = [[sum_task(work, summing, part, locations, workload) for work in summing_works] for part in parts]
        learning = [
            [learner_task(replace(work, publish=False), (), 0, trajectories, locations, workload) for work in wave]
            for wave in works
        ]
        return sums + [
            [reading_sums(*pair, summing_works, len(parts), summing, workload) for pair in zip(*wave, strict=True)]
            for wave in zip(learning, works, strict=True)
        ]


def _answer_bytes(task: Task, inline_objects: bool) -> float:
    return message_size.answer_bytes(task.makes, task.reply_bytes) + inline_objects * message_size.base64_bytes(
        task.made_bytes + task.reply_bytes
    )
