"""A model of one reward that several agents get together, and whether agents can exchange their parts of it.

The model is a sum over agents. An agent's part is linear in random features of its inputs (see `reward_models`), and
ridge regression fits all parts together. Two agents have one role if the exchange of their parts does not raise the
error. Sums of products of features stay from round to round, so the model improves, and its cost does not grow.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from marless.functions.algorithms.reward_models import BLOCKS, Array, random_features
from marless.functions.algorithms.stage import Context, Tensors
from marless.functions.keys import REWARD_SUMS, group_name

# Features of all agents together, and the weight of the penalty in mean squares of a feature.
FEATURES, PENALTY = 512, 5.0
# A model that explains a smaller share of the variance is no evidence.
LEAST_EXPLAINED = 0.3
# Scaled inputs are cut off here.
LARGEST = 10.0
SCALE, SUMS = "scale", "sums"


class TeamRewards(NamedTuple):
    """The observations and actions of n agents, `inputs` ``[n, T, E, F]``, and their common `reward` ``[T, E]``.
    `alive` is ``[n, T, E]``, `episode_ends` ``[T, E]``."""

    inputs: Array
    reward: NDArray[np.floating]
    alive: NDArray[np.bool_]
    episode_ends: NDArray[np.bool_]


def kept_prefix(group: int) -> str:
    """Return where the sums of a group are in the learner's state."""
    return f"policy_optimiser/{group_name(group)}/{REWARD_SUMS}"


def kept_sums(context: Context[object], group: int) -> dict[str, NDArray[np.generic]]:
    """Return the sums of earlier rounds, by name."""
    return {name: array for name, array in context.tensors.items() if name.startswith(kept_prefix(group))}


def errors(
    data: TeamRewards, before: Tensors, rng: np.random.Generator, features: int = FEATURES
) -> tuple[NDArray[np.float64] | None, dict[str, Array]]:
    """Return errors as `reward_models.errors` does, and the sums after this round.

    The model learns from one half of the environments of all rounds, and is tested on the other half of this round. The
    errors ``[i, i, blocks]`` are half of the squared error. The errors ``[i, j, blocks]`` are half of it after i and j
    exchange their parts. None if the model explains less than `LEAST_EXPLAINED` of the variance, or if reward or
    environments are missing. `before` has the sums of earlier rounds. In every round `rng` draws the same numbers, and
    all agents together have so many `features`.
    """
    agents, _, num_envs, _ = data.inputs.shape
    blocks = min(BLOCKS, num_envs // 2)
    scale = before[SCALE] if SCALE in before else _scale(data.inputs)
    rows, envs = _paid_rows(data, scale, rng, features // agents)
    block, half = envs // 2 % max(blocks, 1), envs % 2
    if blocks < 2 or not data.reward.any() or not np.bincount(2 * block + half, minlength=2 * blocks).all():
        return None, {}
    products = np.stack([rows[half == train].T @ rows[half == train] for train in (0, 1)])
    sums = products + before[SUMS] if SUMS in before else products
    squares, by_agent = np.zeros((len(rows), agents, agents)), rows[:, :-2].reshape(len(rows), agents, -1)
    for train in (0, 1):
        test, weights = half != train, _weights(sums[train])
        parts = by_agent[test] @ weights[:-1].reshape(agents, -1).T
        own_parts = np.einsum("rii->ri", parts)
        change = parts + parts.swapaxes(1, 2) - own_parts[:, np.newaxis] - own_parts[:, :, np.newaxis]
        error = own_parts.sum(axis=1) + weights[-1] - rows[test, -1]
        squares[test] = (error[:, np.newaxis, np.newaxis] + change) ** 2 / 2
    by_block = np.stack([squares[block == number].mean(axis=0) for number in range(blocks)], axis=-1)
    explains = 2 * squares[:, 0, 0].mean() < (1 - LEAST_EXPLAINED) * rows[:, -1].var()
    return by_block if explains else None, {SCALE: scale, SUMS: sums}


def _paid_rows(
    data: TeamRewards, scale: Array, rng: np.random.Generator, cosines: int
) -> tuple[Array, NDArray[np.intp]]:
    """The rows ``[R, features + 2]`` of the regression and their environments ``[R]``: features, a 1 and the reward.

    A row is a step, or the sum over an episode if only the last steps of episodes pay.
    """
    inputs, steps = np.clip((data.inputs - scale[0]) / scale[1], -LARGEST, LARGEST), len(data.reward)
    features = random_features(inputs, cosines, rng) * data.alive[..., np.newaxis]
    columns = [*features, np.ones((*data.reward.shape, 1)), data.reward[..., np.newaxis]]
    rows = np.concatenate(columns, axis=-1, dtype=np.float32).swapaxes(0, 1).reshape(data.reward.size, -1)
    if data.reward[~data.episode_ends].any():
        return rows, np.arange(len(rows)) // steps
    ends = data.episode_ends.T.ravel()
    begins = np.flatnonzero(np.roll(ends, 1) | (np.arange(len(ends)) % steps == 0))
    whole = np.add.reduceat(ends, begins, dtype=np.int64) > 0
    totals = np.add.reduceat(rows, begins, axis=0)[whole]
    totals[:, -2] = 1
    return totals, begins[whole] // steps


def _scale(inputs: Array) -> Array:
    deviation = inputs.std(axis=(0, 1, 2))
    return np.stack([inputs.mean(axis=(0, 1, 2)), np.where(deviation > 1e-6, deviation, 1)], dtype=np.float32)


def _weights(sums: Array) -> NDArray[np.float64]:
    """The weights of the features and the 1, from sums of products of the columns."""
    products, count = sums[:-1, :-1].astype(np.float64), float(sums[-2, -2])
    products[np.diag_indices_from(products)] += PENALTY * np.trace(products) / len(products) / count
    return np.asarray(np.linalg.solve(products, sums[:-1, -1]), np.float64)
