"""Service times of a recorded run: durations of tasks, start-ups, and the time between them.

A duration is a line over the task's size, times a ratio drawn from the record's ratios. So a simulation has the
record's spread and its tail. The extra time of a wave of tasks beyond its durations on so many slots, and the time
between two waves, are the record's means. So a round's total is right.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush, heapreplace
from itertools import pairwise

import numpy as np

from marless.coordinator.drive.attempt_record import AttemptRecord
from marless.coordinator.errors import UserError
from marless.coordinator.placement.coordination_cost import Latency
from marless.coordinator.placement.timings import Fit, line
from marless.estimation.recorded_calls import RecordedAsk, asks_of, blocked_ms
from marless.functions.messages.usage import Usage

# Times that differ by less are equal: reports are read one after the other.
_INSTANT_S = 1e-4
# Of so many rounds or fewer, the first start processes.
_FEW_ROUNDS = 2


@dataclass(frozen=True)
class ResourceTimes:
    """A resource: its slots, a call's time in addition to the work, and the start-up of each slot. With `polls`, a call
    that finds no free slot tries again after a pause, like on Lambda. Otherwise it waits in a queue."""

    slots: int
    hand_over_ms: float = 0.0
    init_ms: float = 0.0
    polls: bool = False


@dataclass(frozen=True)
class TaskTimes:
    """The tasks of one kind: `overhead_ms` + `slope_ms` * size, times one of `ratios`.

    `first_ratios` are the ratios of an environment's first task. `usage` is for each size. `asks` are each recorded
    task's questions to resources. Waiting for answers is no part of durations.
    """

    function: str
    overhead_ms: float
    slope_ms: float
    ratios: tuple[float, ...]
    first_ratios: tuple[float, ...]
    usage: tuple[tuple[float, Usage], ...]
    asks: tuple[tuple[float, tuple[RecordedAsk, ...]], ...] = ()
    # Of a deployed function: its share of a vCPU slows it down, and it waits for storage and to report.
    cpu_scaling: float = 1.0
    latency: Latency | None = None
    report_ms: float = 0.0

    def duration_ms(self, size: float, usage: Usage, first: bool, rng: np.random.Generator) -> float:
        """Milliseconds of a task of `size`, the first of its environment or a later one."""
        ratios = self.first_ratios if first else self.ratios
        ratio = ratios[int(rng.integers(len(ratios)))]
        waiting = self.latency.storage_ms(usage) + self.report_ms if self.latency else 0.0
        return (self.overhead_ms + self.slope_ms * size) * ratio * self.cpu_scaling + waiting

    def usage_of(self, size: float, objects: int) -> Usage:
        """The storage operations of the recorded task of the nearest size, with bytes in proportion to the size, and
        `objects` reads. With 0 reads, 0 bytes are read."""
        nearest, usage = min(self.usage, key=lambda each: abs(each[0] - size))
        share = size / nearest
        bytes_written, read = (round(share * count) for count in (usage.bytes_written, usage.bytes_read))
        return Usage(
            puts=usage.puts,
            gets=objects,
            bytes_written=bytes_written,
            bytes_read=read if objects else 0,
            calls={name: use.scaled(share) for name, use in usage.calls.items()},
        )

    def asks_of(self, size: float, rng: np.random.Generator) -> tuple[RecordedAsk, ...]:
        """Return the questions of a task of `size`: the questions of a recorded task of the nearest size, repeated in
        proportion."""
        if not self.asks:
            return ()
        nearest = min((each for each, _ in self.asks), key=lambda each: abs(each - size))
        alike = [asks for each, asks in self.asks if each == nearest]
        asks = alike[int(rng.integers(len(alike)))]
        return asks * max(1, round(size / nearest))


@dataclass(frozen=True)
class ServiceTimes:
    """`tasks` by kind. `init_ms` are the start-ups by function, and `restarts` the shares of its later attempts that
    started an environment once more. `hand_over_s`: the time from a task's end until its slot is free again.
    `between_s`: from the end of a wave to the first task of the next. `cold_s`: the time before it starts up.
    `resources` are the resources that tasks ask.
    """

    tasks: dict[str, TaskTimes]
    init_ms: Mapping[str, tuple[float, ...]]
    restarts: Mapping[str, float]
    hand_over_s: float
    between_s: float
    cold_s: float = 0.0
    resources: Mapping[str, ResourceTimes] = field(default_factory=dict)

    def deployed(
        self, latency: Latency, memory_mb: Mapping[str, int], mb_per_vcpu: int | None, detached: bool = False
    ) -> "ServiceTimes":
        """The same work in deployed functions of so much memory, driven from outside the region or `detached`.

        `mb_per_vcpu` is None where functions get whole cores.
        """
        cpu_scaling = {name: max(1.0, mb_per_vcpu / mb) if mb_per_vcpu else 1.0 for name, mb in memory_mb.items()}
        report_ms = latency.ledger if detached else 0.0
        tasks = {
            kind: replace(times, cpu_scaling=cpu_scaling[times.function], latency=latency, report_ms=report_ms)
            for kind, times in self.tasks.items()
        }
        return ServiceTimes(
            tasks=tasks,
            init_ms={name: (factor * latency.init,) for name, factor in cpu_scaling.items()},
            restarts={},
            hand_over_s=0.0 if detached else latency.invoke / 1000,
            between_s=latency.detached_wave_s if detached else (2 * latency.away + latency.ledger) / 1000,
            cold_s=latency.cold / 1000,
            resources={
                name: ResourceTimes(times.slots, latency.invoke, latency.init, polls=True)
                for name, times in self.resources.items()
            },
        )

    def of(self, kind: str) -> TaskTimes:
        """The tasks of a kind, or another learner's tasks if the record has none of this."""
        if kind in self.tasks:
            return self.tasks[kind]
        if not (alike := [name for name in self.tasks if name.split(":")[0] == kind.split(":")[0]]):
            raise UserError(f"the record has no task of the kind {kind}; simulate the placement that was recorded")
        return self.tasks[alike[0]]


