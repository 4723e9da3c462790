"""Ablations: rules compared over seeds, on one task or on those of a suite; the same ablation goes on in its folder."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from coordinator.config import toml_dump
from coordinator.config.schema import RunConfig
from coordinator.errors import FINISHED, UNFINISHED, Ending, UserError
from functions.contract import MissingExtra
from functions.encoding import from_json, to_json, to_json_file
from functions.environments.roles.partition import roles_of
from marless.ablation import ablation_files, declaration, suite_costs, suite_file, suite_picture, suite_table
from marless.ablation.ablation_campaign import BASE, AblationCampaign, CellEnd
from marless.ablation.arms import configuration, refuse_clashes, settings
from marless.ablation.declaration import Declaration
from marless.ablation.suite_costs import TaskCosts
from marless.comparison.contrasts import Contrast, contrasts
from marless.comparison.paired_by_seed import PairedComparison, Runs
from marless.loggers import registry as loggers
from marless.reports import TeamPolicy, crossplay, load_policy
from marless.reports.evaluations import names
from marless.reports.policy import same_task
from marless.runs.folder import ERRORS, RunFolder
from marless.runs.session import Stopping
from marless.studies.campaign import CampaignView
from marless.studies.cells import Arm
from marless.studies.seeds import seeds_of
from marless.studies.side_by_side import drive_separately

ROOT = Path("ablations")


@dataclass(frozen=True)
class Ablation:
    """One task's ablation: the first of `arms` is the baseline, `random` the return of random play, `headlines` the
    contrasts declared before the runs, and `reference` has the opponents of each side of competing agents."""

    folder: Path
    base: RunConfig
    arms: list[Arm]
    seeds: Sequence[int]
    random: float | None
    headlines: list[Contrast]
    reference: TeamPolicy | None = None


@dataclass(frozen=True)
class AblationResult:
    """What an ablation came to: the `comparison`, None without a run of the baseline; the finished `runs` by arm and
    seed; why other runs failed, by name. `has_pictures` is False without matplotlib."""

    folder: Path
    ending: Ending
    comparison: PairedComparison | None
    runs: Mapping[str, Runs]
    failures: Mapping[str, str]
    has_pictures: bool = False


class AblationView(CampaignView):
    """Shows an ablation while its runs train; this one shows nothing."""

    def announce(self, ablation: Ablation, missing: int) -> None:
        """So many of the runs have not finished yet."""

    def cell_ended(self, end: CellEnd) -> None:
        """A run ended, or could not begin."""

    def show_comparison(self, result: AblationResult) -> None:
        """The arms were compared."""


def plan(
    base: RunConfig,
    arms: list[Arm],
    seeds: Sequence[int],
    folder: Path | None = None,
    random: float | None = None,
    headlines: Iterable[str] = (),
    overrides: Iterable[str] = (),
) -> Ablation:
    """The ablation of one task, by default in a folder after task and algorithm.

    Raises `ConfigError` for headlines that cannot be, and for an arm that the settings exclude.
    """
    loggers.require(base.log.to)
    refuse_clashes(arms, overrides)
    for arm in arms:
        configuration(arm, base)
    contrast_list = contrasts(headlines, [arm.name for arm in arms])
    return Ablation(folder or ROOT / _suggestion(base), base, arms, seeds, random, contrast_list)


def plan_suite(
    path: Path,
    arms_of: Callable[[list[str]], list[Arm]],
    seeds: Sequence[int] | None = None,
    folder: Path | None = None,
    headlines: Sequence[str] = (),
    overrides: Sequence[str] = (),
) -> list[Ablation]:
    """The ablations of a suite's file, whose names for arms `arms_of` resolves; raises `ConfigError`."""
    file, root = suite_file.load(path), folder or ROOT / path.stem
    return [
        plan(
            suite_file.configuration(file, task, overrides),
            arms_of([*file.arms, *task.arms]),
            seeds or seeds_of(file.seeds),
            root / task.name,
            task.random,
            headlines,
            overrides,
        )
        for task in file.tasks
    ]


def reference_policy(text: str, base: RunConfig) -> TeamPolicy:
    """The policies of a run or a file as opponents; raises `UserError` when they cannot play the task."""
    path = Path(text) if Path(text).is_file() else RunFolder.find(text).path
    try:
        crossplay.sides(base.task)
    except ValueError as error:
        raise UserError(f"--reference: {error}") from error
    reference = load_policy(path)
    if not same_task(reference.task, base.task):
        raise UserError(f"--reference: {text} was trained on another task ({reference.task.name}, or other options)")
    return reference


