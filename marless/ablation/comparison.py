"""Compares every arm with the first one, paired by seed: cost, duration and return.

Both runs of a pair share their seed, hence start states and initial weights, so paired differences have less variance
than differences of means. Ratios are computed on logarithms: half and twice are equally far from one.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np

from functions.randomness import generator
from marless.ablation.arms import controls
from marless.ablation.controls import Bound, DollarRatio, Savings, Verdict, compare_dollars, savings, verdict
from marless.ablation.headlines import Contrast, Headline
from marless.ablation.results import Point, Result
from marless.reports import statistics

# From so many runs on, the interquartile mean with a bootstrap interval (Agarwal et al., "Deep Reinforcement Learning
# at the Edge of the Statistical Precipice", NeurIPS 2021; Gorsane et al. 2022); below it Student's t.
MANY = 10
# Dollars are compared at the return that has this share of the baseline's gain.
TARGET_SHARE = 0.8

RATIOS: dict[str, Callable[[Result], float]] = {
    "dollars": lambda result: result.dollars,
    "functions": lambda result: result.functions,
    "actor": lambda result: result.actor,
    "learner": lambda result: result.learner,
    "seconds": lambda result: result.seconds,
}
MEANS = (
    *RATIOS,
    "evaluator",
    "requests",
    "storage",
    "rounds",
    "env_steps",
    "rollouts",
    "learners",
    "sharing",
    "flips",
    "rejected",
)

Axis = Literal["env_steps", "dollars", "seconds"]


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate over `runs` runs or pairs with its 95 % interval, which is None for a single run."""

    value: float
    ci95: statistics.Interval | None
    runs: int


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """Dollars to reach the target return, relative to the baseline's.

    A run that misses the target counts with all that it spent, so `ratio` is a bound: `at least` when runs of the arm
    miss it, `at most` when runs of the baseline do, `unknown` when both do, else `exact`. `reached` of `runs`.
    """

    ratio: Estimate | None
    bound: Bound
    reached: int
    runs: int


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """An arm compared with the baseline.

    `means` of fields of `Result`, and `returns` (`final`, and the names of `Result.plays`) are of the arm alone.
    `ratios` are by the names of `RATIOS`, None where one of the two costs nothing. `differences` in return: as
    `returns`, and `equal steps` and `equal dollars`. `gain` is the final difference in per cent of the baseline's gain
    over random play, if that is known.
    """

    arm: str
    runs: int
    means: dict[str, float]
    returns: dict[str, Estimate]
    ratios: dict[str, Estimate | None]
    differences: dict[str, Estimate]
    gain: Estimate | None
    reach: Reach


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """The arm `tested` compared with its control `arm`, over `runs` pairs.

    `dollars` to the target return, None where one of the two costs nothing or runs of both miss the target; `bound`
    is as in `Reach`, and `savings` of dollars against the baseline are None unless `tested` and the baseline always
    reach it. `difference` in final return and ratio of `rollouts` per round are the tested arm's against the control's.
    """

    arm: str
    tested: str
    runs: int
    dollars: DollarRatio | None
    bound: Bound
    verdict: Verdict
    savings: Savings | None
    difference: Estimate
    rollouts: Estimate | None


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """All arms, the baseline first; `target` is the return of `Comparison.reach` and of `Control.dollars`."""

    baseline: str
    target: float
    random: float | None
    comparisons: tuple[Comparison, ...]
    controls: tuple[Control, ...]
    headlines: tuple[Headline, ...] = ()


Runs = Mapping[int, Result]
Pair = tuple[Result, Result]


def compare(arms: Mapping[str, Runs], random: float | None = None, declared: Sequence[Contrast] = ()) -> Table:
    """Compares the runs of every arm, by seed, with those of the first arm, the baseline.

    Seeds of only one arm form no pairs. `random` is the return of uniformly random play. Arms without runs are skipped;
    the baseline needs one. The `declared` contrasts become the headlines.
    """
    baseline, runs = next(iter(arms.items()))
    goal = target(list(runs.values()), random)
    comparisons = tuple(_comparison(name, own, runs, goal, random) for name, own in arms.items() if own)
    controlled = [(name, tested) for name, tested in controls(arms) if arms[name].keys() & arms[tested].keys()]
    return Table(
        baseline=baseline,
        target=goal,
        random=random,
        comparisons=comparisons,
        controls=tuple(_control(name, tested, arms, runs, goal) for name, tested in controlled),
        headlines=_headlines(declared, arms, goal),
    )


