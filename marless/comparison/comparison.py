"""Compares arms of runs with the first: aggregates, probability of improvement, profiles and curves."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

import msgspec
import numpy as np

from marless.comparison import bootstrap, setting_keys
from marless.comparison.arms_of_runs import ComparedArm
from marless.comparison.bootstrap import FEWER, Scores, Statistic
from marless.comparison.run_evaluations import Axis, ComparedRun
from marless.comparison.scores import Scale, absolutes, common_span, ends_first, returns_at, scale
from marless.coordinator.errors import UserError
from marless.reports.evaluations import METRIC, metrics_of
from marless.reports.provenance import CodeChange
from marless.reports.statistics import FEWEST_SEEDS, Estimate, FloatArray
from marless.studies.registration import count

# A percentile interval lies between the lowest and the highest seed. The true median lies between them with probability
# 1 - 2 / 2^n: 0.94 for 5 seeds, 0.97 for 6. Thompson, "On Confidence Ranges for the Median and Other Expectation
# Distributions", Annals of Mathematical Statistics, 1936. So below 6 seeds no such interval keeps its 95 %. Gorsane et
# al. (2022) ask for 10.
FEWEST = 6
_POINTS, _THRESHOLDS = 30, 101

Verdict = Literal["higher", "lower", "cannot tell"]


class ArmContrast(msgspec.Struct, frozen=True, kw_only=True):
    """An arm against the first: difference of interquartile means, and probabilities of improvement.

    `by_seed` is over pairs of the same seed, or None if the arms lack the `same_seeds`. With it the difference is
    paired too. `seeds` is the smaller number of seeds. The verdict is `cannot tell` below `FEWEST_SEEDS` seeds, or if
    the interval of the difference holds 0 or the improvement's holds 0.5 (from `FEWEST` seeds on, of `by_seed`, if
    known).
    """

    difference: Estimate
    improvement: Estimate
    by_seed: Estimate | None
    same_seeds: bool
    seeds: int
    verdict: Verdict


class ArmRow(msgspec.Struct, frozen=True, kw_only=True):
    """Aggregates of an arm's scores. `optimality_gap` is None with one task, `against` for the first arm."""

    arm: str
    seeds: int
    iqm: Estimate
    mean: Estimate
    median: Estimate
    optimality_gap: Estimate | None
    against: ArmContrast | None


class CurveBands(msgspec.Struct, frozen=True, kw_only=True):
    """One line per arm over the same `x`, with the 95 % interval at each point. `low` is `y` for a single seed."""

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
    """Arms compared on `tasks` after `at` steps, seconds or dollars. There the run `ends_first` ends, or all ('').

    Scores are returns with one task and `normalised` returns with several. `equal` compares the returns at that point.
    `absolute` compares the absolute metrics. It is None if runs (`without_absolute`) lack them. `costs` are empty for
    files of marl-eval. `profile` gives the share of runs above each score, `curve` the interquartile mean until `at`.

    `metric` replaces returns, and all runs have the `metrics`. `settings` are by arm and key, if the names of arms do
    not give them. `unlike` are the keys of the task that differ between arms: their returns may have different scales.
    With one arm, `unsplit` are the keys that differ between its settings. `code_changes` are the recorded changes of
    code, by run, and `busy_machines` the load of machines that were busy with other programs. `unlike_code` has the
    runs by name and value of the files of code that differ between runs. `registrations` count the runs by the hash of
    their study's file, if it differs between runs.
    """

    axis: Axis
    at: float
    ends_first: str
    tasks: tuple[str, ...]
    normalised: bool
    equal: tuple[ArmRow, ...]
    absolute: tuple[ArmRow, ...] | None
    without_absolute: tuple[str, ...]
    costs: tuple[Cost, ...]
    profile: CurveBands
    curve: CurveBands
    metric: str = METRIC
    metrics: tuple[str, ...] = ()
    settings: dict[str, dict[str, str]] = {}
    unlike: tuple[str, ...] = ()
    unsplit: tuple[str, ...] = ()
    code_changes: dict[str, tuple[CodeChange, ...]] = {}
    busy_machines: dict[str, str] = {}
    unlike_code: dict[str, dict[str, tuple[str, ...]]] = {}
    registrations: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<Comparison: {len(self.equal)} arms on {len(self.tasks)} tasks at {self.at:g} {self.axis}>"


