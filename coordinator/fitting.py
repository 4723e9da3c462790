"""What a configuration asks of a task that the task cannot give: known only once somebody has looked at it."""

from coordinator import opponents, sides, similarity
from coordinator.config import RunConfig
from coordinator.opponents import Fixed
from functions.environments.base import Spec


def misfit(config: RunConfig, spec: Spec, fixed: Fixed | None = None) -> str:
    """Why the run cannot be; '' when it can."""
    if problem := sides.misfit(spec, config.evaluation.side) or opponents.misfit(config, spec, fixed):
        return problem
    if problem := config.algorithm.misfit(config.actors.steps or spec.horizon):
        return f"algorithm.{problem}"
    if config.sharing.rule != "dynamic":
        return ""
    distance, acting = config.sharing.distance, {kind.continuous for kind in spec.classes}
    needs = similarity.DISTANCES[distance].needs
    if needs == "behaviour" and True in acting:
        return f"sharing.distance: {distance} compares choices, and some agents act in numbers; use hellinger or w2"
    if needs == "gaussian" and False in acting:
        return f"sharing.distance: {distance} compares numbers, and some agents choose; use jsd"
    return ""
