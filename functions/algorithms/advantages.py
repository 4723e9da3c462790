"""Advantage estimation."""

import numpy as np
from numpy.typing import NDArray

from functions.algorithms.networks import Array

Flags = NDArray[np.bool_]


def gae(
    rewards: Array, values: Array, next_values: Array, terminated: Flags, ended: Flags, gamma: float, lambda_: float
) -> Array:
    """Generalised advantage estimates ``[..., T, E]`` (Schulman et al., 2016, eq. 16), time on the axis before last.

    `next_values` holds V(s_{t+1}), which at a truncation is the value of the observation before the reset. A
    termination removes the bootstrap; both a termination and a reset (`ended`) stop the λ-sum. Arrays broadcast over
    the leading axes (agents).
    """
    residuals = rewards + gamma * next_values * ~terminated - values
    discount = gamma * lambda_ * ~(terminated | ended)
    advantages = np.empty_like(residuals)
    carried = np.zeros_like(residuals[..., 0, :])
    for t in range(residuals.shape[-2] - 1, -1, -1):
        carried = residuals[..., t, :] + discount[..., t, :] * carried
        advantages[..., t, :] = carried
    return advantages