def compare(arms: Sequence[ComparedArm], axis: Axis, metric: str = METRIC) -> Comparison:
    """The comparison at the largest value of `axis` that all runs reached. Raises `UserError` if there is none.

    `metric` is the metric of the arms' curves.
    """
    first, last = common_span(arms, axis)
    normalisation = scale(arms)
    equal = {arm.name: normalisation.scores(returns_at(arm, axis, np.array([last]))[0]) for arm in arms}
    seeds, runs = {arm.name: arm.seeds for arm in arms}, [run for arm in arms for run in arm.every_run]
    without = tuple(run.name for run in runs if run.absolute is None)
    registrations = count(run.summary.registration for run in runs if run.summary)
    best = {} if without else {arm.name: normalisation.scores(absolutes(arm)) for arm in arms}
    return Comparison(
        axis=axis,
        at=last,
        ends_first=ends_first(arms, axis),
        tasks=tuple(arms[0].runs),
        normalised=len(arms[0].runs) > 1,
        equal=rows(equal, seeds, f"equal {axis}"),
        absolute=rows(best, seeds, "absolute") if best else None,
        without_absolute=without,
        costs=tuple(cost for arm in arms if (cost := _cost(arm))),
        profile=profile(equal),
        curve=_curve(arms, axis, first, last, normalisation),
        metric=metric,
        metrics=_common_metrics(arms),
        settings={arm.name: dict(arm.settings) for arm in arms if arm.settings},
        unlike=tuple(setting_keys.unlike([arm.every_run for arm in arms])),
        unsplit=tuple(setting_keys.splitting(arms[0].every_run)) if len(arms) == 1 else (),
        unlike_code=_unlike_code(runs),
        busy_machines={run.name: text for run in runs if run.summary and (text := run.summary.machine.busy_text)},
        registrations=registrations if len(registrations) > 1 else {},
        code_changes={run.name: tuple(run.code_changes) for run in runs if run.code_changes},
    )


def _unlike_code(runs: Sequence[ComparedRun]) -> dict[str, dict[str, tuple[str, ...]]]:
    by_value: dict[str, dict[str, tuple[str, ...]]] = {}
    for run in runs:
        for name, value in run.code.items():
            names = by_value.setdefault(name, {})
            names[value] = (*names.get(value, ()), run.name)
    return {name: names for name, names in by_value.items() if len(names) > 1}


def _common_metrics(arms: Sequence[ComparedArm]) -> tuple[str, ...]:
    first, *others = (dict.fromkeys(metrics_of(run.entries)) for arm in arms for run in arm.every_run)
    return tuple(name for name in first if all(name in other for other in others))


def rows(scores: dict[str, FloatArray], seeds: dict[str, tuple[int, ...]], measure: str) -> tuple[ArmRow, ...]:
    """A row for every arm's scores ``[seeds, tasks]``. `measure` is part of the address of random numbers."""
    base = next(iter(scores))
    return tuple(
        ArmRow(
            arm=name,
            seeds=len(matrix),
            iqm=_estimate(bootstrap.iqm, matrix, measure, name, "iqm"),
            mean=_estimate(bootstrap.mean, matrix, measure, name, "mean"),
            median=_estimate(bootstrap.median, matrix, measure, name, "median"),
            optimality_gap=_estimate(bootstrap.optimality_gap, matrix, measure, name, "gap")
            if matrix.shape[1] > 1
            else None,
            against=None
            if name == base
            else _against(matrix, scores[base], seeds[name] == seeds[base], (measure, name, "against", base)),
        )
        for name, matrix in scores.items()
    )


def profile(scores: dict[str, FloatArray]) -> CurveBands:
    """Performance profiles: the share of all runs that score more than each threshold (Agarwal et al. 2021)."""
    low, high = min(matrix.min() for matrix in scores.values()), max(matrix.max() for matrix in scores.values())
    # From a step below the lowest score, above which all runs are.
    step = (high - low) / _THRESHOLDS or 1.0
    thresholds = np.linspace(low - step, high, _THRESHOLDS)
    above = {name: [np.greater(matrix, threshold) for threshold in thresholds] for name, matrix in scores.items()}
    return _lines(thresholds, {name: _points(bootstrap.mean, each, "profile", name) for name, each in above.items()})


