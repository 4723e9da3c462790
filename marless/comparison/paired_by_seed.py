"""Compares every arm with the first, paired by seed: cost, duration and return, declared contrasts, and controls.

Both runs of a pair share their seed, and so start states and initial weights. So paired differences have less variance
than differences of means. Ratios are computed on logarithms: half and twice are equally far from one.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np

from marless.comparison import bootstrap, signal_savings
from marless.comparison.contrasts import Contrast, Headline
from marless.comparison.finished_run import CostPoint, FinishedRun
from marless.functions.function_specs import NAMES, PLACED
from marless.reports import statistics
from marless.reports.statistics import Estimate

# From so many runs on, the interquartile mean with a bootstrap interval. Agarwal et al., "Deep Reinforcement Learning
# at the Edge of the Statistical Precipice", NeurIPS 2021, and Gorsane et al. 2022. Below it Student's t.
MANY = 10
# Dollars are compared at the return that has this share of the baseline's gain.
TARGET_SHARE = 0.8

RATIOS = ("dollars", "functions", *PLACED, "seconds")
MEANS = (
    *RATIOS,
    *(name for name in NAMES if name not in PLACED),
    *("requests", "storage", "rounds", "env_steps", "rollouts", "learners"),
    *("sharing", "flips", "rejected"),
)

Axis = Literal["env_steps", "dollars", "seconds"]
Runs = Mapping[int, FinishedRun]
"""The finished runs of an arm, by seed."""
Failures = Mapping[str, Mapping[int, str]]
"""Why runs failed, by arm and seed."""
Pair = tuple[FinishedRun, FinishedRun]
Columns = tuple[list[float], list[float]]
"""Of each pair a number of the first run, and one of the second."""


@dataclass(frozen=True)
class _Goal:
    mean: float
    failed: Mapping[str, Sequence[int]]


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """Dollars to reach the target return, relative to the baseline's.

    A run that misses the target counts with all its dollars, so `ratio` is a bound. It is `at least` if runs of the arm
    miss it, `at most` if runs of the baseline do, `unknown` if both do, else `exact`. `reached` of `runs`: a failed run
    counts as one that did not reach the target. It has no dollars to count, so the ratio is then `unknown`.
    """

    ratio: Estimate | None
    bound: signal_savings.Bound
    reached: int
    runs: int


class AgainstBaseline(msgspec.Struct, frozen=True, kw_only=True):
    """An arm compared with the baseline.

    `means` of fields of `FinishedRun`, and `returns` (`final`, and the names of `FinishedRun.plays`) are of the arm
    alone. `ratios` are by the names of `RATIOS`, or None for a cost of 0. `differences` in return: as `returns`, and
    `equal steps` and `equal dollars`. `gain` is the final difference in per cent of the baseline's gain over random
    play, if that is known.
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

    `dollars` to the target return are None for a cost of 0 or if runs of both miss the target. See `Reach` for `bound`.
    `savings` of dollars against the baseline are None unless `tested` and the baseline always reach it. `difference` in
    final return and ratio of `rollouts` per round are the tested arm's against the control's.
    """

    arm: str
    tested: str
    runs: int
    dollars: signal_savings.DollarRatio | None
    bound: signal_savings.Bound
    verdict: signal_savings.Verdict
    savings: signal_savings.Savings | None
    difference: Estimate
    rollouts: Estimate | None


class PairedComparison(msgspec.Struct, frozen=True, kw_only=True):
    """All arms, the baseline first. `AgainstBaseline.reach` and `Control.dollars` are about the return `target`.
    `failures` has the seeds of failed runs, by arm."""

    baseline: str
    target: float
    random: float | None
    comparisons: tuple[AgainstBaseline, ...]
    controls: tuple[Control, ...]
    headlines: tuple[Headline, ...] = ()
    failures: dict[str, tuple[int, ...]] = {}

    def __repr__(self) -> str:
        return f"<PairedComparison: {len(self.comparisons)} arms against {self.baseline}>"


def compare_paired(
    arms: Mapping[str, Runs],
    random: float | None = None,
    headlines: Sequence[Contrast] = (),
    controls: Iterable[tuple[str, str]] = (),
    failures: Failures | None = None,
) -> PairedComparison:
    """Compares the runs of every arm, by seed, with the first arm's runs, the baseline.

    `random` is the return of random play. `controls` are pairs of a control and its arm. Failed runs miss the target.
    """
    baseline, base = next(iter(arms.items()))
    failed = {name: tuple(seeds) for name, seeds in (failures or {}).items()}
    goal = _Goal(target(list(base.values()), random), failed)
    return PairedComparison(
        baseline=baseline,
        target=goal.mean,
        random=random,
        comparisons=tuple(_against_baseline(name, runs, base, goal, random) for name, runs in arms.items() if runs),
        controls=tuple(
            _control(control, tested_arm, arms, base, goal)
            for control, tested_arm in controls
            if arms[control].keys() & arms[tested_arm].keys()
        ),
        headlines=_headlines(headlines, arms, goal),
        failures=failed,
    )


def target(baseline: Sequence[FinishedRun], random: float | None) -> float:
    """The target return: `TARGET_SHARE` of the way from random play, or else from the first evaluation, to the
    baseline's mean final return."""
    start = random if random is not None else float(np.mean([run.curve[0].mean for run in baseline]))
    return start + TARGET_SHARE * (float(np.mean([run.final_return for run in baseline])) - start)


