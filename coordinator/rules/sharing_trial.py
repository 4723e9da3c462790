"""Whether to keep a shared team: a sequential test that it returns no less than the unshared one, up to a margin.

The MARLess paper (SoCC 2025) shares as soon as the trend declines and sees the effect on the returns afterwards; here
both teams first play the same start states, in batches that end as soon as the test decides.
"""

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from marless.coordinator.rules.student_t import t_quantile

Verdict = Literal["commit", "roll back", "more"]


def schedule(most: int, looks: int) -> tuple[int, ...]:
    """The total number of episodes at each look: doubling, `most` at the last.

    Shorter than `looks` when `most` is too small for growing totals of at least two: pass its length to `judge`.
    ValueError when `most` is below 2 or `looks` below 1.
    """
    if most < 2 or looks < 1:
        raise ValueError(f"a trial needs at least 2 episodes and 1 look, not {most} and {looks}")
    totals = (math.ceil(most / 2**halvings) for halvings in range(looks))
    return tuple(sorted({total for total in totals if total >= 2}))


def judge(differences: NDArray[np.float64], margin: float, error: float, look: int, looks: int) -> Verdict:
    """The verdict on paired episodes ``[n]``, shared minus unshared return, at `look` (from 1) of `looks`.

    `commit` when the lower confidence bound of the mean difference is above -margin, `roll back` when the upper one is
    below it; else `more`, and `roll back` at the last look: not proven. Bounds are Student's.

    When the true mean is -margin or worse, the probability to commit at any look is at most `error`; when it is
    better, so is that to roll back before the last look. Each look spends the share of `error` that its new episodes
    have in a doubling schedule (1/8, 1/8, 1/4, 1/2 of it for four looks): the alpha-spending function alpha * t of
    Lan & DeMets ("Discrete sequential boundaries for clinical trials", 1983). The shares are added up as in
    Bonferroni's inequality, which needs no joint distribution of the looks and costs some power. As with any t test the
    mean must be near normal: with exponential differences, their long tail downwards, an error of 0.05 became
    0.06 for 200 to 1600 episodes and as 0.09 for 25 to 200.

    Fewer than two episodes decide nothing; equal differences have no deviation. ValueError for a look outside
    of 1 to `looks` and an error outside of (0, 0.5).
    """
    if not (1 <= look <= looks and 0 < error < 0.5):
        raise ValueError(f"no look {look} of {looks} with error {error}")
    without_bound: Verdict = "more" if look < looks else "roll back"
    if len(differences) < 2:
        return without_bound
    mean, deviation = _moments(differences)
    probability = 1 - error * _error_share(look, looks)
    half = t_quantile(probability, len(differences) - 1) * deviation / math.sqrt(len(differences))
    if mean - half > -margin:
        return "commit"
    return "roll back" if mean + half < -margin else without_bound


def _error_share(look: int, looks: int) -> float:
    """The share of the error that a look spends; the shares of all looks add up to one."""
    return 2.0 ** (max(look, 2) - 1 - looks) if looks > 1 else 1.0


def _moments(values: NDArray[np.float64]) -> tuple[float, float]:
    """Mean and sample standard deviation, the same bits in any order; exact for equal values."""
    # Exact sums do not depend on the order, and differences from the minimum are zero for equal values.
    numbers = [float(value) for value in values]
    least = min(numbers)
    mean = least + math.fsum(number - least for number in numbers) / len(numbers)
    squares = math.fsum((number - mean) ** 2 for number in numbers)
    return mean, math.sqrt(squares / (len(numbers) - 1))
