"""Schedules of two phases, each with its number of rollouts per round. They are known before a run, as to an oracle.

Gradient noise grows while a policy improves (McCandlish et al. 2018, section 4), so the second number is larger.
"""

from functools import partial

import numpy as np

from marless.coordinator.rules.scaling_history import ScalingHistory
from marless.rules import Bounds, Rule, ScalingRule

# `stop.rounds` of all arms. A run ends earlier, by its return or its steps.
ROUNDS = 2000
# Rollouts before the second phase. Ten rollouts per round need 200 to 300 until the target.
EARLY, LATE = 50, 100


def _rollouts(
    first: int, second: int, switch: int, history: ScalingHistory, bounds: Bounds, rng: np.random.Generator
) -> int:
    return first if (ROUNDS - bounds.rounds) * first < switch else second


def _schedule(first: int, second: int, switch: int) -> Rule[ScalingRule]:
    # A rule that spends knows how many rounds are left.
    rule = ScalingRule(partial(_rollouts, first, second, switch), spends=True)
    return Rule(f"{first} rollouts per round up to {switch} in all, then {second}", rule)


TWO_FIVE_EARLY, TWO_FIVE_LATE = _schedule(2, 5, EARLY), _schedule(2, 5, LATE)
TWO_TEN_EARLY, TWO_TEN_LATE = _schedule(2, 10, EARLY), _schedule(2, 10, LATE)
TWO_25_EARLY, TWO_25_LATE = _schedule(2, 25, EARLY), _schedule(2, 25, LATE)
FIVE_TEN_EARLY, FIVE_TEN_LATE = _schedule(5, 10, EARLY), _schedule(5, 10, LATE)
FIVE_25_EARLY, FIVE_25_LATE = _schedule(5, 25, EARLY), _schedule(5, 25, LATE)
TEN_25_EARLY, TEN_25_LATE = _schedule(10, 25, EARLY), _schedule(10, 25, LATE)
