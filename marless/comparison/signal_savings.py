"""The saving of a rule's signal: dollars of an arm against its control's, which differs only in the signal.

An arm that is cheaper than the baseline does not show that its signal helps: if the control saves as much, any signal
suffices. An insignificant difference does not show equality, so equality is tested too. Ratios are computed on
logarithms. Runs of the same seed are a pair.
"""

import math
from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from marless.coordinator.rules.student_t import t_quantile
from marless.reports.statistics import FEWEST_SEEDS, FloatArray, Interval, tost_paired

# Two arms are equal if their dollars lie within this factor: the range of bioequivalence, 0.8 to 1.25.
FACTOR = 1.25
# Level of each one-sided test, so that the 90 % interval decides all of them.
LEVEL = 0.05

# Whether a ratio is a bound because runs miss the target, see `paired_by_seed.Reach`.
Bound = Literal["exact", "at least", "at most", "unknown"]
# By whether runs of the first arm miss the target, and runs of the second.
BOUNDS: dict[tuple[bool, bool], Bound] = {
    (False, False): "exact",
    (True, False): "at least",
    (False, True): "at most",
    (True, True): "unknown",
}
# The effect of the signal: within `FACTOR`, savings, extra cost, or undecided.
Verdict = Literal["equal", "saves", "costs", "open"]


class DollarRatio(msgspec.Struct, frozen=True, kw_only=True):
    """The geometric mean of ratios of dollars over `runs` pairs with its 90 % interval, by Student's t.

    `p_value` is the two one-sided tests' that it lies within `FACTOR`. Both are None for a single pair.
    """

    ratio: float
    ci90: Interval | None
    p_value: float | None
    runs: int


class Savings(msgspec.Struct, frozen=True, kw_only=True):
    """Shares of the baseline's dollars that the tested arm and its control save, over the seeds that all three have.

    `signal` is the share of the tested arm's saving that its control lacks, 1 - `control` / `tested`. Its 90 % interval
    is the jackknife's over seeds (Tukey 1958) by Student's t. The share is above 1 where the control costs more than
    the baseline, and negative where it saves more than the tested arm.
    """

    tested: float
    control: float
    signal: float
    ci90: Interval


def compare_dollars(first: Sequence[float], other: Sequence[float]) -> DollarRatio | None:
    """Compares the dollars of pairs, or returns None for missing pairs or values of 0."""
    if not first or min(*first, *other) <= 0:
        return None
    logs = [math.log(dollars) for dollars in first], [math.log(dollars) for dollars in other]
    if len(first) == 1:
        return DollarRatio(ratio=first[0] / other[0], ci90=None, p_value=None, runs=1)
    test = tost_paired(*logs, margin=math.log(FACTOR))
    low, high = map(math.exp, test.ci90)
    return DollarRatio(ratio=math.exp(test.difference), ci90=(low, high), p_value=test.p_value, runs=len(first))


def verdict(dollars: DollarRatio | None, bound: Bound) -> Verdict:
    """Return the effect of the signal by the ratio of the tested arm to its control, each test at `LEVEL`.

    Below `FEWEST_SEEDS` pairs the effect is open.
    A bound can only show a difference in its direction. Equality is tested first: with many seeds a difference may be
    significant and yet within `FACTOR`.
    """
    if dollars is None or dollars.runs < FEWEST_SEEDS or dollars.ci90 is None or dollars.p_value is None:
        return "open"
    if bound == "exact" and dollars.p_value < LEVEL:
        return "equal"
    if bound in ("exact", "at most") and dollars.ci90[1] < 1:
        return "saves"
    if bound in ("exact", "at least") and dollars.ci90[0] > 1:
        return "costs"
    return "open"


def savings(tested: Sequence[float], control: Sequence[float], base: Sequence[float]) -> Savings | None:
    """Savings from dollars by seed, or None if the 90 % interval does not show the arm as cheaper."""
    dollars = compare_dollars(tested, base)
    if dollars is None or dollars.ci90 is None or dollars.ci90[1] >= 1 or min(control) <= 0:
        return None
    runs = len(base)
    of_tested, of_control = (_jackknife(np.log(arm_dollars) - np.log(base)) for arm_dollars in (tested, control))
    signal = 1 - of_control / of_tested
    error = math.sqrt((runs - 1) / runs * float(np.sum((signal[1:] - signal[1:].mean()) ** 2)))
    half = t_quantile(1 - LEVEL, runs - 1) * error
    middle, interval = float(signal[0]), (float(signal[0]) - half, float(signal[0]) + half)
    return Savings(tested=float(of_tested[0]), control=float(of_control[0]), signal=middle, ci90=interval)


def _jackknife(logs: FloatArray) -> FloatArray:
    """The saving from all log ratios, then without each of them (jackknife). All are positive if the arm's
    `DollarRatio` is below 1."""
    means = np.append(logs.mean(), (logs.sum() - logs) / (logs.size - 1))
    return np.asarray(1 - np.exp(means))
