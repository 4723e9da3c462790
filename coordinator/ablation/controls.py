"""What a rule's signal saves: dollars of an arm against those of its control, which differs in the signal alone.

That an arm is cheaper than the baseline does not say that its signal is worth anything: a control that saves as much
shows that any signal would have done. And that a difference is not significant does not say that there is none, so
equality is tested too. Ratios are worked out on logarithms, runs of one seed being a pair.
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

# What runs that never reach the target make of a ratio, see `comparison.Reach`.
Bound = Literal["exact", "at least", "at most", "unknown"]
# What the signal does: nothing beyond `FACTOR`, save, cost, or it is open.
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
    """Dollars of pairs compared; None without any pair, and when something costs nothing."""
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
    """What the ratio of the tested arm to its control says of the signal, each test at `LEVEL`.

    A ratio that is a bound can only show a difference in its own direction. Equal comes first: with many seeds a
    difference may be sure and yet within `FACTOR`.
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
    """From dollars by seed; None unless the 90 % interval of tested arm to baseline says that the arm saves."""
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
    """The saving by all of these logarithms of ratios, then by all but each; of an arm whose `Against` lies below 1,
    every one is positive."""
    means = np.append(logs.mean(), (logs.sum() - logs) / (logs.size - 1))
    return np.asarray(1 - np.exp(means))
