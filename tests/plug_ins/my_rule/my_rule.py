"""A scaling rule that begins small and grows with the noise it has seen, and a trend rule of three falling returns."""

import numpy as np

from marless.rules import Rule, ScalingRule


def ramp(history, bounds, rng):
    """One rollout more for every round of which the gradient's noise is known."""
    return min(bounds.most, bounds.least + history.rounds)


def three_down(values, gamma, alpha):
    """Whether the last three returns fell, each by more than gamma."""
    return bool((np.diff(values[-4:]) < -gamma).all())


RAMP = Rule("grows by one rollout a round", ScalingRule(ramp, needs=("noise",)))
THREE_DOWN = Rule("three falling returns in a row", three_down)