def curves(arms: Sequence[ComparedArm], axis: Axis) -> dict[str, CurveBands]:
    """Each arm's curve as far as all runs of the arm came, which may be further than all arms did.

    Arms are left out if their runs share no place on the axis.
    """
    normalisation, lines = scale(arms), {}
    for arm in arms:
        with suppress(UserError):
            lines[arm.name] = _curve([arm], axis, *common_span([arm], axis), normalisation)
    return lines


def _curve(arms: Sequence[ComparedArm], axis: Axis, first: float, last: float, normalisation: Scale) -> CurveBands:
    grid = np.linspace(first, last, _POINTS if last > first else 1)
    scores = {arm.name: list(normalisation.scores(returns_at(arm, axis, grid))) for arm in arms}
    return _lines(grid, {name: _points(bootstrap.iqm, each, "curve", name) for name, each in scores.items()})


def _points(statistic: Statistic, positions: Sequence[Scores], *address: str) -> list[Estimate]:
    bands = bootstrap.intervals(statistic, [(scores,) for scores in positions], address, repetitions=FEWER)
    return [
        Estimate(value=float(statistic(scores)), ci95=band, runs=len(scores))
        for scores, band in zip(positions, bands, strict=True)
    ]


def _cost(arm: ComparedArm) -> Cost | None:
    if not (summaries := [run.summary for run in arm.every_run if run.summary is not None]):
        return None
    return Cost(
        arm=arm.name,
        runs=len(summaries),
        env_steps=float(np.mean([each.env_steps for each in summaries])),
        seconds=float(np.mean([each.train_seconds for each in summaries])),
        dollars=float(np.mean([each.dollars.total for each in summaries])),
    )


def _lines(x: FloatArray, lines: dict[str, list[Estimate]]) -> CurveBands:
    intervals = {name: [point.ci95 or (point.value, point.value) for point in line] for name, line in lines.items()}
    return CurveBands(
        x=tuple(x.tolist()),
        y={name: tuple(point.value for point in line) for name, line in lines.items()},
        low={name: tuple(low for low, _ in bands) for name, bands in intervals.items()},
        high={name: tuple(high for _, high in bands) for name, bands in intervals.items()},
    )


def _against(scores: FloatArray, base: FloatArray, same: bool, address: tuple[str, ...]) -> ArmContrast:
    seeds = min(len(scores), len(base))

    def estimate(statistic: Statistic, arms: Sequence[Scores], together: bool) -> Estimate:
        interval = bootstrap.interval(statistic, arms, address, together)
        return Estimate(value=float(statistic(*arms)), ci95=interval, runs=seeds)

    difference = estimate(bootstrap.iqm_difference, (scores, base), same)
    improvement = estimate(bootstrap.improvement, bootstrap.ranks(scores, base), False)
    by_seed = estimate(bootstrap.improvement_by_seed, (scores, base), True) if same else None
    return ArmContrast(
        difference=difference,
        improvement=improvement,
        by_seed=by_seed,
        same_seeds=same,
        seeds=seeds,
        verdict=verdict(difference, by_seed if by_seed and seeds >= FEWEST else improvement),
    )


def verdict(difference: Estimate, improvement: Estimate) -> Verdict:
    """Say whether an arm is higher or lower than the first arm, by both intervals and the number of seeds."""
    if difference.runs < FEWEST_SEEDS or difference.ci95 is None or improvement.ci95 is None:
        return "cannot tell"
    if difference.ci95[0] > 0 and improvement.ci95[0] > 0.5:
        return "higher"
    if difference.ci95[1] < 0 and improvement.ci95[1] < 0.5:
        return "lower"
    return "cannot tell"


def _estimate(statistic: Statistic, scores: FloatArray, *address: str) -> Estimate:
    interval = bootstrap.interval(statistic, (scores,), address)
    return Estimate(value=float(statistic(scores)), ci95=interval, runs=len(scores))
