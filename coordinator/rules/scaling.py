"""Scaling rules: the number of rollouts of the next round, from the learners' measurements of earlier rounds.

Two families. *Convexity* (`paper`, `offset`) is actor scaling of the MARLess paper ("Multi-Agent Reinforcement Learning
with Serverless Computing", SoCC 2025, section 4.4): a policy whose loss was more convex earlier in its window explores
too little now and asks for more rollouts. *Gradient noise* (`gns`) asks for as much data as pays off: McCandlish et
al., "An Empirical Model of Large-Batch Training", 2018. `constant` and `shuffled:<rule>` are the controls: min-max over
a window responds to any fluctuating number, noise included, so savings alone prove nothing about a rule's signal.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec import field
from msgspec.structs import replace

from coordinator.registry import Family, Rule
from functions.contract import Message, SummaryName

# PyHessian (Yao et al., 2020), which the paper uses, computes eigenvalues to a relative 1e-3: larger ratios are not
# resolved. Without a bound one nearly convex round would put all others of its window at a share of 1.
CONVEX = 1000.0
# Decay per round of the averaged gradient noise: about the last ten rounds count.
DECAY = 0.9
# Rounds that the shuffled controls draw from, at least the longest window that can be set.
HISTORY = 100


class Signal(Message, frozen=True, kw_only=True):
    """Measurements of one group's learner in a round; None where they were not requested.

    `largest`, `smallest`: extreme eigenvalues of the policy loss's Hessian. `trace`: unbiased tr(Sigma), the variance
    of the mean gradient of one rollout, summed over parameters. `square`: unbiased |G|^2, which may be negative.
    """

    largest: float | None = None
    smallest: float | None = None
    trace: float | None = None
    square: float | None = None


class ScalingSignals(Message, frozen=True, kw_only=True):
    """Inputs of the rules from one round: convexity ratio by group; noise summed over groups, None if not measured."""

    convexity: dict[int, float] = field(default_factory=dict)
    trace: float | None = None
    square: float | None = None


class ScalingHistory(Message, frozen=True, kw_only=True):
    """State of the rules between rounds.

    `convexity`: the last ratios of every current group, newest last. `trace`, `square`: averages over the `rounds` that
    measured the noise, exponentially weighted and debiased (each round's weights sum to 1). `past`: the last `HISTORY`
    rounds that measured anything, for the shuffled controls only.
    """

    convexity: dict[int, tuple[float, ...]] = field(default_factory=dict)
    trace: float | None = None
    square: float | None = None
    rounds: int = 0
    past: tuple[ScalingSignals, ...] = ()


@dataclass(frozen=True)
class Bounds:
    """Limits of a choice.

    `most` and `least`: rollouts of a round (I_max and I_min of the paper), `beta` as in the paper. `overhead`: the cost
    of a round besides its rollouts, in prices of one rollout; see `list_overhead`.
    """

    most: int
    least: int
    beta: float
    overhead: float


Decide = Callable[[ScalingHistory, Bounds, np.random.Generator], int]


@dataclass(frozen=True)
class ScalingRule:
    """`decide` returns the number of rollouts of the next round from the summaries `needs`; `past`: it reads
    `ScalingHistory.past`. A rule that `adapts` depends on the results of earlier rounds."""

    decide: Decide
    needs: tuple[SummaryName, ...] = ()
    past: bool = False
    adapts: bool = True


def needs(rule: str) -> tuple[SummaryName, ...]:
    """Summaries that learners must report for `rule`."""
    return SCALING_RULES[rule].needs


def rollouts(rule: str, history: ScalingHistory, bounds: Bounds, rng: np.random.Generator) -> int:
    """Rollouts of the next round by `rule`, from `bounds.least` to `bounds.most`; the most without measurements."""
    return SCALING_RULES[rule].decide(history, bounds, rng)


def add_round(history: ScalingHistory, signals: Mapping[int, Signal], window: int, rule: str) -> ScalingHistory:
    """The history after a round whose groups are the keys of `signals`.

    A group keeps its last `window` ratios; groups that are not in `signals` are dropped. Only for a shuffled `rule` is
    the round added to `past`: the history is part of every ledger write, which is billed by the kilobyte.
    """
    latest = _round_signals(signals)
    windows = {}
    for group in sorted(signals):
        new = (latest.convexity[group],) if group in latest.convexity else ()
        if ratios := (*history.convexity.get(group, ()), *new):
            windows[group] = ratios[-window:]
    past = (
        (*history.past, latest)[-HISTORY:] if SCALING_RULES[rule].past and latest != ScalingSignals() else history.past
    )
    return replace(_average_noise(history, latest), convexity=windows, past=past)


def clear_windows(history: ScalingHistory) -> ScalingHistory:
    """The history after a switch of sharing: the windows are empty, as the paper empties its tolerant window.

    Groups are named after their first member, so a new group may have the name of an old one whose ratios belong to
    other policies. The noise average is of the whole team and is kept.
    """
    return replace(history, convexity={})


def convexity(signal: Signal) -> float:
    """C = -e_max / e_min of a policy's loss, from 0 to `CONVEX`; the higher, the nearer to a local minimum.

    The paper does not define the ratio for eigenvalues of one sign. Here it takes its limits: no negative curvature
    (e_min >= 0) is a minimum and gives `CONVEX`; no positive curvature (e_max <= 0) is farthest from one and gives 0.
    A flat loss (both 0) is neither and gives 1.

    Raises `ValueError` when the signal holds no eigenvalues.
    """
    if signal.largest is None or signal.smallest is None:
        raise ValueError("the convexity ratio needs the summary curvature, which the learner did not report")
    if signal.largest <= 0 <= signal.smallest:
        return 1.0
    if signal.smallest >= 0:
        return CONVEX
    return max(0.0, min(-signal.largest / signal.smallest, CONVEX))


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


def constant(history: ScalingHistory, bounds: Bounds, rng: np.random.Generator) -> int:
    """The same number every round."""
    return bounds.most


def paper(history: ScalingHistory, bounds: Bounds, rng: np.random.Generator) -> int:
    """The paper's rule with its literal threshold, beta * (I_max - I_min).

    Each policy asks for I_j = clip(S_j * I_max, I_min, I_max); the round gets the largest I_j when their average
    reaches the threshold, else the average (rounded, half up). The average is at least I_min, so beta means little
    where I_min is large: with I_min = I_max / N, N = 3 and beta = 0.5 the average can never be chosen. See `offset`.
    """
    return _choose_rollouts(history, bounds, bounds.beta * (bounds.most - bounds.least))


def offset(history: ScalingHistory, bounds: Bounds, rng: np.random.Generator) -> int:
    """The paper's rule with the threshold counted from I_min: I_min + beta * (I_max - I_min).

    One outlier among K policies asks for I_max, the others for I_min: I_avg = I_min + (I_max - I_min) / K. This stays
    under the threshold, so that one outlier cannot trigger the maximum, exactly if beta > 1/K. The paper's text claims
    this for beta < 1/K and its slides for beta >= 1/K; under its literal threshold neither holds: there it takes
    beta > 1/K + I_min / (I_max - I_min).
    """
    return _choose_rollouts(history, bounds, bounds.least + bounds.beta * (bounds.most - bounds.least))


def gns(history: ScalingHistory, bounds: Bounds, rng: np.random.Generator) -> int:
    """The number of rollouts that improves the policies most per dollar.

    Adam's steps have one length whatever the gradient's, so more data improves their direction only. The cosine between
    a gradient on b rollouts and the true one is 1 / sqrt(1 + B/b) on average (B is `noise_scale`; McCandlish et al.,
    section 2.2, have its square, for plain gradient steps of the best length), and a round costs overhead + b prices of
    a rollout. The quotient is largest at
    b* = (sqrt(B^2 + 8 B overhead) - B) / 4, which comes near `overhead` as the noise grows and never passes it.
    """
    if history.trace is None:
        return bounds.most
    rollouts = np.arange(bounds.least, bounds.most + 1)
    noise = noise_scale(history)
    cosine = np.sqrt(rollouts / (rollouts + noise) if math.isfinite(noise) else rollouts)
    return bounds.least + int(np.argmax(cosine / (bounds.overhead + rollouts)))


def _shuffle_history(decide: Decide) -> Decide:
    """The control of a rule: the rule itself on the run's own signals in random order.

    Replacing only the latest value would not be enough: the window that it is compared with, or the average that it
    enters, would still follow the run. All rounds of the history, the latest included, are put in random order, and
    windows and averages are rebuilt from the last ones of that order. Groups, window lengths and the values of each
    round stay, so the joint distribution of the signals is kept and their timing is destroyed. The distribution of the
    decisions changes: signals that drift span less in a true window than in a shuffled one. Compare with a constant of
    the same mean as well.
    """

    def shuffled(history: ScalingHistory, bounds: Bounds, rng: np.random.Generator) -> int:
        """The rule on the shuffled history."""
        order = [history.past[index] for index in rng.permutation(len(history.past))]
        rebuilt = ScalingHistory()
        for signals in order:
            rebuilt = _average_noise(rebuilt, signals)
        windows = {
            group: tuple(signals.convexity[group] for signals in order if group in signals.convexity)[-len(window) :]
            for group, window in history.convexity.items()
        }
        ratios = {group: values for group, values in windows.items() if values}
        return decide(replace(rebuilt, convexity=ratios), bounds, rng)

    return shuffled


def _round_signals(signals: Mapping[int, Signal]) -> ScalingSignals:
    noise = [
        (signal.trace, signal.square)
        for signal in signals.values()
        if signal.trace is not None and signal.square is not None
    ]
    return ScalingSignals(
        convexity={group: convexity(signal) for group, signal in sorted(signals.items()) if signal.largest is not None},
        trace=math.fsum(trace for trace, _ in noise) if noise else None,
        square=math.fsum(square for _, square in noise) if noise else None,
    )


def _average_noise(history: ScalingHistory, signals: ScalingSignals) -> ScalingHistory:
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


def _choose_rollouts(history: ScalingHistory, bounds: Bounds, threshold: float) -> int:
    """The largest request of a policy when the average request reaches `threshold`, else the average."""
    if not history.convexity:
        return bounds.most
    windows = history.convexity.values()
    requests = [min(max(share(window) * bounds.most, bounds.least), bounds.most) for window in windows]
    average = math.fsum(requests) / len(requests)  # exact sum: the order of the groups must not matter
    return math.floor((max(requests) if average >= threshold else average) + 0.5)


_GNS, _PAPER, _OFFSET = (
    ScalingRule(gns, ("noise",)),
    ScalingRule(paper, ("curvature",)),
    ScalingRule(offset, ("curvature",)),
)


def _control(name: str, rule: ScalingRule) -> Rule[ScalingRule]:
    control = ScalingRule(_shuffle_history(rule.decide), rule.needs, past=True)
    return Rule(f"the control of {name}: its signal in random order", control)


SCALING_RULES: Family[ScalingRule] = Family(
    "scaling",
    {
        "constant": Rule("the same number every round", ScalingRule(constant, adapts=False)),
        "gns": Rule("by gradient noise", _GNS),
        "paper": Rule("by convexity, with the paper's literal threshold", _PAPER),
        "offset": Rule("by convexity, with a threshold counted from the minimum", _OFFSET),
        "shuffled:paper": _control("paper", _PAPER),
        "shuffled:offset": _control("offset", _OFFSET),
        "shuffled:gns": _control("gns", _GNS),
    },
    ScalingRule,
)
