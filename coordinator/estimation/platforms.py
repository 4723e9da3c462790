"""How long waves of functions take on the platforms that an estimate is made for, from what they took on this one."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from coordinator.pricing.latency import Latency
from functions.contract import Usage


class Call(NamedTuple):
    """An invocation to be: what it took here, and what it moves to and from storage."""

    function: str
    duration_ms: float
    usage: Usage


class Ran(NamedTuple):
    """What an invocation takes there, its start where it pays for one; milliseconds."""

    duration_ms: float
    init_ms: float


class Platform(Protocol):
    """Where functions run."""

    def wave(self, calls: Sequence[Call]) -> tuple[list[Ran], float]:
        """What each of several calls that are made at once takes, and the seconds until all is decided that follows."""


@dataclass
class Here:
    """The workers of this machine: `init_ms` is paid once, `overhead_s` is what a wave takes beside its tasks."""

    workers: int
    init_ms: dict[str, float]
    overhead_s: float

    def wave(self, calls: Sequence[Call]) -> tuple[list[Ran], float]:
        """As measured."""
        ran = [Ran(call.duration_ms, self.init_ms.pop(call.function, 0.0)) for call in calls]
        return ran, makespan_s([call.duration_ms for call in calls], self.workers) + self.overhead_s


@dataclass
class There:
    """Deployed functions of `memory_mb`, of which `width` run at once.

    A share of a vCPU stretches what functions work by themselves, not what they wait for storage; `mb_per_vcpu` is None
    where cores are whole, whatever the bill makes of it. An environment starts for every call for which none is left
    over from earlier waves. `report_ms` is what a function waits to report that it ended, where nobody waits for it.
    """

    latency: Latency
    width: int
    memory_mb: Mapping[str, int]
    mb_per_vcpu: int | None
    wave_s: float
    report_ms: float = 0.0
    _started: Counter[str] = field(default_factory=Counter)

    def wave(self, calls: Sequence[Call]) -> tuple[list[Ran], float]:
        """With storage, starts and ways of that platform."""
        ran: list[Ran] = []
        running: Counter[str] = Counter()
        for call in calls:
            starts = self._started[call.function] <= running[call.function] < self.width
            duration_ms = self.worked(
                call.function, call.duration_ms, self.latency.storage_ms(call.usage) + self.report_ms
            )
            ran.append(Ran(duration_ms, self._slowdown(call.function) * self.latency.init if starts else 0.0))
            running[call.function] += 1
        # The larger of both, by name.
        self._started |= Counter({name: min(count, self.width) for name, count in running.items()})
        durations = [duration + init + (self.latency.cold if init else 0.0) for duration, init in ran]
        return ran, makespan_s(durations, self.width) + self.wave_s

    def started(self, function: str) -> float:
        """Milliseconds of the start that a call by itself has to pay for; the first one's."""
        first, self._started[function] = not self._started[function], 1
        return self._slowdown(function) * self.latency.init if first else 0.0

    def worked(self, function: str, work_ms: float, wait_ms: float) -> float:
        """Milliseconds that work and waiting take in a function."""
        return self._slowdown(function) * work_ms + wait_ms

    def _slowdown(self, function: str) -> float:
        return max(1.0, self.mb_per_vcpu / self.memory_mb[function]) if self.mb_per_vcpu else 1.0


def makespan_s(durations_ms: Sequence[float], workers: int) -> float:
    """Seconds until tasks that begin together have ended, evenly spread."""
    return max(max(durations_ms, default=0.0), sum(durations_ms) / workers) / 1000
