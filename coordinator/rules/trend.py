"""Detect declining returns of the team: the window of rounds, its trend, and the rules that then flip sharing.

MARLess (SoCC 2025, §4.3.1) normalises each agent's return by its extremes over the run, aggregates the agents and fits
a least-squares line to the last W rounds. It flips the sharing mode if the slope is under a threshold gamma, and then
empties the window. It leaves open whether agents are summed or averaged: here they are averaged, so that the slope does
not grow with the team.

The paper contradicts itself on gamma. Its text (§4.3.1) flips if slope < gamma, so that a lower gamma flips less. Its
sensitivity section (§6.5) says that a lower gamma flips more often, which holds for -slope > gamma. `paper` follows the
text, `decline` the sensitivity section. They agree at gamma = 0. Both flip on noise: without any trend half of all
windows fall. `significant` flips on a decline beyond chance and needs no gamma.
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from marless.functions.messages.message import Message
from marless.functions.plug_in_registry import Family, Rule

FloatArray = NDArray[np.float64]

ALPHAS = (0.001, 0.01, 0.05, 0.1)
CRITICAL: dict[int, tuple[float, ...]] = {
    3: (1.134e05, 1.118e04, 2189, 1051),
    4: (825.6, 249.3, 109.5, 76),
    5: (176.3, 80.71, 45.94, 35.62),
    6: (86.32, 47.31, 30.25, 24.59),
    7: (58.02, 34.83, 23.61, 19.64),
    8: (43.98, 28.18, 19.73, 16.59),
    10: (31.33, 21.13, 15.26, 13.04),
    12: (24.72, 17.29, 12.89, 11.15),
    15: (19.64, 14.22, 10.88, 9.478),
    20: (15.7, 11.69, 9.087, 7.98),
    30: (12.21, 9.324, 7.403, 6.542),
}
"""By window length, the steepness that 100 rounds without a trend exceed at all with each probability of `ALPHAS`.

Simulated: 100 successive full windows of AR(1) noise with coefficient 0.6, the worse of Gaussian and Student t3
innovations, 400,000 series each. Less autocorrelation gives smaller values. tests/conformance/test_trend_alarms.py
simulates them again.
"""


class TrendHistory(Message, frozen=True, kw_only=True):
    """Returns that the trend is computed from.

    `low` and `high`: each agent's extremes over the run. `window[k][i]`: raw return of agent i in the window's round k.
    """

    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    window: tuple[tuple[float, ...], ...] = ()


class TrendRule(Protocol):
    """Return whether to flip. `values` is a full window, oldest first."""

    def __call__(self, values: FloatArray, gamma: float, alpha: float) -> bool: ...


def add_round(history: TrendHistory, returns: Sequence[float], length: int) -> TrendHistory:
    """Return the history after a round with `returns` per agent. The window keeps the last `length` rounds.

    ValueError when the number of agents changes.
    """
    latest = tuple(float(value) for value in returns)
    low, high = history.low or latest, history.high or latest
    return TrendHistory(
        low=tuple(min(pair) for pair in zip(low, latest, strict=True)),
        high=tuple(max(pair) for pair in zip(high, latest, strict=True)),
        window=(*history.window, latest)[-length:],
    )


def clear_window(history: TrendHistory) -> TrendHistory:
    """The history after a flip, which itself causes a short dip: no rounds, the same extremes."""
    return TrendHistory(low=history.low, high=history.high)


def values(history: TrendHistory) -> FloatArray:
    """The window ``[n]`` as the team's mean return, each agent's scaled to 0 to 1 by its extremes over the run.

    An agent with a constant return counts 0.5.
    """
    raw = np.array(history.window, dtype=np.float64)
    low, high = np.array(history.low), np.array(history.high)
    varies = high > low
    return np.asarray(np.where(varies, (raw - low) / np.where(varies, high - low, 1.0), 0.5).mean(axis=1))


def slope(values: FloatArray) -> float:
    """Least-squares slope per round of ``[n]`` values, n >= 2."""
    return float(_line(values)[0])


def steepness(values: FloatArray) -> FloatArray:
    """Return the fall per round of ``[..., n]`` values in units of its standard error ``[...]``, negative for a
    rise.

    The error follows Newey & West ("A Simple, Positive Semi-Definite, Heteroskedasticity and Autocorrelation Consistent
    Covariance Matrix", 1987) with one lag. One lag had the best worst-case power over autocorrelations 0 to 0.6. The
    alternatives were the ordinary error, two to four lags, and generalised least squares with a given or an estimated
    coefficient, each with its critical values. Infinite for a straight fall, nan for constant values.
    """
    slopes, residuals, times = _line(values)
    scores = residuals * times
    variance = (scores**2).sum(axis=-1) + (scores[..., 1:] * scores[..., :-1]).sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio: FloatArray = -slopes * (times**2).sum() / np.sqrt(np.maximum(variance, 0.0))
    return ratio


@cache
def critical(window: int, alpha: float) -> float:
    """The steepness beyond which a decline of a full window is significant.

    Interpolated in `CRITICAL` between the logarithms. A window longer than all in the table takes the value of the
    longest, which is too high, never too low. `alpha` outside of `ALPHAS` takes the nearest. Infinite for fewer than
    three rounds, which have no standard error.
    """
    if window < min(CRITICAL):
        return math.inf
    lengths, table = np.log(list(CRITICAL)), np.log(list(CRITICAL.values()))
    row = [np.interp(math.log(window), lengths, column) for column in table.T]
    return math.exp(np.interp(math.log(alpha), np.log(ALPHAS), row))


def significant(values: FloatArray, gamma: float, alpha: float) -> bool:
    """Flips on a statistically significant decline.

    `alpha` is the probability of any false flip in 100 rounds without a trend, over all overlapping windows. This holds
    for AR(1) noise with a coefficient up to 0.6, Gaussian or heavy-tailed (Student t3). Other measurements, at alpha =
    0.05 and ten rounds: 0.15 to 0.21 with a coefficient of 0.8, and 0.10 with exponential noise, its long tail upwards,
    at 0.6.

    At alpha = 0.05 and with a window of ten rounds, it detects a fall per round of one standard deviation of the noise
    within 20 rounds with probability 0.94 or more (0.08 by five). It detects half such a fall with 0.25 by ten and 0.89
    by fifteen. `gamma` is not used.
    """
    return bool(steepness(values) > critical(len(values), alpha))


def decline(values: FloatArray, gamma: float, alpha: float) -> bool:
    """Flips when the values fall by more than `gamma` per round: §6.5 of the paper. `alpha` is not used."""
    return -slope(values) > gamma


def paper(values: FloatArray, gamma: float, alpha: float) -> bool:
    """Flips when the slope is under `gamma`: §4.3.1 of the paper, to the letter. `alpha` is not used."""
    return slope(values) < gamma


TRENDS: Family[TrendRule] = Family(
    "trend",
    {
        "significant": Rule("a decline beyond chance", significant),
        "paper": Rule("slope under gamma", paper),
        "decline": Rule("-slope over gamma", decline),
    },
)


def _line(values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Slopes ``[...]`` and residuals ``[..., n]`` of the least-squares lines, and the centred rounds ``[n]``."""
    length = values.shape[-1]
    times = np.arange(length) - (length - 1) / 2
    deviations = values - values.mean(axis=-1, keepdims=True)
    slopes = np.asarray(deviations @ times / (times**2).sum())
    return slopes, deviations - slopes[..., np.newaxis] * times, times