def fit(records: Sequence[AttemptRecord], slots: int) -> ServiceTimes:
    """The service times of attempts that ran on `slots` slots. Raises `UserError` if none of them was answered."""
    if not (answered_attempts := [record for record in records if record.outcome == "answered"]):
        raise UserError("no attempt is recorded; runs that nobody drives, and those of older versions, have no record")
    by_kind: dict[str, list[AttemptRecord]] = defaultdict(list)
    by_function: dict[str, list[AttemptRecord]] = defaultdict(list)
    for record in answered_attempts:
        by_kind[record.kind].append(record)
        by_function[record.function].append(record)
    init_ms = {name: tuple(each.init_ms for each in of if each.init_ms) for name, of in by_function.items()}
    # Waves of learners begin unseen while an evaluation is still played. But a few rounds alone say too little.
    evaluated_rounds = {record.round for record in answered_attempts if is_beside(record)}
    others = [record for record in answered_attempts if record.round not in evaluated_rounds]
    waves = by_dispatch(others if len({record.round for record in others}) > _FEW_ROUNDS else answered_attempts)
    # The first waves start processes, so later ones are preferred.
    usual = waves[len(waves) // 3 :]
    gaps = [
        after[0].asked_at - max(each.ended_at for each in before)
        for before, after in pairwise(usual)
        if after[0].round <= before[0].round + 1
    ]
    return ServiceTimes(
        tasks={kind: _fit(of) for kind, of in by_kind.items()},
        init_ms={name: of for name, of in init_ms.items() if of},
        restarts={name: _restarts(of) for name, of in by_function.items()},
        hand_over_s=max(0.0, _hand_over_s(usual, slots)),
        between_s=max(0.0, statistics.fmean(gaps)) if gaps else 0.0,
    )


def is_beside(record: AttemptRecord) -> bool:
    """Return True for a record of an evaluation that a round plays in parallel to its samples and learners."""
    return record.work.startswith("evaluate/")


def by_dispatch(records: Iterable[AttemptRecord]) -> list[list[AttemptRecord]]:
    """The records of tasks that were asked for together, in the order of their asking."""
    waves: list[list[AttemptRecord]] = []
    last = float("-inf")
    for record in sorted(records, key=lambda record: record.asked_at):
        if not waves or record.asked_at >= last:
            waves.append([])
        waves[-1].append(record)
        last = max(last, record.ended_at) if len(waves[-1]) > 1 else record.ended_at
    return waves


def _fit(records: list[AttemptRecord]) -> TaskTimes:
    """Least squares over sizes, and the ratios of the durations to the line. The first wave, and tasks of environments
    that started for them, warm up."""
    first, *later = by_dispatch(records)
    first = first + [record for wave in later for record in wave if record.init_ms]
    usual = [record for wave in later for record in wave if not record.init_ms] or first
    sizes = np.array([record.size for record in usual])
    took = np.array([_own_ms(record) for record in usual])
    sums = Fit(
        count=len(usual),
        sx=float(sizes.sum()),
        sxx=float((sizes**2).sum()),
        sy=float(took.sum()),
        sxy=float((sizes * took).sum()),
    )
    overhead, slope = line({"": sums}, "") or (0.0, 0.0)

    def ratios(of: list[AttemptRecord]) -> tuple[float, ...]:
        return tuple(_own_ms(record) / max(overhead + slope * record.size, 1e-9) for record in of)

    asks = tuple((record.size, asks_of(record.actions)) for record in usual if record.actions)
    # A simulated process may lack data that the recorded process kept.
    usage = {record.size: record.usage.cold for record in records}
    return TaskTimes(records[0].function, overhead, slope, ratios(usual), ratios(first), tuple(usage.items()), asks)


def _own_ms(record: AttemptRecord) -> float:
    return max(0.0, record.duration_ms - blocked_ms(record.actions))


def slots_of(records: Sequence[AttemptRecord]) -> int:
    """The number of tasks that ran at once: as many as the platform allows, or fewer if tasks waited all the same."""
    most, largest = 0, max(len(wave) for wave in by_dispatch(records))
    ends: list[float] = []
    for begin, end in sorted((each.ended_at - busy_s(each), each.ended_at) for each in records):
        while ends and ends[0] <= begin + _INSTANT_S:
            heappop(ends)
        heappush(ends, end)
        most = max(most, len(ends))
    allowed_slots = records[-1].slots
    return min(allowed_slots, most) if largest > most else allowed_slots


def _restarts(records: list[AttemptRecord]) -> float:
    """The share of a function's attempts after its first wave, and after the widest, that started an environment."""
    waves = by_dispatch(records)
    widest = max(range(len(waves)), key=lambda index: len(waves[index]))
    later = [record for wave in waves[widest + 1 :] for record in wave]
    return sum(record.init_ms > 0 for record in later) / len(later) if later else 0.0


def busy_s(record: AttemptRecord) -> float:
    """Seconds that an attempt held its slot by the platform's measurement."""
    return (record.init_ms + record.duration_ms) / 1000


def longest_path_s(records: list[AttemptRecord]) -> float:
    """Seconds of one round's `records` on unlimited slots. Learners that were asked for before the samples of their
    round had ended did not wait for them."""
    learners = [record for record in records if record.work.startswith("learn/")]
    others = [record for record in records if not record.work.startswith("learn/") and not is_beside(record)]
    began = min((record.asked_at for record in learners), default=0.0)
    waited = all(record.ended_at <= began for record in others)
    paths = [others + learners] if waited else [others, learners]
    longest = max(sum(max(map(busy_s, wave)) for wave in by_dispatch(path)) for path in paths)
    return max(longest, max(map(busy_s, filter(is_beside, records)), default=0.0))


def _hand_over_s(waves: list[list[AttemptRecord]], slots: int) -> float:
    """The time that each task of these waves added to its duration, if they ran in order on `slots` slots."""
    took = sum(max(record.ended_at for record in wave) - wave[0].asked_at for wave in waves)
    busy = ([busy_s(record) for record in wave] for wave in waves)
    work_s = sum(makespan(seconds, slots) for seconds in busy)
    return (took - work_s) / sum(-(-len(wave) // slots) for wave in waves)


def makespan(seconds: Sequence[float], slots: int) -> float:
    """The end of the last of these tasks, each begun in order on the first of `slots` slots that is free."""
    free = [0.0] * min(slots, len(seconds))
    for each in seconds:
        heapreplace(free, free[0] + each)
    return max(free)
