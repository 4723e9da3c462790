"""What a rule's signal saves: dollars of an arm against those of its control, which differs only in the signal.

An arm that is cheaper than the baseline does not show that its signal helps: if the control saves as much, any signal
would have done. A difference that is not significant does not show equality, so equality is tested too. Ratios are
computed on logarithms; runs of the same seed are a pair.
"""

import math
from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from coordinator.reports.statistics import FloatArray, Interval, tost_paired
from coordinator.rules.student import t_quantile

# Two arms whose dollars lie within this factor are equal: the range of bioequivalence, 0.8 to 1.25.
FACTOR = 1.25
# Of each one-sided test, so that all of them can be read off the 90 % interval.
LEVEL = 0.05

# What a ratio is when runs miss the target, see `comparison.Reach`.
Bound = Literal["exact", "at least", "at most", "unknown"]
# The effect of the signal: within `FACTOR`, savings, extra cost, or undecided.
Verdict = Literal["equal", "saves", "costs", "open"]


class Against(msgspec.Struct, frozen=True, kw_only=True):
    """The geometric mean of ratios of dollars over `runs` pairs with its 90 % interval, by Student's t.

    `p_value` is that of the two one-sided tests that it lies within `FACTOR`. Both are None for a single pair.
    """

    ratio: float
    ci90: Interval | None
    p_value: float | None
    runs: int


class Savings(msgspec.Struct, frozen=True, kw_only=True):
    """Shares of the baseline's dollars that the tested arm and its control save, over the seeds that all three have.

    `signal` is the share of the tested arm's saving that its control does not have, 1 - `control` / `tested`, with the
    90 % interval of the jackknife over seeds (Tukey 1958) by Student's t. It is above 1 where the control costs more
    than the baseline, and negative where it saves more than the tested arm.
    """

    tested: float
    control: float
    signal: float
    ci90: Interval


def against(own: Sequence[float], other: Sequence[float]) -> Against | None:
    """Compares the dollars of pairs; None without pairs, or when a value is not positive."""
    if not own or min(*own, *other) <= 0:
        return None
    logs = [math.log(dollars) for dollars in own], [math.log(dollars) for dollars in other]
    if len(own) == 1:
        return Against(ratio=own[0] / other[0], ci90=None, p_value=None, runs=1)
    found = tost_paired(*logs, margin=math.log(FACTOR))
    low, high = found.ci90
    return Against(
        ratio=math.exp(found.difference), ci90=(math.exp(low), math.exp(high)), p_value=found.p_value, runs=len(own)
    )


def verdict(found: Against | None, bound: Bound) -> Verdict:
    """The effect of the signal by the ratio of the tested arm to its control, each test at `LEVEL`.

    A bound can only show a difference in its direction. Equality is tested first: with many seeds a difference may be
    significant and yet within `FACTOR`.
    """
    if found is None or found.ci90 is None or found.p_value is None:
        return "open"
    if bound == "exact" and found.p_value < LEVEL:
        return "equal"
    if bound in ("exact", "at most") and found.ci90[1] < 1:
        return "saves"
    if bound in ("exact", "at least") and found.ci90[0] > 1:
        return "costs"
    return "open"


def savings(tested: Sequence[float], control: Sequence[float], base: Sequence[float]) -> Savings | None:
    """Savings from dollars by seed; None unless the arm is cheaper than the baseline by its 90 % interval."""
    found = against(tested, base)
    if found is None or found.ci90 is None or found.ci90[1] >= 1 or min(control) <= 0:
        return None
    runs = len(base)
    saved, left = (_left_out(np.log(own) - np.log(base)) for own in (tested, control))
    signal = 1 - left / saved
    error = math.sqrt((runs - 1) / runs * float(np.sum((signal[1:] - signal[1:].mean()) ** 2)))
    half = t_quantile(1 - LEVEL, runs - 1) * error
    middle = float(signal[0])
    return Savings(tested=float(saved[0]), control=float(left[0]), signal=middle, ci90=(middle - half, middle + half))


def _left_out(logs: FloatArray) -> FloatArray:
    """The saving from all log ratios, then with each one left out (jackknife); all positive if the `Against` of the arm
    is below 1."""
    means = np.append(logs.mean(), (logs.sum() - logs) / (logs.size - 1))
    return np.asarray(1 - np.exp(means))
