"""Prioritised replay, the proportional variant: which transitions are drawn, and what corrects for that.

Schaul et al., "Prioritized Experience Replay", 2016. Sampling works on a flat array of priorities and on uniform
numbers that are given, in float64: the sums must tell a million small priorities apart.
"""

import numpy as np
from numpy.typing import NDArray

from functions.nn.mlp import Array

Floats = NDArray[np.float64]
Places = NDArray[np.int64]


def priorities(errors: Array, alpha: float, epsilon: float) -> Floats:
    """``(|δ| + epsilon) ** alpha`` of TD errors: at alpha 0 all are alike; with `epsilon` above 0 all can be drawn."""
    return (np.abs(errors.astype(np.float64)) + epsilon) ** alpha


def draw(priorities: Floats, uniforms: Array) -> Places:
    """One place per uniform number in [0, 1), each place with a chance in proportion to its priority.

    Stratified, as in the paper: draw k of B falls within the k-th of B equal parts of the total. A priority of 0 is
    never drawn. Raises `ValueError` when priorities are negative, not finite or all 0.
    """
    totals = np.cumsum(priorities, dtype=np.float64)
    if not len(totals) or priorities.min() < 0 or not 0 < totals[-1] < np.inf:
        raise ValueError("priorities are numbers from 0 on, and not all are 0")
    count = len(uniforms)
    marks = (np.arange(count) + uniforms.astype(np.float64)) / count * totals[-1]
    found = np.searchsorted(totals, marks, side="right")
    # Rounding may put the last mark on the total itself, beyond every place; this is where the total was reached.
    return np.asarray(np.minimum(found, np.searchsorted(totals, totals[-1])))


def weights(priorities: Floats, places: Places, beta: float) -> Floats:
    """Importance weights ``(N P(j)) ** -beta / max`` of the places drawn; the maximum is over all places.

    That is ``(least priority / own priority) ** beta``, at most 1. Over all places and not over those drawn, so that a
    transition's weight does not depend on what is drawn beside it. Places of priority 0 have no part in the maximum.
    """
    least = priorities[priorities > 0].min()
    return np.asarray((least / priorities[places]) ** beta)
