"""The files that an ablation writes beside its runs: table.md, table.json, results.csv and the pictures."""

from collections.abc import Mapping, Sequence
from functools import partial

from coordinator.config.schema import RunConfig
from functions.encoding import to_json_file
from marless.ablation import ablation_plots, result_tables
from marless.ablation.ablation_campaign import AblationCampaign
from marless.ablation.arms import controls, settings
from marless.comparison.finished_run import FinishedRun
from marless.comparison.paired_by_seed import PairedComparison, compare_paired
from marless.reports.atomic_files import replace, storage_errors
from marless.reports.plot_style import draw_if_possible
from marless.reports.provenance import written_by
from marless.studies.cells import Cell


def write(campaign: AblationCampaign) -> tuple[PairedComparison, list[str]]:
    """Writes all files; returns the comparison and the pictures' names, none without matplotlib.

    The baseline needs a run. Raises `StorageFault`.
    """
    ablation, declaration, results = campaign.ablation, campaign.declaration, campaign.results
    comparison = compare_paired(results, ablation.random, declaration.headlines, controls(results))
    arms = {arm.name: (arm.about, settings(arm, declaration.rollouts.get(arm.name))) for arm in ablation.arms}
    rows = [result for runs in results.values() for result in runs.values()]
    remarks, title = [*_remarks(rows, campaign.failures), written_by()], _title(ablation.base)
    with storage_errors(f"into {ablation.folder}"):
        results_by_arm = {name: runs for name, runs in results.items() if runs}
        files = draw_if_possible(partial(ablation_plots.draw, results_by_arm, ablation.folder, title))
        text = result_tables.markdown(title, comparison, arms, remarks, files)
        replace(ablation.folder / "table.md", text.encode())
        replace(ablation.folder / "table.json", to_json_file(comparison))
        replace(ablation.folder / "results.csv", result_tables.comma_separated(rows).encode())
    return comparison, files


def _title(base: RunConfig) -> str:
    agents = f" with {base.task.agents} agents" if base.task.agents else ""
    return f"{base.task.name}{agents}, {base.algorithm.name}"


def _remarks(results: Sequence[FinishedRun], failures: Mapping[Cell, str]) -> list[str]:
    """Remarks on the limits of the comparison."""
    remarks = []
    programs = {result.code for result in results}
    if len(programs) > 1:
        remarks.append(f"These runs are of {len(programs)} versions of the program, which may explain differences.")
    if failures:
        lines = [f"* {cell.arm.name}, seed {cell.seed}: {why}" for cell, why in failures.items()]
        remarks.append("\n".join(["Runs that failed and are left out:", "", *lines]))
    return remarks
