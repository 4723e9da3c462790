"""A round's workload, and its tasks in every placement, with their messages and their use of storage and ledger.

The round graph makes the tasks. `marless.coordinator.core.planning.played_round` plays it once for each rule. This
module spreads rollouts and rounds over invocations, and measures messages. Prices are not considered.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from marless.coordinator.placement import message_size
from marless.coordinator.placement.placement_rules import PLACEMENTS, WHOLE, Packs, RoundPlacement
from marless.coordinator.pricing.bill import Charge, Meter
from marless.functions.algorithms.specification import StageSpec
from marless.functions.function_specs import PLACED

# The beginning of an object's key if no task of the round has made the object.
BEFORE = "before"


@dataclass(frozen=True)
class RoundWorkload:
    """The work of a round, independent of its placement.

    `members[group]` of the `agents` learn in a group. A rollout has `rollout_steps` environment steps and ends
    `rollout_episodes` episodes. `most_rounds` rounds need neither decisions nor evaluations. Bytes: `rollout_bytes` of
    a rollout's trajectory, `policy_bytes` of all groups' policies, `learner_bytes` of the rest of their state,
    `ledger_bytes` of the run's item. `tensor_bytes` counts all tensors that stages pass on within a round, and
    `table_bytes` all tables that learners report in a round. `sums_bytes` counts all groups' sums over a micro-batch,
    and is None otherwise. `width` functions run at once. `regroups`: the round may end with another team. `replays`:
    trajectories are stored for later rounds. Learners count as warm, so that they read only new trajectories. `packs`:
    the groups as `balanced` packs them. `unfinished_bytes` of a rollout's episodes continue in the next round, 0 if all
    end. `opponent_reads`: the most objects with policies of one checkpoint of a league. Each rollout of a league has
    its own actor. None outside a league. `lag`: the age in rounds of the data that a round learns from. With 1 or more,
    learners begin together with the actors. `needs_actors`: one function cannot both play and learn.
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
    sums_bytes: float | None = None
    table_bytes: float = 0.0
    rollout_episodes: int = 0
    regroups: bool = False
    replays: bool = False
    packs: Packs = ()
    unfinished_bytes: float = 0.0
    opponent_reads: int | None = None
    lag: int = 0
    needs_actors: bool = False


class PlannedTask(NamedTuple):
    """`number` equal tasks, each with the objects it reads and makes.

    `plays`: the number of rollouts that it plays. `learns_from`: the numbers of rollouts in the micro-batches that it
    reads. `reads` counts their trajectories only after the task is placed. `reply_bytes` are in its answer and also in
    the header of an object that it makes. `summary_bytes` are in the objects that it reads, from earlier replies.
    """

    function: str
    kind: str
    size: float
    reads: int
    read_bytes: float
    makes: int
    made_bytes: float
    reply_bytes: float = 0.0
    number: int = 1
    summary_bytes: float = 0.0
    plays: int = 0
    learns_from: tuple[int, ...] = ()


class PlannedGate(NamedTuple):
    """Tasks of a round, and the positions of the earlier gates that these tasks wait for."""

    tasks: list[PlannedTask]
    after: tuple[int, ...]


class PlayedRound(NamedTuple):
    """The gates of a round, and the bytes by key of the objects with the learner's state after it. The keys of older
    objects begin with `BEFORE`."""

    gates: list[PlannedGate]
    state: Mapping[str, float]