def return_at(curve: Sequence[CostPoint], axis: Axis, where: float) -> float:
    """The return at `where` on the curve, linear between evaluations and constant before the first."""
    return float(np.interp(where, [getattr(point, axis) for point in curve], [point.mean for point in curve]))


def dollars_until(curve: Sequence[CostPoint], goal: float) -> float | None:
    """The dollars when the curve, linear between evaluations, first reaches `goal`, or None."""
    before: CostPoint | None = None
    for point in curve:
        if point.mean >= goal:
            if before is None:
                return point.dollars
            share = (goal - before.mean) / (point.mean - before.mean)
            return before.dollars + share * (point.dollars - before.dollars)
        before = point
    return None


def estimate(values: Sequence[float], *address: str) -> Estimate:
    """The estimate of values of runs. `address` is the bootstrap's address of randomness."""
    if len(values) < 2:
        return Estimate(value=float(values[0]), ci95=None, runs=len(values))
    if len(values) < MANY or min(values) == max(values):
        return Estimate(value=statistics.mean(values), ci95=statistics.ci95(values), runs=len(values))
    scores = np.array(values)[:, np.newaxis]
    interval = bootstrap.interval(bootstrap.iqm, [scores], address, repetitions=bootstrap.FEWER, stream="ablation")
    return Estimate(value=statistics.iqm(values), ci95=interval, runs=len(values))


def ratio(first: Sequence[float], second: Sequence[float], *address: str) -> Estimate | None:
    """`estimate` of the ratios of pairs, on logarithms, or None for missing pairs or values of 0."""
    if not first or min(*first, *second) <= 0:
        return None
    return _rescale(estimate(_logarithms(first, second), *address), math.exp)


def _logarithms(first: Sequence[float], second: Sequence[float]) -> list[float]:
    return [math.log(a / b) for a, b in zip(first, second, strict=True)]


def _rescale(estimate_: Estimate, scale: Callable[[float], float]) -> Estimate:
    interval = (scale(estimate_.ci95[0]), scale(estimate_.ci95[1])) if estimate_.ci95 else None
    return Estimate(value=scale(estimate_.value), ci95=interval, runs=estimate_.runs)


def _against_baseline(name: str, runs: Runs, base: Runs, goal: _Goal, random: float | None) -> AgainstBaseline:
    pairs = _pairs(runs, base)
    differences = _differences(name, pairs) if pairs else {}
    costs, bound = _dollars_to_target(pairs, goal)
    return AgainstBaseline(
        arm=name,
        runs=len(runs),
        means={key: float(np.mean([getattr(run, key) for run in runs.values()])) for key in MEANS},
        returns=_returns(name, list(runs.values())),
        ratios={key: ratio(*_columns(pairs, key), name, key) for key in RATIOS},
        differences=differences,
        gain=_gain(differences["final"], base, random) if pairs and random is not None else None,
        reach=Reach(
            ratio=ratio(*costs, name, "reach"),
            bound=bound,
            reached=sum(dollars_until(run.curve, goal.mean) is not None for run in runs.values()),
            runs=len(runs) + len(goal.failed.get(name, ())),
        ),
    )


def _returns(name: str, runs: Sequence[FinishedRun]) -> dict[str, Estimate]:
    returns = {"final": [run.final_return for run in runs]}
    returns |= {play: [run.plays[play] for run in runs] for play in runs[0].plays}
    return {key: estimate(values, name, "return", key) for key, values in returns.items()}


def _differences(name: str, pairs: Sequence[Pair]) -> dict[str, Estimate]:
    differences = {
        "final": _final_differences(pairs),
        "equal steps": [_difference_at("env_steps", *pair) for pair in pairs],
        "equal dollars": [_difference_at("dollars", *pair) for pair in pairs],
    }
    for play in pairs[0][0].plays:
        differences[play] = [first.plays[play] - second.plays[play] for first, second in pairs]
    return {key: estimate(values, name, key) for key, values in differences.items()}


def _final_differences(pairs: Sequence[Pair]) -> list[float]:
    return [first.final_return - second.final_return for first, second in pairs]


