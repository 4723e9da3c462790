"""A run on disk, as a notebook reads it."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from marless.reports.evaluations import Evaluation
    from marless.reports.policy import TeamPolicy
    from marless.runs.summary import Summary

__all__ = ["Run", "open_run"]


class Run:
    """A run's folder; every call reads the files as they are at that moment. A run is also the path of its folder.

    Examples:
        >>> run = marless.open_run("runs/latest")
        >>> run.summary.final_return.mean, run.summary.dollars.total
        (-33.2, 0.018)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    @property
    def name(self) -> str:
        """The run's name."""
        return self.path.resolve().name

    @property
    def summary(self) -> "Summary":
        """summary.json: status, returns with intervals, steps, seconds, dollars. Raises `UserError` without one."""
        from coordinator.errors import UserError
        from marless.runs import summary
        from marless.runs.folder import RunFolder

        run_summary = summary.read(RunFolder(self.path))
        if run_summary is None:
            raise UserError(f"{self.path} has no summary yet; it comes with the first evaluation")
        return run_summary

    def metrics(self) -> list[dict[str, Any]]:
        """One row per finished round: returns, losses, decisions, dollars.

        Examples:
            >>> [row["return_mean"] for row in run.metrics()][:2]
            [-79.1, -78.4]
        """
        import msgspec

        from marless.reports import journal

        return [msgspec.to_builtins(line) for line in journal.read(self.path / _METRICS)]

    def frame(self) -> "DataFrame":
        """`metrics` as a pandas frame, nested values as columns such as ``metrics.policy/kl/g00``. Needs pandas."""
        import pandas

        return pandas.json_normalize(self.metrics())

    def evaluations(self) -> "list[Evaluation]":
        """Greedy evaluations, oldest first and the final policies last; returns by episode and the steps done by then.

        Raises `FileNotFoundError` before the run has ended once.
        """
        from coordinator.file_reading import read_file
        from marless.reports import evaluations

        return evaluations.read(read_file(self.path / "evaluations.json"))

    def policy(self, best: bool = False) -> "TeamPolicy":
        """The final policies, or those with the best evaluation. Raises `FileNotFoundError` before the run's end."""
        from marless.reports.policy import load_policy

        return load_policy(self.path / ("best_policies.safetensors" if best else "policies.safetensors"))

    def plot(self) -> "Figure":
        """The learning curve as a matplotlib figure. Raises `MissingExtra` without matplotlib.

        Examples:
            >>> run.plot().savefig("curve.png")
        """
        from coordinator.core.state import State
        from marless.reports import journal, learning_curve
        from marless.runs.run_files import curve_points

        return learning_curve.figure(curve_points(State(), journal.read(self.path / _METRICS)), self.name)


def open_run(path: str | os.PathLike[str]) -> Run:
    """A run by its folder, its name under ``runs/``, or ``latest``; raises `UserError` where there is none.

    Examples:
        >>> marless.open_run("latest").summary.status
        'finished'
    """
    from marless.runs.folder import RunFolder

    return Run(RunFolder.find(os.fspath(path)).path)


_METRICS = "metrics.jsonl"
