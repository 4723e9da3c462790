"""The line of observations where a policy keeps the stress, compared with the log law. It needs no flow.

In the plane of observations, the log law's stress at a height y⁺ is on the line ``B_m = B + (1/κ - 1/κ_m) ln
y⁺``. A policy that agrees with the log law has the action 1 there. Published policies leave this line at high Reynolds
numbers (Vadrot et al., "Survey of machine-learning wall models for large-eddy simulation", 2023).
"""

from collections.abc import Callable

import numpy as np

from marless_tasks.channel.solver import KAPPA, Array
from marless_tasks.channel.walls import INTERCEPT

# Actions ``[N]`` for observations ``[N, 2]``.
Act = Callable[[Array], Array]
_LOWEST, _HIGHEST, _HALVINGS = -60.0, 60.0, 60


def law_line(slopes: Array, height: float) -> Array:
    """The intercepts of the log law's line for slopes 1/κ_m, at a height in wall units."""
    intercepts: Array = INTERCEPT + (1 / KAPPA - slopes) * np.log(height)
    return intercepts


def neutral_line(act: Act, slopes: Array) -> Array:
    """The intercepts where actions pass 1. NaN where they pass it nowhere from -60 to 60."""
    low, high = np.full(slopes.shape, _LOWEST), np.full(slopes.shape, _HIGHEST)
    passes = (act(np.stack([slopes, low], axis=1)) < 1) & (act(np.stack([slopes, high], axis=1)) > 1)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        above = act(np.stack([slopes, middle], axis=1)) > 1
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.where(passes, 0.5 * (low + high), np.nan)
