"""Advantage estimation, and what it is made of: rewards, what follows a step, and where an episode ends."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from functions.nn.mlp import Array

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
    inlined = np.zeros_like(residuals[..., 0, :])
    for t in range(residuals.shape[-2] - 1, -1, -1):
        inlined = residuals[..., t, :] + discount[..., t, :] * inlined
        advantages[..., t, :] = inlined
    return advantages


def next_values(values: Array, after_cut: Array, cut: Array) -> Array:
    """V(s_{t+1}) for ``values [n, T, E]``: the next row, or what stands after the cut ``[n, K]`` at its (t, e)."""
    following = np.empty_like(values)
    following[:, :-1] = values[:, 1:]
    following[:, -1] = 0.0
    following[:, cut[:, 0], cut[:, 1]] = after_cut
    return following


def truncations(ended: Flags, cut: NDArray[np.integer]) -> Flags:
    """Where a time limit ended an episode ``[T, E]``: what came next was seen and the copy was reset.

    At the end of a unit what came next was seen too, but nothing was reset: the unit ends there, not the episode.
    """
    found = np.zeros_like(ended)
    found[cut[:, 0], cut[:, 1]] = True
    return found & ended


def team_rewards(rewards: Array, sides: Sequence[int]) -> Array:
    """The sum of the rewards ``[N, T, E]`` over the agents of everyone's side; without `sides` all are on one."""
    of = np.array(sides or [0] * len(rewards))
    return np.stack([rewards[of == side].sum(axis=0) for side in of])


def any_of_side(flags: NDArray[np.bool_], sides: Sequence[int]) -> NDArray[np.bool_]:
    """Where one at least of everyone's side has the flag ``[N, T, E]``; without `sides` all are on one."""
    of = np.array(sides or [0] * len(flags))
    return np.stack([flags[of == side].any(axis=0) for side in of])