class Layout:
    """The tasks of a workload in each placement, computed once. `play` plays a round by a rule's name."""

    def __init__(self, workload: RoundWorkload, play: Callable[[str], PlayedRound]) -> None:
        self.workload = workload
        self._play = play
        self._rounds: dict[str, PlayedRound] = {}
        self._gates: dict[tuple[str, int, int], list[PlannedGate]] = {}

    def packs(self, rule: str) -> Packs:
        """The groups that learn together."""
        return self.workload.packs if PLACEMENTS[rule].balances else ()

    def played_round(self, rule: str) -> PlayedRound:
        """The round by this rule, before its rollouts are spread over invocations."""
        if rule not in self._rounds:
            self._rounds[rule] = self._play(rule)
        return self._rounds[rule]

    def gates(self, round_placement: RoundPlacement) -> list[PlannedGate]:
        """Return the tasks of the round, or the one task of several rounds, by their dependencies."""
        key = (round_placement.rule, round_placement.rollouts_per_invocation, round_placement.rounds_per_task)
        if key not in self._gates:
            self._gates[key] = [
                gate._replace(tasks=[*self._placed(gate.tasks, round_placement)])
                for gate in self.played_round(round_placement.rule).gates
            ]
        return self._gates[key]

    def tasks(self, round_placement: RoundPlacement) -> list[PlannedTask]:
        """The tasks of all gates."""
        return [task for gate in self.gates(round_placement) for task in gate.tasks]

    def waves(self, round_placement: RoundPlacement) -> list[int]:
        """The number of tasks in each set that is dispatched at once. With a lag the first learners begin together with
        the actors."""
        waves = dict[object, int]()
        for number, (tasks, after) in enumerate(self.gates(round_placement)):
            begin = after if self.workload.lag else number
            waves[begin] = waves.get(begin, 0) + sum(task.number for task in tasks)
        return [*waves.values()]

    def _placed(self, tasks: Sequence[PlannedTask], round_placement: RoundPlacement) -> Iterator[PlannedTask]:
        """Yield the tasks, with the properties that depend on the rollouts or rounds of an invocation."""
        workload, rounds = self.workload, round_placement.rounds_per_task
        per_invocation = 1 if workload.opponent_reads is not None else round_placement.rollouts_per_invocation
        numbers = Counter[int]()
        for task in tasks:
            if task.kind == "sample":
                full, rest = divmod(task.plays, per_invocation)
                numbers[per_invocation] += task.number * full
                numbers[rest] += task.number
            elif task.kind == "whole":
                object_bytes = task.plays * (workload.replays * rounds * workload.rollout_bytes)
                yield _larger(task, object_bytes + task.plays * workload.unfinished_bytes)._replace(
                    size=task.plays * rounds, reply_bytes=rounds * (self._sampled_bytes() + self._learned_bytes())
                )
            else:
                trajectories = sum(-(-rollouts // per_invocation) for rollouts in task.learns_from)
                yield task._replace(reads=trajectories + task.reads)
        for rollouts, number in sorted(numbers.items(), reverse=True):
            if rollouts and number:
                task = _larger(tasks[0], rollouts * workload.unfinished_bytes)
                yield task._replace(
                    size=rollouts,
                    plays=rollouts,
                    made_bytes=rollouts * (workload.rollout_bytes + workload.unfinished_bytes),
                    reply_bytes=sampling_bytes(workload, rollouts),
                    number=number,
                )

    def request_bytes(self, round_placement: RoundPlacement) -> float:
        """Bytes of the largest request, inlined objects included."""
        return max(
            message_size.request_bytes(task.reads, self.workload.rollouts, self.workload.agents)
            + round_placement.inline_objects * message_size.base64_bytes(task.read_bytes + task.summary_bytes)
            for task in self._messages(round_placement)
        )

    def events(self, round_placement: RoundPlacement) -> Meter:
        """Return the other requests of a round, or of a task of several rounds, if all invocations are asynchronous."""
        meter = Meter()
        for task in self.tasks(round_placement):
            size = message_size.request_bytes(task.reads, self.workload.rollouts, self.workload.agents)
            meter += Meter(extra_requests=task.number * Meter().add_event(math.ceil(size)).extra_requests)
        return meter

    def answer_bytes(self, round_placement: RoundPlacement) -> float:
        """Bytes of the largest answer, inlined objects included."""
        return max(_answer_bytes(task, round_placement.inline_objects) for task in self._messages(round_placement))

    def answers_bytes(self, round_placement: RoundPlacement) -> float:
        """Bytes of all answers of a round, or of a task of several rounds."""
        inline_objects = round_placement.inline_objects
        return sum(task.number * _answer_bytes(task, inline_objects) for task in self.tasks(round_placement))

    def most_rounds(self, inline_objects: bool, size: float) -> int:
        """Return how many rounds one task of `whole` can run with an answer of at most `size` bytes, at least one."""
        state_bytes = sum(self.played_round(WHOLE).state.values())
        around = message_size.answer_bytes(2, inline_objects * message_size.base64_bytes(state_bytes))
        a_round = self._sampled_bytes() + self._learned_bytes()
        return max(1, int((size - around) // (a_round + inline_objects * message_size.base64_bytes(a_round))))

    def operations(self, round_placement: RoundPlacement) -> Meter:
        """Invocations, storage and ledger use of a round (of one task, for `whole`) without checkpoints.

        Counts belong to a round that follows a round with the same placement, without retries and evaluations. Bytes
        assume that all parts of the learner's state have one size. The end of a round and the dispatch of the next are
        one commit, and every wave of learners is another.
        """
        tasks = self.tasks(round_placement)
        storing_tasks = [] if round_placement.inline_objects else tasks
        commit = Meter().add_commit(self.workload.ledger_bytes)
        meter = Meter(
            puts=sum(task.number * task.makes for task in storing_tasks),
            gets=sum(task.number * task.reads for task in storing_tasks),
            bytes_written=round(sum(task.number * task.made_bytes for task in storing_tasks)),
            bytes_read=round(sum(task.number * task.read_bytes for task in storing_tasks)),
            write_units=len(self.waves(round_placement)) * commit.write_units,
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
        workload, state = self.workload, self.played_round(round_placement.rule).state
        sizes = [size for key, size in state.items() if not key.startswith(BEFORE)]
        unfinished_bytes = workload.rollouts * workload.unfinished_bytes
        players = sum(task.number for task in self.tasks(round_placement) if task.plays)
        puts = len(sizes) + players * ((unfinished_bytes > 0) + workload.lag)
        trajectory_bytes = workload.lag * workload.rollouts * workload.rollout_bytes
        return meter + Meter(puts=puts, bytes_written=round(sum(sizes) + unfinished_bytes + trajectory_bytes))

    def _sampled_bytes(self) -> float:
        return sampling_bytes(self.workload, self.workload.rollouts)

    def _learned_bytes(self) -> float:
        return report_bytes(self.workload, len(self.workload.stages), sorted(self.workload.members))

    def _messages(self, round_placement: RoundPlacement) -> Iterator[PlannedTask]:
        tasks = self.tasks(round_placement)
        yield from tasks
        if self.workload.regroups:
            yield self._regroup(round_placement, sum(task.number for task in tasks if task.function == "actor"))

    def _regroup(self, round_placement: RoundPlacement, trajectories: int) -> PlannedTask:
        """The largest regroup task: all groups end and every agent gets separate networks. It reads the learner's state
        after the round and the policies that sampled it."""
        workload, state = self.workload, self.played_round(round_placement.rule).state
        trajectory_bytes = workload.rollouts * workload.rollout_bytes if trajectories else 0.0
        read_bytes = sum(state.values()) + workload.policy_bytes + trajectory_bytes
        read_bytes += workload.rollouts * workload.unfinished_bytes
        made_bytes = (workload.policy_bytes + workload.learner_bytes) / len(workload.members) * workload.agents
        reply = message_size.learning_bytes(1, workload.agents, 0, 0.0)
        summaries = self._sampled_bytes() + self._learned_bytes()
        return PlannedTask(
            "learner",
            "regroup",
            0.0,
            trajectories + 2 * len(state) + (trajectories if workload.unfinished_bytes else 0),
            read_bytes,
            2,
            made_bytes,
            reply,
            summary_bytes=summaries,
        )


def sampling_bytes(workload: RoundWorkload, rollouts: int) -> float:
    """Bytes of the reply to sampling so many rollouts of a round."""
    return message_size.sampling_bytes(rollouts, workload.rollout_episodes, workload.agents)


def report_bytes(workload: RoundWorkload, stages: int, groups: Sequence[int], trains: bool = True) -> float:
    """Return the bytes of the reply of `stages` for `groups`. With `trains` it reports tables of all members."""
    agents = sum(workload.members[group] for group in groups) if trains else 0
    sharing = sum(members for group in groups if (members := workload.members[group]) > 1)
    tables = workload.table_bytes * agents / workload.agents
    return message_size.learning_bytes(stages, len(groups), agents, tables, sharing)


def _larger(task: PlannedTask, object_bytes: float) -> PlannedTask:
    return task._replace(read_bytes=task.read_bytes + object_bytes, made_bytes=task.made_bytes + object_bytes)


def _answer_bytes(task: PlannedTask, inline_objects: bool) -> float:
    return message_size.answer_bytes(task.makes, task.reply_bytes) + inline_objects * message_size.base64_bytes(
        task.made_bytes + task.reply_bytes
    )