def ablate(ablation: Ablation, jobs: int, stopping: Stopping, view: AblationView) -> AblationResult:
    """Runs what is missing, `jobs` runs at once, and writes the comparison into the ablation's folder.

    Raises `UserError` for a folder that holds something else, and `StorageFault`.
    """
    folder = ablation.folder
    _open(folder)
    with RunFolder(folder).driving():
        campaign = AblationCampaign(folder, _declare(ablation), ablation.arms, ablation.seeds, view.cell_ended)
        view.announce(ablation, len(campaign.missing))
        drive_separately(campaign, stopping, jobs, view)
        failures = {cell.run: why for cell, why in campaign.failures.items()}
        if stopping.received:
            line = f"stopped with {len(campaign.missing)} runs to go; the same command resumes"
            return AblationResult(folder, Ending(stopping.code, line), None, campaign.results, failures)
        baseline = ablation.arms[0].name
        if not campaign.results[baseline]:
            line = f"no run of the baseline {baseline} finished; see {folder / 'runs'}"
            return AblationResult(folder, Ending(UNFINISHED, line), None, campaign.results, failures)
        result = _compare(ablation, campaign, failures)
    view.show_comparison(result)
    return result


def ablate_suite(
    title: str, ablations: Sequence[Ablation], jobs: int, stopping: Stopping, view: AblationView
) -> tuple[Ending, str]:
    """Compares the arms on one task after the other, then over all tasks; returns the table of all tasks too, '' when
    it was stopped before. Raises as `ablate`."""
    failed, costs = Ending(FINISHED, ""), list[TaskCosts]()
    for ablation in ablations:
        result = ablate(ablation, jobs, stopping, view)
        if stopping.received:
            return result.ending, ""
        failed = result.ending if result.ending.code != FINISHED else failed
        assert ablation.random is not None
        task = ablation.folder.name
        cost = suite_costs.costs(task, ablation.arms, result.runs, ablation.random, _roles(ablation.base))
        costs += [cost] if cost else []
    return failed, _write_suite(title, costs, ablations)


def _write_suite(title: str, costs: list[TaskCosts], ablations: Sequence[Ablation]) -> str:
    """Writes the table over all tasks and its picture; returns the table."""
    root = ablations[0].folder.parent
    arms = list({arm.name: arm for ablation in ablations for arm in ablation.arms}.values())
    try:
        pictures = suite_picture.draw(costs, arms, root, title)
    except MissingExtra:
        pictures = []
    text = suite_table.markdown(title, costs, arms, pictures)
    RunFolder(root).write("table.md", text.encode())
    RunFolder(root).write("table.json", to_json_file(costs))
    return text


def _roles(base: RunConfig) -> tuple[int, ...] | None:
    """The hidden roles of the task's agents; None for a task without any."""
    try:
        return roles_of(base.task)
    except (ValueError, MissingExtra):
        return None


def _open(folder: Path) -> None:
    """Creates the folder; raises `UserError` when it holds something else."""
    folder.mkdir(parents=True, exist_ok=True)
    foreign = [path.name for path in folder.iterdir() if not path.name.startswith(".") and path.name != ERRORS]
    if foreign and not (folder / declaration.FILE).exists():
        raise UserError(f"{folder} holds {foreign[0]} and is not the folder of an ablation; choose another --out")


def _declare(ablation: Ablation) -> Declaration:
    """Merges the folder's declaration with this one and writes it and the base configuration."""
    # Through JSON, so that tuples become lists as when it is read back.
    document = from_json(to_json(ablation.base), dict[str, Any])
    del document["seed"]
    arms, headlines = {arm.name: settings(arm) for arm in ablation.arms}, tuple(ablation.headlines)
    requested = Declaration(settings=document, arms=arms, headlines=headlines)
    merged = declaration.merge(ablation.folder, declaration.read(ablation.folder), requested)
    declaration.write(ablation.folder, merged)
    RunFolder(ablation.folder).write(BASE, toml_dump.document(ablation.base).encode(), durable=True)
    return merged


def _compare(ablation: Ablation, campaign: AblationCampaign, failures: Mapping[str, str]) -> AblationResult:
    """Writes tables and pictures of the finished runs."""
    folder, base = ablation.folder, ablation.base
    results: Mapping[str, Runs] = campaign.results
    arms = {arm.name: arm for arm in ablation.arms}
    if ablation.reference is not None:
        results = ablation_files.add_plays(folder, arms, results, partial(_plays, base, ablation.reference))
    comparison, pictures = ablation_files.write(
        folder, _title(base), campaign.declaration, arms, results, campaign.failures, ablation.random
    )
    line = f"{len(failures)} of {len(campaign.cells)} runs failed; see {folder / 'runs'}"
    ending = Ending(UNFINISHED, line) if failures else Ending(FINISHED, "")
    return AblationResult(folder, ending, comparison, results, failures, bool(pictures))


def _plays(base: RunConfig, reference: TeamPolicy, run: Path, seed: int) -> dict[str, float]:
    """Returns against opponents; runs of the same seed play on the same start states."""
    return crossplay.scores(load_policy(run), reference, base.evaluation.final_episodes, seed)


def _title(base: RunConfig) -> str:
    agents = f" with {base.task.agents} agents" if base.task.agents else ""
    return f"{base.task.name}{agents}, {base.algorithm.name}"


def _suggestion(base: RunConfig) -> str:
    """A folder's name such as ``simple_spread-mappo``: the same command finds it again."""
    task = re.sub(r"[^a-z0-9_-]", "_", names(base.task)[1])
    return f"{task}-{base.algorithm.name}"