def target(baseline: Sequence[Result], random: float | None) -> float:
    """The target return: `TARGET_SHARE` of the way from random play, or else from the first evaluation, to the
    baseline's mean final return."""
    start = random if random is not None else float(np.mean([result.curve[0].mean for result in baseline]))
    return start + TARGET_SHARE * (float(np.mean([result.final_return for result in baseline])) - start)


def return_at(curve: Sequence[Point], axis: Axis, where: float) -> float:
    """The return at `where` on the curve, linear between evaluations and constant before the first one."""
    return float(np.interp(where, [getattr(point, axis) for point in curve], [point.mean for point in curve]))


def dollars_until(curve: Sequence[Point], goal: float) -> float | None:
    """Dollars at which the curve, linear between evaluations, first reaches `goal`; None if it never does."""
    before: Point | None = None
    for point in curve:
        if point.mean >= goal:
            if before is None:
                return point.dollars
            share = (goal - before.mean) / (point.mean - before.mean)
            return before.dollars + share * (point.dollars - before.dollars)
        before = point
    return None


def estimate(values: Sequence[float], *address: str) -> Estimate:
    """Mean or interquartile mean of independent values; `address` is the bootstrap's address of randomness."""
    if len(values) < 2:
        return Estimate(value=float(values[0]), ci95=None, runs=len(values))
    if len(values) < MANY or min(values) == max(values):
        return Estimate(value=statistics.mean(values), ci95=statistics.ci95(values), runs=len(values))
    interval = statistics.bootstrap_ci(values, generator(0, "ablation", *address))
    return Estimate(value=statistics.iqm(values), ci95=interval, runs=len(values))


def ratio(own: Sequence[float], base: Sequence[float], *address: str) -> Estimate | None:
    """`estimate` of the ratios of pairs, on logarithms; None when a value is not positive."""
    if min(*own, *base) <= 0:
        return None
    log = estimate([math.log(a / b) for a, b in zip(own, base, strict=True)], *address)
    interval = (math.exp(log.ci95[0]), math.exp(log.ci95[1])) if log.ci95 else None
    return Estimate(value=math.exp(log.value), ci95=interval, runs=log.runs)


def _comparison(name: str, own: Runs, base: Runs, goal: float, random: float | None) -> Comparison:
    pairs = _pairs(own, base)
    differences = _differences(name, pairs) if pairs else {}
    return Comparison(
        arm=name,
        runs=len(own),
        means={key: float(np.mean([getattr(result, key) for result in own.values()])) for key in MEANS},
        returns=_returns(name, list(own.values())),
        ratios={
            key: ratio([of(a) for a, _ in pairs], [of(b) for _, b in pairs], name, key) if pairs else None
            for key, of in RATIOS.items()
        },
        differences=differences,
        gain=_gain(differences["final"], base, random) if pairs and random is not None else None,
        reach=_reach(name, own, base, pairs, goal),
    )


def _returns(name: str, runs: Sequence[Result]) -> dict[str, Estimate]:
    returns = {"final": [result.final_return for result in runs]}
    returns |= {play: [result.plays[play] for result in runs] for play in runs[0].plays}
    return {key: estimate(values, name, "return", key) for key, values in returns.items()}


def _differences(name: str, pairs: Sequence[Pair]) -> dict[str, Estimate]:
    differences = {
        "final": [own.final_return - base.final_return for own, base in pairs],
        "equal steps": [_difference_at("env_steps", *pair) for pair in pairs],
        "equal dollars": [_difference_at("dollars", *pair) for pair in pairs],
    }
    for play in pairs[0][0].plays:
        differences[play] = [own.plays[play] - base.plays[play] for own, base in pairs]
    return {key: estimate(values, name, key) for key, values in differences.items()}


def _difference_at(axis: Axis, own: Result, base: Result) -> float:
    """The difference in return where the shorter curve ends."""
    where = min(getattr(own, axis), getattr(base, axis))
    return return_at(own.curve, axis, where) - return_at(base.curve, axis, where)


def _gain(difference: Estimate, base: Runs, random: float) -> Estimate | None:
    """A difference in per cent of the way from random play to the baseline's mean."""
    gain = float(np.mean([result.final_return for result in base.values()])) - random
    if gain <= 0:
        return None
    scale = 100 / gain
    interval = (scale * difference.ci95[0], scale * difference.ci95[1]) if difference.ci95 else None
    return Estimate(value=scale * difference.value, ci95=interval, runs=difference.runs)


