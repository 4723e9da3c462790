"""Simulated durations of waves of functions on a platform, from their durations on this machine."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from coordinator.pricing.latency import Latency
from functions.contract import Usage


class Call(NamedTuple):
    """An invocation to simulate: its duration on this machine and its storage traffic."""

    function: str
    duration_ms: float
    usage: Usage


class InvocationTime(NamedTuple):
    """Duration and start-up of a simulated invocation; milliseconds."""

    duration_ms: float
    init_ms: float


class Platform(Protocol):
    """Simulates invocations."""

    def wave(self, calls: Sequence[Call]) -> tuple[list[InvocationTime], float]:
        """Times of concurrent calls, and the seconds until the coordinator has handled all of them."""


@dataclass
class LocalWorkers:
    """The workers of this machine: `init_ms` counts once; `overhead_s` is the time of a wave besides its tasks."""

    workers: int
    init_ms: dict[str, float]
    overhead_s: float

    def wave(self, calls: Sequence[Call]) -> tuple[list[InvocationTime], float]:
        """The measured times."""
        times = [InvocationTime(call.duration_ms, self.init_ms.pop(call.function, 0.0)) for call in calls]
        return times, makespan_s([call.duration_ms for call in calls], self.workers) + self.overhead_s


@dataclass
class DeployedFunctions:
    """Deployed functions of `memory_mb`, of which `width` run at once.

    A share of a vCPU slows down computation, not waiting for storage; `mb_per_vcpu` is None where functions get whole
    cores. A call starts an environment if none is left from earlier waves. `report_ms`: storing the completion report
    in a detached run.
    """

    latency: Latency
    width: int
    memory_mb: Mapping[str, int]
    mb_per_vcpu: int | None
    wave_s: float
    report_ms: float = 0.0
    _started: Counter[str] = field(default_factory=Counter)

    def wave(self, calls: Sequence[Call]) -> tuple[list[InvocationTime], float]:
        """With the platform's storage latency and cold starts."""
        times: list[InvocationTime] = []
        running: Counter[str] = Counter()
        for call in calls:
            starts = self._started[call.function] <= running[call.function] < self.width
            wait_ms = self.latency.storage_ms(call.usage) + self.report_ms
            init_ms = self._slowdown(call.function) * self.latency.init if starts else 0.0
            times.append(InvocationTime(self.run_ms(call.function, call.duration_ms, wait_ms), init_ms))
            running[call.function] += 1
        # The larger of both, by name.
        self._started |= Counter({name: min(count, self.width) for name, count in running.items()})
        durations = [duration + init + (self.latency.cold if init else 0.0) for duration, init in times]
        return times, makespan_s(durations, self.width) + self.wave_s

    def start_up_ms(self, function: str) -> float:
        """Start-up of a single call; 0 after the first."""
        first, self._started[function] = not self._started[function], 1
        return self._slowdown(function) * self.latency.init if first else 0.0

    def run_ms(self, function: str, work_ms: float, wait_ms: float) -> float:
        """Milliseconds of computation and waiting in a function."""
        return self._slowdown(function) * work_ms + wait_ms

    def _slowdown(self, function: str) -> float:
        return max(1.0, self.mb_per_vcpu / self.memory_mb[function]) if self.mb_per_vcpu else 1.0


def makespan_s(durations_ms: Sequence[float], workers: int) -> float:
    """Seconds until tasks that begin together have ended on `workers` evenly loaded workers."""
    return max(max(durations_ms, default=0.0), sum(durations_ms) / workers) / 1000
