"""What a configuration asks of a task that the task cannot give: known only once somebody has looked at it."""

from coordinator import opponents, sides, similarity
from coordinator.config import RunConfig
from coordinator.opponents import Fixed
from coordinator.similarity import Distance
from functions.environments.base import Spec


def misfit(config: RunConfig, spec: Spec, fixed: Fixed | None = None) -> str:
    """Why the run cannot be, and what to set instead; '' when it can."""
    if problem := sides.misfit(spec, config.evaluation.side) or opponents.misfit(config, spec, fixed):
        return problem
    if problem := config.algorithm.misfit(config.actors.steps or spec.horizon):
        return f"algorithm.{problem}"
    return _incomparable(config.sharing.distance, spec) if config.sharing.rule == "dynamic" else ""


def _incomparable(distance: Distance, spec: Spec) -> str:
    """Why the agents' policies cannot be compared by `distance`; '' when they can."""
    acting, needs = {kind.continuous for kind in spec.classes}, similarity.DISTANCES[distance].needs
    # It compares what agents saw and did, of either kind.
    both = "kde-kl" if len(acting) > 1 else ""
    if needs == "behaviour" and True in acting:
        instead = both or "hellinger or w2"
        return f"sharing.distance: {distance} compares choices, and some agents act in numbers; use {instead}"
    if needs == "gaussian" and False in acting:
        return f"sharing.distance: {distance} compares numbers, and some agents choose; use {both or 'jsd'}"
    return ""
