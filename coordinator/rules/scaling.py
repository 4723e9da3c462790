"""Scaling rules: the number of rollouts of the next round, from the learners' measurements of earlier rounds.

There are three families. *Convexity* (`paper`, `offset`) is actor scaling of the MARLess paper ("Multi-Agent
Reinforcement Learning with Serverless Computing", SoCC 2025, section 4.4). If a policy's loss was more convex earlier
in its window, the policy explores too little now and asks for more rollouts. *Gradient noise* (`gns`) asks for as much
data as pays off (McCandlish et al., "An Empirical Model of Large-Batch Training", 2018). `tradeoff` and `budget` price
that data in the configured placement. *Returns* (`adapt`) is a heuristic of MinionsRL. `constant` and `shuffled:<rule>`
are the controls. A min-max over a window responds to any fluctuating number, even to noise, so savings alone prove
nothing about a rule's signal.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from dataclasses import replace as altered

import numpy as np
from msgspec.structs import replace

from marless.coordinator.rules.scaling_history import (
    ScalingHistory,
    ScalingSignals,
    Signal,
    add_return,
    average_noise,
    noise_scale,
    round_signals,
    share,
)
from marless.functions.messages.learner import SummaryName
from marless.functions.plug_in_registry import Family, Rule

# Rounds that the shuffled controls draw from, at least the longest window that can be set.
HISTORY = 100


@dataclass(frozen=True)
class Bounds:
    """Limits of a choice.

    `most` and `least`: rollouts of a round (I_max and I_min of the paper). `beta`: the paper's beta. `overhead`: the
    cost of a round besides its rollouts, in prices of one rollout: of `list_overhead`, or for rules with a `floor` of
    `list_price`. `left`: the rest of `stop.dollars` at list prices, in the same unit, for at most `rounds` more rounds.
    `target`: `stop.return`.
    """

    most: int
    least: int
    beta: float
    overhead: float
    left: float = math.inf
    rounds: int = 1
    target: float = math.inf


Decide = Callable[[ScalingHistory, Bounds, np.random.Generator], int]


@dataclass(frozen=True)
class ScalingRule:
    """`decide` returns the number of rollouts of the next round from the summaries `needs`.

    `past`: it reads `ScalingHistory.past`. A rule that `adapts` depends on the results of earlier rounds. `floor`: the
    fewest rollouts if `scaling.min_rollouts` is not set. Rules with a floor read the prices of the configured
    placement. The others have a share of the most, and the prices of `split`. A rule that `spends` begins only rounds
    that `stop.dollars` can pay at list prices. A rule that `returns` reads mean returns.
    """

    decide: Decide
    needs: tuple[SummaryName, ...] = ()
    past: bool = False
    adapts: bool = True
    floor: int | None = None
    spends: bool = False
    returns: bool = False


def needs(rule: str) -> tuple[SummaryName, ...]:
    """Summaries that learners must report for `rule`."""
    return SCALING_RULES[rule].needs


def rollouts(rule: str, history: ScalingHistory, bounds: Bounds, rng: np.random.Generator) -> int:
    """Rollouts of the next round by `rule`, from `bounds.least` to `bounds.most`."""
    return SCALING_RULES[rule].decide(history, bounds, rng)


def add_round(
    history: ScalingHistory, signals: Mapping[int, Signal], window: int, rule: str, mean_return: float | None = None
) -> ScalingHistory:
    """Return the history after a round. Its groups are the keys of `signals`.

    A group keeps its last `window` ratios. Groups that are not in `signals` are dropped. Only for a shuffled `rule` is
    the round added to `past`: the history is part of every ledger write, which is billed by the kilobyte.
    """
    rule_spec = SCALING_RULES[rule]
    latest = round_signals(signals, mean_return if rule_spec.returns else None)
    windows = {}
    for group in sorted(signals):
        new = (latest.convexity[group],) if group in latest.convexity else ()
        if ratios := (*history.convexity.get(group, ()), *new):
            windows[group] = ratios[-window:]
    past = (*history.past, latest)[-HISTORY:] if rule_spec.past and latest != ScalingSignals() else history.past
    return replace(add_return(average_noise(history, latest), latest), convexity=windows, past=past)


def clear_windows(history: ScalingHistory) -> ScalingHistory:
    """The history after a switch of sharing: the windows are empty, as the paper empties its tolerant window.

    Groups are named after their first member, so a new group may have an old group's name. The old group's ratios
    belong to other policies. The noise average is of the whole team and is kept.
    """
    return replace(history, convexity={})


def constant(history: ScalingHistory, bounds: Bounds, rng: np.random.Generator) -> int:
    """The same number every round."""
    return bounds.most


def paper(history: ScalingHistory, bounds: Bounds, rng: np.random.Generator) -> int:
    """The paper's rule with its literal threshold, beta * (I_max - I_min).

    Each policy asks for I_j = clip(S_j * I_max, I_min, I_max). If the average reaches the threshold, the round gets the
    largest I_j, else the average (rounded, half up). The average is at least I_min, so beta means little if I_min is
    large. With I_min = I_max / N, N = 3 and beta = 0.5 the average can never be chosen. See `offset`.
    """
    return _choose_rollouts(history, bounds, bounds.beta * (bounds.most - bounds.least))


def offset(history: ScalingHistory, bounds: Bounds, rng: np.random.Generator) -> int:
    """The paper's rule with the threshold counted from I_min: I_min + beta * (I_max - I_min).

    One outlier among K policies asks for I_max, the others for I_min: I_avg = I_min + (I_max - I_min) / K. This stays
    under the threshold, so that one outlier cannot trigger the maximum, exactly if beta > 1/K. The paper's text claims
    this for beta < 1/K and its slides for beta >= 1/K. Under its literal threshold neither holds, and beta > 1/K +
    I_min / (I_max - I_min) is necessary.
    """
    return _choose_rollouts(history, bounds, bounds.least + bounds.beta * (bounds.most - bounds.least))


def gns(history: ScalingHistory, bounds: Bounds, rng: np.random.Generator) -> int:
    """The number of rollouts that improves the policies most per dollar.

    The length of Adam's steps does not depend on the gradient's, so more data improves their direction only. The cosine
    between a gradient on b rollouts and the true one is 1 / sqrt(1 + B/b) on average (B is `noise_scale`). McCandlish
    et al., section 2.2, have its square, for plain gradient steps of the best length. A round costs overhead + b prices
    of a rollout. The quotient is largest at b* = (sqrt(B^2 + 8 B overhead) - B) / 4. It approaches `overhead` as the
    noise grows and never passes it. Before anything is measured, the noise counts as infinite.
    """
    rollouts = np.arange(bounds.least, bounds.most + 1)
    noise = noise_scale(history)
    cosine = np.sqrt(rollouts / (rollouts + noise) if math.isfinite(noise) else rollouts)
    return bounds.least + int(np.argmax(cosine / (bounds.overhead + rollouts)))


def tradeoff(history: ScalingHistory, bounds: Bounds, rng: np.random.Generator) -> int:
    """The number of rollouts that reaches a target for the fewest dollars.

    With b rollouts a round, a target takes 1 + B/b times the rounds that it would without noise. McCandlish et al.,
    equation 2.7 and section 2.3, find this with Adam and in reinforcement learning too. A round costs overhead + b
    prices of a rollout. The product is smallest at b* = sqrt(B overhead), which grows with the noise without limit.
    `gns` compares directions, so its number stays below the overhead. Before anything is measured, half of a round's
    dollars are for rollouts: the best number where the noise is as large as the overhead.
    """
    rollouts = np.arange(bounds.least, bounds.most + 1)
    noise = bounds.overhead if history.trace is None else noise_scale(history)
    progress = rollouts / (rollouts + noise) if math.isfinite(noise) else rollouts
    return bounds.least + int(np.argmax(progress / (bounds.overhead + rollouts)))


def budget(history: ScalingHistory, bounds: Bounds, rng: np.random.Generator) -> int:
    """The number of rollouts for the most progress, b / (b + B) a round, of the dollars and rounds that are left.

    With a multiplier m, every round maximises progress - m * cost. Progress is concave and cost linear in b, and the
    noise of future rounds is assumed to equal today's noise. So the multiplier that spends the dollars in all rounds
    gives each round an equal share. If the share buys less than `tradeoff` asks for, a round of the share is worth less
    than its price. Then fewer rounds of `tradeoff` do more. So the answer is the larger of both. Before anything is
    measured it is the share.
    """
    share_ = bounds.left / max(1, bounds.rounds) - bounds.overhead
    affordable = max(share_, tradeoff(history, bounds, rng) if history.trace is not None else 0)
    return max(bounds.least, math.floor(min(affordable, bounds.left - bounds.overhead, bounds.most)))


def adapt(history: ScalingHistory, bounds: Bounds, rng: np.random.Generator) -> int:
    """The heuristic `Adapt` of MinionsRL (Yu et al., AAAI 2024): clip(ceil(J_5 / J * I_max), 1, I_max).

    J_5 is the mean return of the last five rounds, and J is the target. In MinionsRL returns begin near 0. Here they
    count from the first round's return, so that negative returns have a meaning.
    """
    if not history.returns:
        return bounds.most
    first, *recent = history.returns
    if bounds.target <= first:
        return bounds.most
    progress = (math.fsum(recent) / len(recent) - first) / (bounds.target - first)
    return min(max(math.ceil(progress * bounds.most), bounds.least), bounds.most)


def _shuffle_history(decide: Decide) -> Decide:
    """The control of a rule: the rule itself on the run's own signals in random order.

    Replacing only the latest value would not be enough, because its window and its average would still follow the run.
    All rounds of the history are put in random order, with the latest round. Windows and averages are rebuilt from the
    end of that order. Groups, window lengths and the values of each round stay, so the joint distribution of the
    signals is kept and their timing is destroyed. The distribution of the decisions changes: signals that drift span
    less in a true window than in a shuffled one. Compare with a constant of the same mean as well.
    """

    def with_shuffled_history(history: ScalingHistory, bounds: Bounds, rng: np.random.Generator) -> int:
        """The rule on the shuffled history."""
        order = [history.past[index] for index in rng.permutation(len(history.past))]
        rebuilt = ScalingHistory(returns=history.returns[:1], spent=history.spent)
        for signals in order:
            rebuilt = add_return(average_noise(rebuilt, signals), signals)
        windows = {
            group: tuple(signals.convexity[group] for signals in order if group in signals.convexity)[-len(window) :]
            for group, window in history.convexity.items()
        }
        ratios = {group: values for group, values in windows.items() if values}
        return decide(replace(rebuilt, convexity=ratios), bounds, rng)

    return with_shuffled_history


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
# The variance over rollouts needs two. MinionsRL begins with one.
_TRADEOFF, _BUDGET, _ADAPT = (
    ScalingRule(tradeoff, ("noise",), floor=2),
    ScalingRule(budget, ("noise",), floor=2, spends=True),
    ScalingRule(adapt, floor=1, returns=True),
)


def _control(name: str, rule: ScalingRule) -> Rule[ScalingRule]:
    control = altered(rule, decide=_shuffle_history(rule.decide), past=True)
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
        "tradeoff": Rule("by gradient noise and the placement's prices, from 2 rollouts on", _TRADEOFF),
        "budget": Rule("the most progress within stop.dollars and stop.rounds", _BUDGET),
        "adapt": Rule("by the mean return on its way to stop.return, like MinionsRL", _ADAPT),
        "shuffled:tradeoff": _control("tradeoff", _TRADEOFF),
        "shuffled:budget": _control("budget", _BUDGET),
        "shuffled:adapt": _control("adapt", _ADAPT),
    },
    ScalingRule,
)
