"""Distances between the policies of one class of agents, and their upper confidence bounds.

A distance is computed from one stacked table ``[n, K, ...]``: n agents, and K observations or samples each. It
first computes the contribution of every observation for every pair, then combines the K contributions. So the bootstrap
draws observations without reading the tables again.

`jsd`, `hellinger`, `w2`, `regret` and `action` compare policies on the same observations. `kde-kl` compares densities
of the agents' own observations and actions, so it distinguishes agents by the states that they visit as well.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marless.functions.errors import NotFinite
from marless.functions.plug_in_registry import Family, Rule

FloatArray = NDArray[np.float64]

# Added to the covariance of samples in units of their standard deviation. It is singular for an agent that never takes
# two of its actions.
_RIDGE = 1e-6


@dataclass(frozen=True)
class DistanceRule:
    """A distance in two steps.

    `needs` names the table that learners report (`messages.learner.SummaryName`). All observations are common to all
    agents, but for `density` (samples ``[K, d]`` of an agent's own observations and actions). `behaviour` has
    probabilities ``[K, actions]``. Some algorithms report `gaussian` (means and standard deviations ``[K, 2, A]``),
    `values` (Q-values ``[K, actions]``) or `action` (actions ``[K, A]`` in units of the action range).
    `contributions` is ``[n, K, ...] -> [n, n, K]``, symmetric in the agents. `combine` is ``[..., K] -> [...]``.
    """

    needs: str
    contributions: Callable[[NDArray[Any]], FloatArray]
    combine: Callable[[FloatArray], FloatArray]


def matrix(rule: DistanceRule, tables: NDArray[Any]) -> FloatArray:
    """Distances ``[n, n]`` between all pairs: symmetric, zero diagonal.

    Raises `ValueError` for empty tables, and `NotFinite` if a distance is not a number.
    """
    return _square(rule.combine(_pairs(rule, tables)), len(tables))


def upper(
    rule: DistanceRule, tables: NDArray[Any], confidence: float, rng: np.random.Generator, resamples: int = 200
) -> FloatArray:
    """Upper bounds ``[n, n]`` of the distances at one-sided `confidence`, by the percentile bootstrap.

    Efron and Tibshirani, "An Introduction to the Bootstrap", 1993. The K observations are drawn with replacement, the
    same draw for all pairs. Raises as `matrix`. For `kde-kl` the densities stay as they are: the bound covers the
    Monte-Carlo error of the divergence, not the error of the densities.
    """
    pairs = _pairs(rule, tables)
    count = pairs.shape[1]
    draws = [rule.combine(pairs[:, rng.integers(count, size=count)]) for _ in range(resamples)]
    return _square(np.quantile(draws, confidence, axis=0), len(tables))


def diversity(matrix: NDArray[Any]) -> float:
    """System neural diversity: the mean distance of all pairs of agents, 0 for fewer than two.

    Bettini et al., "System Neural Diversity: Measuring Behavioral Heterogeneity in Multi-Agent Learning", 2023, there
    with the mean Wasserstein distance of Gaussian policies.
    """
    pairs = matrix[np.triu_indices(len(matrix), 1)]
    return float(pairs.mean()) if pairs.size else 0.0


def _pairs(rule: DistanceRule, tables: NDArray[Any]) -> FloatArray:
    """Contributions ``[pairs, K]`` of the pairs i < j, row by row of the matrix."""
    if tables.ndim < 3 or not tables.shape[1]:
        raise ValueError(f"tables are [agents, observations, ...] with at least one observation, not {tables.shape}")
    pairs = rule.contributions(tables)[np.triu_indices(len(tables), 1)]
    if not np.isfinite(pairs).all():
        raise NotFinite(f"a distance between policies ({rule.needs} tables) is NaN or infinite")
    return pairs


def _square(pairs: FloatArray, agents: int) -> FloatArray:
    """Values of the pairs i < j on both sides of a zero diagonal."""
    square = np.zeros((agents, agents))
    square[np.triu_indices(agents, 1)] = pairs
    return square + square.T


def _mean(contributions: FloatArray) -> FloatArray:
    return np.asarray(contributions.mean(axis=-1))


def _mean_from_zero(contributions: FloatArray) -> FloatArray:
    return np.maximum(_mean(contributions), 0.0)


def _root_mean(contributions: FloatArray) -> FloatArray:
    return np.sqrt(_mean(contributions))


Between = Callable[[FloatArray, FloatArray], FloatArray]


def _each_beside_all(between: Between, tables: NDArray[Any]) -> FloatArray:
    """``[n, n, K]`` from `between`, which compares one agent's table ``[K, ...]`` with all ``[n, K, ...]``."""
    wide = tables.astype(np.float64)
    return np.stack([between(table, wide) for table in wide])


def _jensen_shannon(first: FloatArray, second: FloatArray) -> FloatArray:
    """½ KL(p‖m) + ½ KL(q‖m) in nats, m = (p + q)/2, between 0 and ln 2. Zero probabilities are allowed.

    Rows are scaled to sum to 1: float32 tables do so within rounding only, which matters for similar policies.
    """
    p, q = (table / table.sum(axis=-1, keepdims=True) for table in (first, second))
    return np.maximum((_relative(p, q) + _relative(q, p)) / 2, 0.0)


def _relative(p: FloatArray, q: FloatArray) -> FloatArray:
    """KL(p‖(p + q)/2)."""
    p, q = np.broadcast_arrays(p, q)
    ratio = np.divide(2 * p, p + q, out=np.ones(p.shape), where=p > 0)
    return np.asarray((p * np.log(ratio)).sum(axis=-1))


def _hellinger(first: FloatArray, second: FloatArray) -> FloatArray:
    """Squared Hellinger distance of diagonal Gaussians. Standard deviations must be above 0."""
    (mean_a, sd_a), (mean_b, sd_b) = _moments(first), _moments(second)
    variance = sd_a**2 + sd_b**2
    log_overlap = np.log(2 * sd_a * sd_b / variance) / 2 - (mean_a - mean_b) ** 2 / (4 * variance)
    return np.asarray(np.maximum(-np.expm1(log_overlap.sum(axis=-1)), 0.0))


def _wasserstein(first: FloatArray, second: FloatArray) -> FloatArray:
    """Squared 2-Wasserstein distance of diagonal Gaussians. Standard deviations may be 0."""
    (mean_a, sd_a), (mean_b, sd_b) = _moments(first), _moments(second)
    return np.asarray(((mean_a - mean_b) ** 2 + (sd_a - sd_b) ** 2).sum(axis=-1))


def _moments(table: FloatArray) -> tuple[FloatArray, FloatArray]:
    return table[..., 0, :], table[..., 1, :]


def _regret(first: FloatArray, second: FloatArray) -> FloatArray:
    """An agent's loss of Q-value by acting like the other agent, as a share of its range, averaged over both."""
    first, second = np.broadcast_arrays(first, second)
    return (_loss(first, second.argmax(axis=-1)) + _loss(second, first.argmax(axis=-1))) / 2


def _loss(values: FloatArray, action: NDArray[np.int64]) -> FloatArray:
    best, worst = values.max(axis=-1), values.min(axis=-1)
    action_values = np.take_along_axis(values, action[..., np.newaxis], axis=-1)[..., 0]
    loss, span = best - action_values, best - worst
    return np.asarray(np.divide(loss, span, out=np.zeros(loss.shape), where=span > 0))


def _action(first: FloatArray, second: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.norm(first - second, axis=-1))


def _kde_kl(tables: NDArray[Any]) -> FloatArray:
    """The two directions of KL between kernel densities, halved and added, at each agent's k-th sample.

    The mean of log p_i - log p_j over the samples of i estimates KL(i‖j). At its own sample an agent's density leaves
    that sample out, or equal agents would have a positive distance. Raises `ValueError` for one sample.
    """
    samples = tables.astype(np.float64)
    agents, count, _ = samples.shape
    if count < 2:
        raise ValueError(f"a kernel density needs at least 2 samples, got {count}")
    log_density = np.empty((agents, agents, count))
    for j, centres in enumerate(samples):
        for i, points in enumerate(samples):
            log_density[i, j] = _log_density(centres, points, leave_one_out=i == j)
    own_density = log_density[np.arange(agents), np.arange(agents)]
    one_way = own_density[:, np.newaxis] - log_density
    return (one_way + one_way.swapaxes(0, 1)) / 2


def _log_density(centres: FloatArray, points: FloatArray, leave_one_out: bool) -> FloatArray:
    """Log-density at `points` ``[m, d]`` of Gaussian kernels at `centres` ``[K, d]``, up to a constant of d.

    The kernels' covariance is the centres' covariance by Scott's factor K^(-1/(d+4)) (Scott, "Multivariate Density
    Estimation", 1992), squared. `leave_one_out`: the points are the centres, and a kernel does not count at its own
    centre.
    """
    count, width = centres.shape
    covariance = np.cov(centres, rowvar=False).reshape(width, width) + _RIDGE * np.eye(width)
    root = np.linalg.cholesky(covariance) * count ** (-1 / (width + 4))
    middle = centres.mean(axis=0)  # small numbers keep their digits in the expanded square
    a, b = (np.linalg.solve(root, (rows - middle).T).T for rows in (points, centres))
    exponent = a @ b.T - (a * a).sum(axis=1)[:, np.newaxis] / 2 - (b * b).sum(axis=1) / 2
    if leave_one_out:
        np.fill_diagonal(exponent, -np.inf)
    top = exponent.max(axis=1)
    exponent -= top[:, np.newaxis]
    total = np.exp(exponent, out=exponent).sum(axis=1)
    return np.asarray(top + np.log(total) - np.log(count - leave_one_out) - np.log(np.diag(root)).sum())


DISTANCES: Family[DistanceRule] = Family(
    "distance",
    {
        "jsd": Rule(
            "root of the mean Jensen-Shannon divergence of choices",
            DistanceRule("behaviour", partial(_each_beside_all, _jensen_shannon), _root_mean),
        ),
        "kde-kl": Rule("the MARLess paper's", DistanceRule("density", _kde_kl, _mean_from_zero)),
        "hellinger": Rule(
            "Hellinger distance of Gaussian actions",
            DistanceRule("gaussian", partial(_each_beside_all, _hellinger), _root_mean),
        ),
        "w2": Rule(
            "2-Wasserstein distance of Gaussian actions",
            DistanceRule("gaussian", partial(_each_beside_all, _wasserstein), _root_mean),
        ),
        "regret": Rule(
            "loss of value by acting as the other", DistanceRule("values", partial(_each_beside_all, _regret), _mean)
        ),
        "action": Rule(
            "Euclidean distance of actions", DistanceRule("action", partial(_each_beside_all, _action), _mean)
        ),
    },
    DistanceRule,
)
"""The distances by name.

* `jsd`: root of the mean Jensen-Shannon divergence; a metric, at most sqrt(ln 2).
* `kde-kl`: the MARLess paper's, §4.3.2, which names a kernel density over observation and action after PCA and the KL
  divergence, but neither kernel, bandwidth, estimate of the divergence nor which of its two directions. Here: Gaussian
  kernels, Scott's bandwidth, Monte Carlo over the agents' samples, the mean of both directions, at least 0. Not a
  metric; too high for agents that visit different states, since Gaussian kernels fall off fast.
* `hellinger`: root of the mean squared Hellinger distance of diagonal Gaussians; a metric, at most 1.
* `w2`: root of the mean squared 2-Wasserstein distance of diagonal Gaussians; a metric. (Bettini et al. 2023 take the
  mean of the distance itself.)
* `regret`: mean loss of value when one agent acts as the other would, in shares of the range of its own Q-values;
  between 0 and 1, whatever the scale of the values. Illegal actions count as the worst legal one. Not a metric.
* `action`: mean Euclidean distance of deterministic actions; a metric on the observations given.
"""
