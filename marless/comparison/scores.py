"""Scores of arms as matrices of seeds by tasks, the input of statistics over several tasks."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from marless.comparison.arms_of_runs import ComparedArm
from marless.comparison.run_evaluations import Axis, ComparedRun, FloatArray
from marless.coordinator.errors import UserError


@dataclass(frozen=True)
class Scale:
    """Makes returns of several tasks comparable: `low` and `span` ``[tasks]`` map returns to scores.

    Min-max normalisation per task over every evaluation and absolute metric of every arm. Gorsane et al., "Towards a
    Standardised Performance Evaluation Protocol for Cooperative MARL", NeurIPS 2022. With one task scores are returns.
    """

    low: FloatArray
    span: FloatArray

    def scores(self, returns: FloatArray) -> FloatArray:
        """``[..., tasks]`` to the same shape."""
        return (returns - self.low) / self.span


def scale(arms: Sequence[ComparedArm]) -> Scale:
    """The scale of these arms. A task with only equal returns has the score 0."""
    tasks = list(arms[0].runs)
    if len(tasks) == 1:
        return Scale(np.zeros(1), np.ones(1))
    lows, highs = [], []
    for task in tasks:
        runs = [run for arm in arms for run in arm.runs[task].values()]
        returns = np.concatenate([[*run.curve.returns, *_absolute(run)] for run in runs])
        lows.append(returns.min())
        highs.append(returns.max())
    span = np.array(highs) - np.array(lows)
    return Scale(np.array(lows), np.where(span > 0, span, 1.0))


def returns_at(arm: ComparedArm, axis: Axis, where: FloatArray) -> FloatArray:
    """Returns ``[positions, seeds, tasks]`` of the arm's runs at the positions `where` ``[positions]``."""
    by_seed = [[of_task[seed].curve.at(axis, where) for of_task in arm.runs.values()] for seed in arm.seeds]
    return np.moveaxis(np.array(by_seed), -1, 0)


def absolutes(arm: ComparedArm) -> FloatArray:
    """The absolute metric ``[seeds, tasks]``. Every run needs one."""
    return np.array([[*(_absolute(of_task[seed])[0] for of_task in arm.runs.values())] for seed in arm.seeds])


def common_span(arms: Sequence[ComparedArm], axis: Axis) -> tuple[float, float]:
    """The range where all runs have evaluations. Raises `UserError` if a run ends before another's first one."""
    runs = [run for arm in arms for run in arm.every_run]
    first, last = max(runs, key=lambda run: run.curve.span(axis)[0]), _shortest(arms, axis)
    start, end = first.curve.span(axis)[0], last.curve.span(axis)[1]
    if start > end:
        raise UserError(
            f"{last.name} ends at {end:,.6g} {axis}, before the first evaluation of {first.name} at {start:,.6g}:"
            " there is no point at which both can be compared; train it for longer or evaluate the other more often"
        )
    return start, end


def ends_first(arms: Sequence[ComparedArm], axis: Axis) -> str:
    """The run that ends first, where all are compared, or '' if all end there."""
    end = _shortest(arms, axis).curve.span(axis)[1]
    same = all(run.curve.span(axis)[1] == end for arm in arms for run in arm.every_run)
    return "" if same else _shortest(arms, axis).name


def _shortest(arms: Sequence[ComparedArm], axis: Axis) -> ComparedRun:
    return min((run for arm in arms for run in arm.every_run), key=lambda run: run.curve.span(axis)[1])


def _absolute(run: ComparedRun) -> list[float]:
    return [] if run.absolute is None else [run.absolute]
