"""The files that an ablation writes next to its runs: table.md, table.json, results.csv, curves.csv and the
pictures."""

from collections.abc import Sequence
from functools import partial

from msgspec.structs import astuple

from marless.ablation import ablation_plots, result_tables
from marless.ablation.ablation_campaign import AblationCampaign
from marless.ablation.arms import controls, settings
from marless.comparison.finished_run import CostPoint, FinishedRun
from marless.comparison.paired_by_seed import Failures, PairedComparison, compare_paired
from marless.coordinator.config.schema import RunConfig
from marless.functions.encoding import to_json_file
from marless.reports.atomic_files import replace, storage_errors
from marless.reports.plot_style import draw_if_possible
from marless.reports.provenance import written_by
from marless.reports.text import csv_text
from marless.studies.registration import count, remark


def write(campaign: AblationCampaign) -> tuple[PairedComparison, list[str]]:
    """Writes all files. Returns the comparison and the pictures' names, which are [] without matplotlib.

    The baseline needs a run. Raises `StorageFault`.
    """
    ablation, declaration, results = campaign.ablation, campaign.declaration, campaign.results
    failures = campaign.failures_by_arm
    comparison = compare_paired(results, ablation.random, declaration.headlines, controls(results), failures)
    arms = {arm.name: (arm.about, settings(arm, declaration.rollouts.get(arm.name))) for arm in ablation.arms}
    rows = [result for runs in results.values() for result in runs.values()]
    remarks = [*_remarks(rows, failures, ablation.registration), written_by()]
    title = _title(ablation.base)
    with storage_errors(f"into {ablation.folder}"):
        results_by_arm = {name: runs for name, runs in results.items() if runs}
        files = draw_if_possible(partial(ablation_plots.draw, results_by_arm, ablation.folder, title))
        text = result_tables.markdown(title, comparison, arms, remarks, files)
        replace(ablation.folder / "table.md", text.encode())
        replace(ablation.folder / "table.json", to_json_file(comparison))
        replace(ablation.folder / "results.csv", result_tables.comma_separated(rows).encode())
        replace(ablation.folder / "curves.csv", _curves(rows).encode())
    return comparison, files


def _curves(results: Sequence[FinishedRun]) -> str:
    """A row for every evaluation of every run, so that a reader may choose any target."""
    rows = ([run.arm, run.seed, *astuple(point)] for run in results for point in run.curve)
    return csv_text([["arm", "seed", *CostPoint.__struct_fields__], *rows])


def _title(base: RunConfig) -> str:
    sizes = " or ".join(map(str, base.task.team_sizes))
    agents = f" with {sizes} agents" if sizes else ""
    return f"{base.task.name}{agents}, {base.algorithm.name}"


def _remarks(results: Sequence[FinishedRun], failures: Failures, registration: str) -> list[str]:
    registered = remark(count(result.registration for result in results), registration)
    remarks = [registered] if registered else []
    programs = {result.code for result in results}
    if len(programs) > 1:
        remarks.append(f"These runs are of {len(programs)} versions of the program, which may explain differences.")
    return [*remarks, *result_tables.failed_runs(failures)]
