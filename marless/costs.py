"""What a run would cost, and how long it would take, from Python."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coordinator.errors import UserError
from coordinator.pricing.bill import Bill
from infra.local.own_process import cores
from marless.backends import registry
from marless.driving import configuration, overrides
from marless.estimation.estimate import estimate_run
from marless.estimation.recording import recording_of
from marless.estimation.simulation import LEAST_ROUNDS, Setting, Simulated
from marless.estimation.simulation import simulate as simulate_recording
from marless.estimation.targets import Target
from marless.estimation.virtual_functions import Faults
from marless.run import Run

__all__ = ["CostEstimate", "estimate", "simulate"]


_FAULTS = ("slow", "cold", "throttled", "lost")


@dataclass(frozen=True)
class CostEstimate:
    """A run as it would end."""

    rounds: int
    seconds: float
    """Seconds of training."""
    bill: Bill
    """Line by line."""

    @property
    def dollars(self) -> float:
        """The bill's total."""
        return float(self.bill.total)


def estimate(
    config: str | os.PathLike[str] | Mapping[str, Any] | None,
    settings: Mapping[str, Any],
    backend: str,
    workers: int | None,
    detach: bool,
    concurrency: int,
) -> CostEstimate:
    """See `marless.estimate`."""
    place, count = registry.lookup(backend), workers or cores()
    if detach and not place.remote:
        raise UserError(f"detach needs a back-end with deployments: {', '.join(registry.remote_names())}")
    target = Target(place, count if place.runs_here else concurrency, detach)
    _, spent, bill = estimate_run(configuration(config, settings), target, count).entries[0]
    return CostEstimate(spent.rounds, spent.seconds, bill)


def simulate(
    run: str | os.PathLike[str] | Run,
    rollouts: Sequence[int],
    slots: int | None,
    rounds: int,
    deployed: bool,
    faults: Mapping[str, float],
    seed: int,
    workers: int | None,
    settings: Mapping[str, Any],
) -> list[Simulated]:
    """See `marless.simulate`."""
    if rounds < LEAST_ROUNDS:
        raise UserError(f"at least {LEAST_ROUNDS} rounds are simulated: the first one starts the functions")
    if any(name not in _FAULTS or not 0 <= share <= 1 for name, share in faults.items()):
        raise UserError(f"faults: {dict(faults)} are not shares from 0 to 1 of {', '.join(_FAULTS)}")
    name = os.fspath(run.path if isinstance(run, Run) else run)
    recording = recording_of(name, list(overrides(settings)), workers or cores())
    width = slots or recording.slots
    return [
        simulate_recording(recording, Setting(count, rounds, width, deployed, Faults(**faults), seed))
        for count in rollouts or (recording.lines[-1].rollouts,)
    ]
