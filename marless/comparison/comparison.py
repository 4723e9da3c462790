"""Compares arms of runs with the first one: aggregates, probability of improvement, profiles and curves."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

import msgspec
import numpy as np

from coordinator.errors import UserError
from marless.ablation.comparison import Estimate
from marless.comparison import bootstrap, keys
from marless.comparison.arms import Arm
from marless.comparison.bootstrap import FEWER, REPETITIONS, OfArms, Statistic
from marless.comparison.curve import Axis, FloatArray
from marless.comparison.scores import Scale, absolutes, common_span, ends_first, returns_at, scale
from marless.reports.evaluations import METRIC, metrics_of

# A percentile interval lies between the lowest and the highest seed. Between those the true median lies with
# probability 1 - 2 / 2^n (Thompson, "On Confidence Ranges for the Median and Other Expectation Distributions", Annals
# of Mathematical Statistics, 1936): 0.94 for 5 seeds, 0.97 for 6. So below 6 seeds no such interval keeps its 95 %.
# Gorsane et al. (2022) ask for 10.
FEWEST = 6
_POINTS, _THRESHOLDS = 30, 101

Verdict = Literal["higher", "lower", "cannot tell"]


class Against(msgspec.Struct, frozen=True, kw_only=True):
    """An arm against the first one: difference of interquartile means, and probabilities of improvement.

    `by_seed` is over pairs of the same seed, None unless both have the `same_seeds`; then the difference is paired too.
    `seeds` is the smaller number of seeds. The verdict is `cannot tell` when the interval of the difference holds 0 or
    that of the improvement (from `FEWEST` seeds on: of `by_seed`, if known) 0.5, or there is none.
    """

    difference: Estimate
    improvement: Estimate
    by_seed: Estimate | None
    same_seeds: bool
    seeds: int
    verdict: Verdict


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Aggregates of an arm's scores. `optimality_gap` is None with one task, `against` for the first arm."""

    arm: str
    seeds: int
    iqm: Estimate
    mean: Estimate
    median: Estimate
    optimality_gap: Estimate | None
    against: Against | None


class Lines(msgspec.Struct, frozen=True, kw_only=True):
    """One line per arm over the same `x`, with the 95 % interval at each point; `low` is `y` for a single seed."""

    x: tuple[float, ...]
    y: dict[str, tuple[float, ...]]
    low: dict[str, tuple[float, ...]]
    high: dict[str, tuple[float, ...]]


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Means over an arm's whole runs: environment steps, seconds of training, dollars of the bill."""

    arm: str
    runs: int
    env_steps: float
    seconds: float
    dollars: float


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Arms compared on `tasks` at `at` steps, seconds or dollars, where the run `ends_first` ends, '' if all end there.

    Scores are returns with one task and `normalised` returns with several. `equal` is of the returns at that point,
    `absolute` of the absolute metrics, None when one of the runs `without_absolute` has none. `costs` are empty for
    files of marl-eval. `profile` gives the share of runs above each score, `curve` the interquartile mean until `at`.

    `metric` is what stands in the place of returns, and `metrics` are those that all runs have. `settings` are by arm
    and key, where the arms' names do not give them. `unlike` are the keys of the task in which arms differ, so that
    their returns may be on different scales. With one arm, `unsplit` are the keys in which its settings differ.
    """

    axis: Axis
    at: float
    ends_first: str
    tasks: tuple[str, ...]
    normalised: bool
    equal: tuple[Row, ...]
    absolute: tuple[Row, ...] | None
    without_absolute: tuple[str, ...]
    costs: tuple[Cost, ...]
    profile: Lines
    curve: Lines
    metric: str = METRIC
    metrics: tuple[str, ...] = ()
    settings: dict[str, dict[str, str]] = {}
    unlike: tuple[str, ...] = ()
    unsplit: tuple[str, ...] = ()


def compare(arms: Sequence[Arm], axis: Axis, metric: str = METRIC) -> Comparison:
    """The comparison at the largest value of `axis` that all runs reached; raises `UserError` if there is none.

    `metric` is that of the arms' curves.
    """
    first, last = common_span(arms, axis)
    found = scale(arms)
    equal = {own.name: found.scores(returns_at(own, axis, np.array([last]))[0]) for own in arms}
    seeds = {own.name: own.seeds for own in arms}
    without = tuple(run.name for own in arms for run in own.every_run if run.absolute is None)
    best = {} if without else {own.name: found.scores(absolutes(own)) for own in arms}
    return Comparison(
        axis=axis,
        at=last,
        ends_first=ends_first(arms, axis),
        tasks=tuple(arms[0].runs),
        normalised=len(arms[0].runs) > 1,
        equal=rows(equal, seeds, f"equal {axis}"),
        absolute=rows(best, seeds, "absolute") if best else None,
        without_absolute=without,
        costs=tuple(cost for own in arms if (cost := _cost(own))),
        profile=profile(equal),
        curve=_curve(arms, axis, first, last, found),
        metric=metric,
        metrics=_common_metrics(arms),
        settings={own.name: dict(own.settings) for own in arms if own.settings},
        unlike=tuple(keys.unlike([own.every_run for own in arms])),
        unsplit=tuple(keys.splitting(arms[0].every_run)) if len(arms) == 1 else (),
    )


def _common_metrics(arms: Sequence[Arm]) -> tuple[str, ...]:
    first, *others = (dict.fromkeys(metrics_of(run.entries)) for own in arms for run in own.every_run)
    return tuple(name for name in first if all(name in other for other in others))


def rows(scores: dict[str, FloatArray], seeds: dict[str, tuple[int, ...]], measure: str) -> tuple[Row, ...]:
    """A row for every arm's scores ``[seeds, tasks]``; `measure` is part of the address of random numbers."""
    base = next(iter(scores))
    return tuple(
        Row(
            arm=name,
            seeds=len(own),
            iqm=_estimate(bootstrap.iqm, own, measure, name, "iqm"),
            mean=_estimate(bootstrap.mean, own, measure, name, "mean"),
            median=_estimate(bootstrap.median, own, measure, name, "median"),
            optimality_gap=_estimate(bootstrap.optimality_gap, own, measure, name, "gap") if own.shape[1] > 1 else None,
            against=None
            if name == base
            else _against(own, scores[base], seeds[name] == seeds[base], (measure, name, "against", base)),
        )
        for name, own in scores.items()
    )


