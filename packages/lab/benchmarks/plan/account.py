"""An account on a virtual clock with heavy tails: every wait and every cold start is drawn.

A wait is log-normal around its list value. A cold start is Pareto with the list value as median. Such tails were
measured on clouds (Wang et al., USENIX ATC 2018, and Ustiugov et al., IISWC 2021).
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from marless.coordinator.core.round_graph import WorkAttempt
from marless.coordinator.core.state import Plan, State
from marless.coordinator.drive.driver import Driver
from marless.coordinator.drive.ports import Ports
from marless.coordinator.errors import UserError
from marless.estimation.recorded_replies import RecordedReplies, unstored
from marless.estimation.recording import Lines, Recording
from marless.estimation.targets import Target
from marless.estimation.virtual_functions import (
    NO_FAULTS,
    NoObjects,
    Service,
    VirtualClock,
    VirtualFunctions,
    VirtualLedger,
)


@dataclass(frozen=True)
class Tails:
    """The standard deviation of the logarithm of a wait, and the Pareto exponent of a start."""

    sigma: float
    alpha: float

    def wait(self, rng: np.random.Generator, requests: int = 1) -> float:
        """Return the mean of so many waits, as a multiple of the median."""
        return float(rng.lognormal(0.0, self.sigma, max(1, requests)).mean())

    def start(self, rng: np.random.Generator) -> float:
        """Return a start as a multiple of the median."""
        return float((1 + rng.pareto(self.alpha)) / 2 ** (1 / self.alpha))


@dataclass(frozen=True)
class HeavyTailedAccount(Target):
    """A target with tails."""

    tails: Tails = dataclasses.field(default=Tails(0.0, np.inf))

    def forecast(self, plan: Plan, recording: Recording, seed: int = 0) -> State:
        """Return the last state of the run there. Raise `UserError` if it fails."""
        times, rng = self.times(recording.service_times, plan), np.random.default_rng(seed)
        clock = VirtualClock(counts_coordinator=False)
        replies = RecordedReplies(recording.state, recording.lines)
        functions = _Functions(self.tails, clock, plan.platform.concurrency, times, replies, NO_FAULTS, rng)
        ledger = _Ledger(self.tails, rng, clock, times.between_s)
        driver = Driver(plan, Ports(NoObjects(), ledger, functions, Lines()), lambda: clock.now)
        driver.begin()
        while driver.step():
            pass
        if driver.state.status == "failed":
            raise UserError(f"the run fails in round {driver.state.round + 1}: {driver.state.reason}")
        return driver.state


class _Functions(VirtualFunctions):
    """Functions with drawn waits for storage and invocations, and drawn starts."""

    def __init__(self, tails: Tails, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._tails = tails

    def _service(self, attempt: WorkAttempt, start: float) -> Service | None:
        service = super()._service(attempt, start)
        if service is None:
            return None
        latency, tails, rng = self._times.of(service.kind).latency, self._tails, self._rng
        assert latency is not None
        usage = unstored(service.usage) if attempt.request.inline_objects else service.usage
        later_ms = latency.storage_ms(usage) * (tails.wait(rng, usage.puts + usage.gets) - 1)
        # An invocation is not billed, like the time before INIT.
        later_s = self._times.hand_over_s * (tails.wait(rng) - 1)
        factor = tails.start(rng) if service.init_ms else 1.0
        return service._replace(
            cold_s=service.cold_s * factor + later_s,
            init_ms=service.init_ms * factor,
            duration_ms=service.duration_ms + later_ms,
        )


class _Ledger(VirtualLedger):
    """A ledger with drawn waits."""

    def __init__(self, tails: Tails, rng: np.random.Generator, clock: VirtualClock, commit_s: float) -> None:
        super().__init__(clock)
        self._tails, self._rng, self._median_s = tails, rng, commit_s

    def commit(self, item: str, body: bytes, version: int) -> int:
        """See `Ledger`."""
        self._commit_s = self._median_s * self._tails.wait(self._rng)
        return super().commit(item, body, version)
