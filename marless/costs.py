"""What a run would cost, from Python."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coordinator.errors import UserError
from coordinator.pricing.bill import Bill
from infra.local.own_process import cores
from marless.backends import registry
from marless.driving import configuration
from marless.estimation.estimate import estimate_run
from marless.estimation.targets import Target

__all__ = ["CostEstimate", "estimate"]


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