def _reach(name: str, own: Runs, base: Runs, pairs: Sequence[Pair], goal: float) -> Reach:
    costs, bound = _dollars_to_target(pairs, goal)
    return Reach(
        ratio=ratio([a for a, _ in costs], [b for _, b in costs], name, "reach") if costs else None,
        bound=bound,
        reached=sum(dollars_until(result.curve, goal) is not None for result in own.values()),
        runs=len(own),
    )


def _control(name: str, tested: str, arms: Mapping[str, Runs], base: Runs, goal: float) -> Control:
    pairs = _pairs(arms[tested], arms[name])
    costs, bound = _dollars_to_target(pairs, goal)
    dollars = compare_dollars([a for a, _ in costs], [b for _, b in costs])
    return Control(
        arm=name,
        tested=tested,
        runs=len(pairs),
        dollars=dollars,
        bound=bound,
        verdict=verdict(dollars, bound),
        savings=_savings(arms[tested], arms[name], base, goal),
        difference=estimate([a.final_return - b.final_return for a, b in pairs], tested, name, "final"),
        rollouts=ratio([a.rollouts for a, _ in pairs], [b.rollouts for _, b in pairs], tested, name, "rollouts"),
    )


def _headlines(declared: Sequence[Contrast], arms: Mapping[str, Runs], goal: float) -> tuple[Headline, ...]:
    """One that has no p-value counts as one of 1, so that the correction is of all that was declared."""
    found = [_headline(contrast, arms, goal) for contrast in declared]
    adjusted = statistics.holm([1.0 if item.p_value is None else item.p_value for item in found])
    return tuple(msgspec.structs.replace(item, adjusted=p) for item, p in zip(found, adjusted, strict=True))


def _headline(contrast: Contrast, arms: Mapping[str, Runs], goal: float) -> Headline:
    pairs = _pairs(arms.get(contrast.arm, {}), arms.get(contrast.against, {}))
    address = contrast.arm, contrast.against, contrast.measure
    bound: Bound = "exact"
    if contrast.measure == "return":
        values = [own.final_return - other.final_return for own, other in pairs]
        found = estimate(values, *address) if values else None
    else:
        costs = [(own.dollars, other.dollars) for own, other in pairs]
        if contrast.measure == "reach":
            costs, bound = _dollars_to_target(pairs, goal)
        found = ratio([a for a, _ in costs], [b for _, b in costs], *address) if costs else None
        values = [math.log(a / b) for a, b in costs] if found else []
    return Headline(
        contrast=contrast,
        runs=len(pairs),
        value=found.value if found else None,
        ci95=found.ci95 if found else None,
        bound=bound,
        p_value=statistics.paired_p_value(values) if len(values) > 1 and bound == "exact" else None,
        adjusted=1.0,
    )


def _savings(tested: Runs, control: Runs, base: Runs, goal: float) -> Savings | None:
    """Over the seeds that all three arms have; a control that misses the target counts with all it spent."""
    shared = {seed: base[seed] for seed in tested.keys() & control.keys() & base.keys()}
    own, bound = _dollars_to_target(_pairs(tested, shared), goal)
    other, _ = _dollars_to_target(_pairs(control, shared), goal)
    return savings([a for a, _ in own], [a for a, _ in other], [b for _, b in own]) if bound == "exact" else None


def _pairs(own: Runs, base: Runs) -> list[Pair]:
    return [(own[seed], base[seed]) for seed in sorted(own.keys() & base.keys())]


def _dollars_to_target(pairs: Sequence[Pair], goal: float) -> tuple[list[tuple[float, float]], Bound]:
    """Dollars to the target of every pair, and what bound their ratios are; a run that misses the target counts with
    all that it spent. Empty if both arms have such runs."""
    dollars = [(dollars_until(a.curve, goal), dollars_until(b.curve, goal)) for a, b in pairs]
    missed = any(a is None for a, _ in dollars), any(b is None for _, b in dollars)
    bounds: dict[tuple[bool, bool], Bound] = {
        (False, False): "exact",
        (True, False): "at least",
        (False, True): "at most",
        (True, True): "unknown",
    }
    costs = [
        (pair[0].dollars if a is None else a, pair[1].dollars if b is None else b)
        for pair, (a, b) in zip(pairs, dollars, strict=True)
    ]
    return [] if all(missed) else costs, bounds[missed]
