"""The longest episode of a PettingZoo environment."""

from typing import Any

import numpy as np

from functions.environments.base import EnvTask


def horizon_of(task: EnvTask, environment: Any) -> int:
    """The longest episode in steps: `task.options.horizon`, else the environment's own.

    Raises `ValueError` when neither is known, or when it is not a whole number from 1.
    """
    horizon = task.options.get("horizon", own_horizon(environment))
    if horizon is None:
        horizon = task.options.get("max_cycles")
    if horizon is None:
        raise ValueError(f"{task.name} does not say how long an episode is: add task.options.horizon, in steps")
    if isinstance(horizon, bool) or not isinstance(horizon, int | np.integer) or horizon < 1:
        raise ValueError(f"{task.name}: the horizon is {horizon!r}; it must be a whole number of steps, at least 1")
    return int(horizon)


def own_horizon(environment: Any) -> Any:
    """`max_cycles` of the environment, of its metadata or of its game, where PettingZoo's families have it."""
    inner = getattr(environment, "unwrapped", environment)
    metadata = getattr(inner, "metadata", None) or {}
    game = getattr(inner, "env", None)
    return getattr(inner, "max_cycles", metadata.get("max_cycles", getattr(game, "max_cycles", None)))
