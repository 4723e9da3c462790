"""The memory of the scaling rules: convexity, gradient noise, returns and dollars at list prices."""

import math
from collections.abc import Mapping, Sequence

from msgspec import field
from msgspec.structs import replace

from marless.functions.messages.message import Message

# PyHessian (Yao et al., 2020), which the paper uses, computes eigenvalues to a relative 1e-3: larger ratios are not
# resolved. Without a bound one nearly convex round would put all others of its window at a share of 1.
CONVEX = 1000.0
# Decay per round of the averaged gradient noise: about the last ten rounds count.
DECAY = 0.9
# The mean return of `adapt` covers so many rounds, like in MinionsRL.
RECENT = 5


class Signal(Message, frozen=True, kw_only=True):
    """Measurements of one group's learner in a round, or None if they were not requested.

    `largest`, `smallest`: extreme eigenvalues of the policy loss's Hessian. `trace`: unbiased tr(Sigma), the variance
    of the mean gradient of one rollout, summed over parameters. `square`: unbiased |G|^2, which may be negative.
    """

    largest: float | None = None
    smallest: float | None = None
    trace: float | None = None
    square: float | None = None


class ScalingSignals(Message, frozen=True, kw_only=True):
    """Inputs of the rules from one round: convexity ratio by group, noise summed over groups, the mean return. A field
    is None if it was not measured."""

    convexity: dict[int, float] = field(default_factory=dict)
    trace: float | None = None
    square: float | None = None
    mean_return: float | None = None


class ScalingHistory(Message, frozen=True, kw_only=True):
    """State of the rules between rounds.

    `convexity`: the last ratios of every current group, newest last. `trace`, `square`: averages over the `rounds` that
    measured the noise, exponentially weighted and debiased (each round's weights sum to 1). `past`: the last `HISTORY`
    rounds that measured anything, for the shuffled controls only. `returns`: the mean returns of the first round and of
    the last `RECENT` rounds, for rules that read them. `spent`: dollars of all rounds at list prices, for rules that
    keep to `stop.dollars`.
    """

    convexity: dict[int, tuple[float, ...]] = field(default_factory=dict)
    trace: float | None = None
    square: float | None = None
    rounds: int = 0
    past: tuple[ScalingSignals, ...] = ()
    returns: tuple[float, ...] = ()
    spent: float = 0.0


def convexity(signal: Signal) -> float:
    """C = -e_max / e_min of a policy's loss, from 0 to `CONVEX`. A higher value is nearer to a local minimum.

    The paper does not define the ratio for eigenvalues of one sign. Here it takes its limits. A loss without negative
    curvature (e_min >= 0) is at a minimum and gives `CONVEX`. A loss without positive curvature (e_max <= 0) is
    farthest from a minimum and gives 0. A flat loss (both 0) is neither and gives 1.

    Raises `ValueError` when the signal holds no eigenvalues.
    """
    if signal.largest is None or signal.smallest is None:
        raise ValueError("the convexity ratio needs the summary curvature, which the learner did not report")
    if signal.largest <= 0 <= signal.smallest:
        return 1.0
    return CONVEX if signal.smallest >= 0 else max(0.0, min(-signal.largest / signal.smallest, CONVEX))


def share(window: Sequence[float]) -> float:
    """S = (C_max - C_t) / (C_max - C_min) of a policy's ratios, newest last, from 0 to 1.

    Where all are equal, or there is only one, the paper's quotient is 0 / 0. The trend of C is then unknown and S is 1:
    too much data is better than too little.
    """
    lowest, highest = min(window), max(window)
    return (highest - window[-1]) / (highest - lowest) if highest > lowest else 1.0


def noise_scale(history: ScalingHistory) -> float:
    """B = tr(Sigma) / |G|^2 in rollouts: with B rollouts the gradient's noise is as large as the gradient. Infinite if
    |G|^2 is not positive. A quotient of averages (McCandlish et al., appendix A.1): the quotient of a round is biased.

    The groups' networks count as one parameter vector that every rollout trains, so both are sums over groups.
    """
    if history.trace is None or history.square is None or history.square <= 0:
        return math.inf
    return max(0.0, history.trace / history.square)


def round_signals(signals: Mapping[int, Signal], mean_return: float | None = None) -> ScalingSignals:
    """One round's measurements of its groups, as the rules read them."""
    noise = [
        (signal.trace, signal.square)
        for signal in signals.values()
        if signal.trace is not None and signal.square is not None
    ]
    return ScalingSignals(
        convexity={group: convexity(signal) for group, signal in sorted(signals.items()) if signal.largest is not None},
        trace=math.fsum(trace for trace, _ in noise) if noise else None,
        square=math.fsum(square for _, square in noise) if noise else None,
        mean_return=mean_return,
    )


def average_noise(history: ScalingHistory, signals: ScalingSignals) -> ScalingHistory:
    """The history with the round's noise in its averages."""
    if signals.trace is None or signals.square is None:
        return history
    rounds = history.rounds + 1
    weight = (1 - DECAY) / (1 - DECAY**rounds)
    before = (history.trace or 0.0, history.square or 0.0)  # the first round's weight is 1
    trace, square = (
        (1 - weight) * old + weight * new for old, new in zip(before, (signals.trace, signals.square), strict=True)
    )
    return replace(history, trace=trace, square=square, rounds=rounds)


def add_return(history: ScalingHistory, signals: ScalingSignals) -> ScalingHistory:
    """The history with the round's mean return."""
    if signals.mean_return is None:
        return history
    first, *recent = (*history.returns, signals.mean_return)
    recent = recent if history.returns else [first]
    return replace(history, returns=(first, *recent[-RECENT:]))
