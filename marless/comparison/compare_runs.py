"""The comparison of runs by their names, as `marless compare` and `marless report` make it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marless.comparison import score_tables
from marless.comparison.arms_of_runs import ComparedArm, arms_of
from marless.comparison.comparison import Comparison, compare
from marless.comparison.marl_eval import arms_of_files
from marless.comparison.run_evaluations import Axis
from marless.comparison.run_selection import collect
from marless.coordinator.errors import UserError
from marless.reports.evaluations import METRIC
from marless.reports.notebook.shown_result import ShownResult
from marless.reports.section import Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class RunComparison(ShownResult):
    """The `comparison`, its `arms`, and the runs that were left out, with reasons (`left_out`)."""

    comparison: Comparison
    arms: Sequence[ComparedArm]
    left_out: Mapping[str, str]

    @property
    def headline(self) -> str:
        """Return the arms, seeds and tasks of the comparison."""
        return score_tables.headline(self.comparison)

    @property
    def sections(self) -> list[Section]:
        """Return the tables of `marless compare`."""
        return score_tables.sections(self.comparison)

    @property
    def records(self) -> list[dict[str, Any]]:
        """Return a row for each arm, with the interval of the interquartile mean."""
        return [
            {
                "arm": row.arm,
                "seeds": row.seeds,
                "iqm": row.iqm.value,
                "low": (row.iqm.ci95 or (row.iqm.value,))[0],
                "high": (row.iqm.ci95 or (row.iqm.value,))[-1],
                "mean": row.mean.value,
                "median": row.median.value,
                "verdict": row.against.verdict if row.against else "",
            }
            for row in self.comparison.equal
        ]

    def plot(self) -> "Figure":
        """Return the learning curves with their bands, as a figure of matplotlib.

        Examples:
            >>> marless.compare("studies/rates").plot().savefig("rates.png")
        """
        from marless.comparison.comparison_plots import curve

        return curve(self.comparison)

    @property
    def sentences(self) -> list[str]:
        """Return the verdicts, then the runs that were left out."""
        left_out = (f"left out: {name} ({why})" for name, why in self.left_out.items())
        return [*score_tables.conclusions(self.comparison), *left_out]


def compare_runs(
    names: Sequence[str], by: Sequence[str] = (), at: Axis = "steps", metric: str = METRIC
) -> RunComparison:
    """Compares runs, folders of runs, or files of marl-eval (.json). Keys in `by` tell arms apart.

    Raises `UserError` for runs that cannot be compared.
    """
    arms, left_out = _arms(names, by, at, metric)
    return RunComparison(compare(arms, at, metric), arms, left_out)


def _arms(names: Sequence[str], by: Sequence[str], at: Axis, metric: str) -> tuple[list[ComparedArm], dict[str, str]]:
    if not (files := [Path(name) for name in names if name.endswith(".json")]):
        selection = collect(names, metric)
        arms, without = arms_of(selection.runs, by)
        return arms, selection.left_out | without
    if len(files) < len(names):
        raise UserError("runs and files of marl-eval cannot be compared; comparing runs alone writes a marl-eval.json")
    if by or at != "steps":
        raise UserError("files of marl-eval hold algorithms and environment steps: neither `by` nor another `at` fits")
    return arms_of_files(files, metric)