def profile(scores: dict[str, FloatArray]) -> Lines:
    """Performance profiles: the share of all runs that score more than each threshold (Agarwal et al. 2021)."""
    low, high = min(own.min() for own in scores.values()), max(own.max() for own in scores.values())
    # From a step below the lowest score, above which all runs are.
    step = (high - low) / _THRESHOLDS or 1.0
    thresholds = np.linspace(low - step, high, _THRESHOLDS)
    shares = {name: [_share_above(own, threshold, name) for threshold in thresholds] for name, own in scores.items()}
    return _lines(thresholds, shares)


def _share_above(own: FloatArray, threshold: float, name: str) -> Estimate:
    def above(scores: FloatArray) -> FloatArray:
        shares: FloatArray = (scores > threshold).mean(axis=(-2, -1))
        return shares

    # The same resamples at every threshold.
    return _estimate(above, own, "profile", name, repetitions=FEWER)


def curves(arms: Sequence[Arm], axis: Axis) -> dict[str, Lines]:
    """By arm its curve as in a comparison, as far as all runs of the arm came, which may be further than all arms did.

    Arms are left out whose runs have no place on the axis in common.
    """
    found, drawn = scale(arms), {}
    for own in arms:
        with suppress(UserError):
            drawn[own.name] = _curve([own], axis, *common_span([own], axis), found)
    return drawn


def _curve(arms: Sequence[Arm], axis: Axis, first: float, last: float, found: Scale) -> Lines:
    grid = np.linspace(first, last, _POINTS if last > first else 1)
    lines = {
        own.name: [
            _estimate(bootstrap.iqm, scores, "curve", own.name, repetitions=FEWER)
            for scores in found.scores(returns_at(own, axis, grid))
        ]
        for own in arms
    }
    return _lines(grid, lines)


def _cost(own: Arm) -> Cost | None:
    summaries = [run.summary for run in own.every_run if run.summary is not None]
    if not summaries:
        return None
    return Cost(
        arm=own.name,
        runs=len(summaries),
        env_steps=float(np.mean([found.env_steps for found in summaries])),
        seconds=float(np.mean([found.train_seconds for found in summaries])),
        dollars=float(np.mean([found.dollars.total for found in summaries])),
    )


def _lines(x: FloatArray, lines: dict[str, list[Estimate]]) -> Lines:
    intervals = {name: [point.ci95 or (point.value, point.value) for point in line] for name, line in lines.items()}
    return Lines(
        x=tuple(x.tolist()),
        y={name: tuple(point.value for point in line) for name, line in lines.items()},
        low={name: tuple(low for low, _ in found) for name, found in intervals.items()},
        high={name: tuple(high for _, high in found) for name, found in intervals.items()},
    )


def _against(own: FloatArray, base: FloatArray, same: bool, address: tuple[str, ...]) -> Against:
    def estimate(statistic: OfArms, together: bool) -> Estimate:
        found = bootstrap.interval(statistic, (own, base), address, together)
        return Estimate(value=float(statistic(own, base)), ci95=found, runs=min(len(own), len(base)))

    difference = estimate(bootstrap.iqm_difference, same)
    improvement = estimate(bootstrap.improvement, False)
    by_seed = estimate(bootstrap.improvement_by_seed, True) if same else None
    return Against(
        difference=difference,
        improvement=improvement,
        by_seed=by_seed,
        same_seeds=same,
        seeds=min(len(own), len(base)),
        # All pairs of fewer seeds being alike is likely by chance: of three with 1 / 4.
        verdict=verdict(difference, by_seed if by_seed and len(own) >= FEWEST else improvement),
    )


def verdict(difference: Estimate, improvement: Estimate) -> Verdict:
    """What both intervals allow to say of an arm against the first one."""
    if difference.ci95 is None or improvement.ci95 is None:
        return "cannot tell"
    if difference.ci95[0] > 0 and improvement.ci95[0] > 0.5:
        return "higher"
    if difference.ci95[1] < 0 and improvement.ci95[1] < 0.5:
        return "lower"
    return "cannot tell"


def _estimate(statistic: Statistic, scores: FloatArray, *address: str, repetitions: int = REPETITIONS) -> Estimate:
    found = bootstrap.interval(statistic, (scores,), address, repetitions=repetitions)
    return Estimate(value=float(statistic(scores)), ci95=found, runs=len(scores))
