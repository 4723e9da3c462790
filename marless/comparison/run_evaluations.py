"""Read a run for a comparison: its evaluations, and the steps, seconds and dollars used by each of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from marless.coordinator.config.nested_tables import flatten
from marless.coordinator.config.schema import RunConfig
from marless.coordinator.errors import UserError
from marless.coordinator.file_reading import read_file, read_json
from marless.reports import evaluations
from marless.reports.evaluations import METRIC, RunEntries
from marless.reports.journal import read as read_lines
from marless.reports.provenance import CodeChange
from marless.runs.folder import EVALUATIONS, IDENTITY, METRICS
from marless.runs.integrity.code_record import code_of_run
from marless.runs.summary import Summary

FloatArray = NDArray[np.float64]
Axis = Literal["steps", "seconds", "dollars"]
AXES: tuple[Axis, ...] = ("steps", "seconds", "dollars")
LACKS = "no metric {}; it has {}"


class _Origin(msgspec.Struct, frozen=True):
    changes: tuple[CodeChange, ...] = ()


@dataclass(frozen=True)
class Curve:
    """Mean greedy returns ``[evaluations]``, or means of another metric, with environment steps, seconds of training
    and dollars by then.

    Of runs in files of marl-eval only the steps are known.
    """

    returns: FloatArray
    used: Mapping[Axis, FloatArray]

    def at(self, axis: Axis, where: FloatArray) -> FloatArray:
        """Returns at these positions, linear between evaluations."""
        return np.interp(where, self.used[axis], self.returns)

    def span(self, axis: Axis) -> tuple[float, float]:
        """The first and the last evaluation's position."""
        return float(self.used[axis][0]), float(self.used[axis][-1])


@dataclass(frozen=True)
class ListedSetting:
    """A setting that a study lists by name, in the folder `study`."""

    study: Path
    name: str


@dataclass(frozen=True, eq=False)
class ComparedRun:
    """A run that takes part. `config` is flat, by dotted key. `curve` and `absolute` are of the metric compared.
    `absolute` belongs to its best policies on ten times the episodes (the absolute metric), or is None for a run that
    was stopped before. `entries` are its evaluations. `summary` is None for a run in a file of marl-eval, `setting` for
    a run outside a study's list. `code_changes` are the changes that the run records in plan.json, and `code` has the
    values of its code by name."""

    name: str
    config: Mapping[str, Any]
    curve: Curve
    absolute: float | None
    entries: RunEntries
    summary: Summary | None
    setting: ListedSetting | None = None
    code_changes: Sequence[CodeChange] = ()
    code: Mapping[str, str] = field(default_factory=dict)

    @property
    def seed(self) -> int:
        """The seed it was trained with."""
        return int(self.config["seed"])


def read(
    name: str,
    folder: Path,
    config: RunConfig,
    summary: Summary,
    setting: ListedSetting | None = None,
    metric: str = METRIC,
) -> ComparedRun | str:
    """The run in `folder`, or why there is nothing to compare. Raises `UserError` for a file that cannot be read."""
    try:
        entries = evaluations.entries(read_file(folder / EVALUATIONS))
        by_step = evaluations.means(entries, metric)
    except (ValueError, LookupError) as error:
        raise UserError(f"{folder / EVALUATIONS} cannot be read: {error}") from error
    if not by_step:
        metric_names = evaluations.metrics_of(entries)
        return LACKS.format(metric, ", ".join(metric_names)) if metric_names else "no evaluation"
    absolute = evaluations.absolute(entries, metric)
    return ComparedRun(
        name=name,
        # Where a run is logged makes it no other run.
        config=flatten({key: table for key, table in msgspec.to_builtins(config).items() if key != "log"}),
        curve=_curve(by_step, folder / METRICS),
        absolute=float(np.mean(absolute)) if absolute else None,
        entries=entries,
        summary=summary,
        setting=setting,
        code_changes=read_json(folder / IDENTITY, _Origin).changes,
        code=code_of_run(folder),
    )


def curve_of(by_step: Mapping[int, float]) -> Curve:
    """The curve of returns by environment steps."""
    steps = sorted(by_step)
    return Curve(np.array([by_step[step] for step in steps]), {"steps": np.array(steps, np.float64)})


def _curve(by_step: Mapping[int, float], metrics: Path) -> Curve:
    """The returns over steps, seconds and dollars. The last two are interpolated between the rounds' ends."""
    lines, plain = read_lines(metrics), curve_of(by_step)
    steps = plain.used["steps"]
    done = [0, *(line.env_steps for line in lines)]
    seconds = np.interp(steps, done, [0.0, *(line.seconds for line in lines)])
    dollars = np.interp(steps, done, [0.0, *(line.dollars for line in lines)])
    return Curve(plain.returns, {"steps": steps, "seconds": seconds, "dollars": dollars})