def _difference_at(axis: Axis, first: FinishedRun, second: FinishedRun) -> float:
    where = min(getattr(first, axis), getattr(second, axis))
    return return_at(first.curve, axis, where) - return_at(second.curve, axis, where)


def _gain(difference: Estimate, base: Runs, random: float) -> Estimate | None:
    """A difference in per cent of the way from random play to the baseline's mean."""
    gain = float(np.mean([run.final_return for run in base.values()])) - random
    if gain <= 0:
        return None
    scale = 100 / gain
    return _rescale(difference, lambda value: scale * value)


def _control(control: str, tested: str, arms: Mapping[str, Runs], base: Runs, goal: _Goal) -> Control:
    pairs = _pairs(arms[tested], arms[control])
    costs, bound = _dollars_to_target(pairs, goal)
    dollars = signal_savings.compare_dollars(*costs)
    return Control(
        arm=control,
        tested=tested,
        runs=len(pairs),
        dollars=dollars,
        bound=bound,
        verdict=signal_savings.verdict(dollars, bound),
        savings=_savings(arms[tested], arms[control], base, goal),
        difference=estimate(_final_differences(pairs), tested, control, "final"),
        rollouts=ratio(*_columns(pairs, "rollouts"), tested, control, "rollouts"),
    )


def _headlines(contrasts: Sequence[Contrast], arms: Mapping[str, Runs], goal: _Goal) -> tuple[Headline, ...]:
    """One that has no p-value counts as one of 1, so that the correction is of all that was declared."""
    headlines = [_headline(contrast, arms, goal) for contrast in contrasts]
    adjusted_p = statistics.holm([1.0 if item.p_value is None else item.p_value for item in headlines])
    return tuple(msgspec.structs.replace(item, adjusted=p) for item, p in zip(headlines, adjusted_p, strict=True))


def _headline(contrast: Contrast, arms: Mapping[str, Runs], goal: _Goal) -> Headline:
    pairs = _pairs(arms.get(contrast.arm, {}), arms.get(contrast.against, {}))
    address = contrast.arm, contrast.against, contrast.measure
    bound: signal_savings.Bound = "exact"
    if contrast.measure == "return":
        values = _final_differences(pairs)
        effect = estimate(values, *address) if values else None
    else:
        costs = _columns(pairs, "dollars")
        if contrast.measure == "reach":
            costs, bound = _dollars_to_target(pairs, goal)
        effect = ratio(*costs, *address)
        values = _logarithms(*costs) if effect else []
    return Headline(
        contrast=contrast,
        runs=len(pairs),
        value=effect.value if effect else None,
        ci95=effect.ci95 if effect else None,
        bound=bound,
        p_value=statistics.paired_p_value(values) if len(values) > 1 and bound == "exact" else None,
        adjusted=1.0,
    )


def _savings(tested_runs: Runs, control: Runs, base: Runs, goal: _Goal) -> signal_savings.Savings | None:
    """Over the seeds that all three arms have. A control that misses the target counts with all its dollars. None if a
    run of one of them failed."""
    shared_base = {seed: base[seed] for seed in tested_runs.keys() & control.keys() & base.keys()}
    (dollars, baseline), bound = _dollars_to_target(_pairs(tested_runs, shared_base), goal)
    (without, _), _ = _dollars_to_target(_pairs(control, shared_base), goal)
    return signal_savings.savings(dollars, without, baseline) if bound == "exact" and without else None


def _pairs(runs: Runs, base: Runs) -> list[Pair]:
    return [(runs[seed], base[seed]) for seed in sorted(runs.keys() & base.keys())]


def _columns(pairs: Sequence[Pair], field: str) -> Columns:
    return [getattr(first, field) for first, _ in pairs], [getattr(second, field) for _, second in pairs]


def _dollars_to_target(pairs: Sequence[Pair], goal: _Goal) -> tuple[Columns, signal_savings.Bound]:
    """Dollars to the target of every pair, and the bound of their ratios. A run that misses the target counts with all
    its dollars. Empty if both arms have such runs, or one of them has failed runs."""
    if any(run.arm in goal.failed for pair in pairs for run in pair):
        return ([], []), "unknown"
    first, missed_first = _until([pair[0] for pair in pairs], goal.mean)
    second, missed_second = _until([pair[1] for pair in pairs], goal.mean)
    bound = signal_savings.BOUNDS[missed_first, missed_second]
    return ([], []) if bound == "unknown" else (first, second), bound


def _until(runs: Sequence[FinishedRun], goal: float) -> tuple[list[float], bool]:
    dollars = [dollars_until(run.curve, goal) for run in runs]
    return [run.dollars if until is None else until for run, until in zip(runs, dollars, strict=True)], None in dollars
