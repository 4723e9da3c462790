"""Ablations: rules compared over seeds, on one task or on those of a suite; the same ablation goes on in its folder."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from marless.ablation import (
    ablation_files,
    declaration,
    result_tables,
    suite_costs,
    suite_file,
    suite_picture,
    suite_table,
)
from marless.ablation.ablation_campaign import BASE, Ablation, AblationCampaign, CellEnd
from marless.ablation.arms import configuration, refuse_clashes, settings
from marless.ablation.declaration import Declaration
from marless.ablation.suite_costs import TaskCosts
from marless.backends.base import Listen, WorkerDemand, WorkerListener
from marless.comparison.contrasts import contrasts
from marless.comparison.paired_by_seed import Failures, PairedComparison, Runs
from marless.coordinator.config import toml_dump
from marless.coordinator.config.schema import RunConfig
from marless.coordinator.errors import FINISHED, UNFINISHED, Ending, UserError
from marless.functions.encoding import from_json, to_json, to_json_file
from marless.functions.environments.roles.partition import roles_of
from marless.functions.errors import MissingExtra
from marless.reports import TeamPolicy, crossplay, load_policy
from marless.reports.notebook.shown_result import ShownResult
from marless.reports.plot_style import draw_if_possible
from marless.reports.policy import same_task
from marless.reports.section import Section
from marless.reports.text import counted
from marless.runs.folder import ERRORS, RunFolder, suggestion
from marless.runs.inputs.required_packages import refuse_gpu_elsewhere, require_packages
from marless.runs.run_store import RUNS
from marless.runs.session import Stopping
from marless.studies.campaign import CampaignView
from marless.studies.cells import Arm
from marless.studies.registration import refuse_hold_outs, registration_of
from marless.studies.seeds import seeds_of
from marless.studies.side_by_side import drive_separately

ROOT = Path("ablations")


@dataclass(frozen=True, repr=False)
class AblationResult(ShownResult):
    """What an ablation came to: the `comparison`, None without a run of the baseline; the finished `runs` by arm and
    seed. `failures` are the reasons of failed runs, by arm and seed. `has_pictures` is False without matplotlib."""

    folder: Path
    ending: Ending
    comparison: PairedComparison | None
    runs: Mapping[str, Runs]
    failures: Failures
    has_pictures: bool = False

    @property
    def headline(self) -> str:
        """Return the folder, and the numbers of arms, finished and failed runs."""
        runs = counted(sum(map(len, self.runs.values())), "finished run")
        failed = f", {sum(map(len, self.failures.values())):,} failed" if self.failures else ""
        return f"{self.folder}, {counted(len(self.runs), 'arm')}, {runs}{failed}"

    @property
    def sections(self) -> list[Section]:
        """All tables of ``table.md`` but the decisions of the rules and the bill."""
        if self.comparison is None:
            return []
        main, cost, _, _, *others = result_tables.sections(self.comparison)
        return [main, cost, *others]


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
    reference: str | None = None,
    registration: str | None = None,
) -> Ablation:
    """The ablation of one task, by default in a folder after task and algorithm; `reference` is as in
    `reference_policy`. Without a `registration` it gets the hash of its own settings, arms, seeds and contrasts.

    Raises `ConfigError` for headlines that cannot be, for an arm that the settings exclude, and `UserError`.
    """
    require_packages(base)
    refuse_clashes(arms, overrides)
    for arm in arms:
        configuration(arm, base)
    contrast_list = contrasts(headlines, [arm.name for arm in arms])
    opponents = None if reference is None else reference_policy(reference, base)
    root = folder or ROOT / suggestion(base)
    ablation = Ablation(root, base, arms, seeds, random, contrast_list, opponents, registration or "")
    return ablation if registration is not None else replace(ablation, registration=_registration(ablation))


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
    seeds, headlines = seeds or seeds_of(file.seeds), headlines or file.headlines
    configs = [suite_file.configuration(file, task, overrides) for task in file.tasks]
    refuse_hold_outs(file.hold_outs, [config.task.name for config in configs], seeds, str(path))
    ablations = []
    for task, config in zip(file.tasks, configs, strict=True):
        arms = arms_of([*file.arms, *task.arms])
        is_covered = file.covers([arm.name for arm in arms], seeds, headlines, overrides)
        registration = file.registration if is_covered else ""
        details = (root / task.name, task.random, headlines, overrides)
        ablations.append(plan(config, arms, seeds, *details, registration=registration))
    return ablations


def reference_policy(text: str, base: RunConfig) -> TeamPolicy:
    """The policies of a run or a file as opponents; raises `UserError` when they cannot play the task."""
    path = Path(text) if Path(text).is_file() else RUNS.find(text).path
    try:
        crossplay.sides(base.task)
    except ValueError as error:
        raise UserError(f"--reference: {error}") from error
    reference = load_policy(path)
    if not same_task(reference.task, base.task):
        raise UserError(f"--reference: {text} was trained on another task ({reference.task.name}, or other options)")
    return reference


def demand(ablations: Sequence[Ablation], jobs: int) -> WorkerDemand:
    """What ablations ask a cluster for: a worker for each of the runs at once."""
    runs = [configuration(arm, ablation.base) for ablation in ablations for arm in ablation.arms]
    return WorkerDemand(runs, jobs)


def ablate(ablation: Ablation, jobs: int, stopping: Stopping, view: AblationView, listen: Listen) -> AblationResult:
    """Run what is missing, `jobs` runs at once, and write the comparison into the ablation's folder. `listen` lets
    workers dial in.

    Raises `UserError` for a folder that holds something else and for learners on GPUs elsewhere, and `StorageFault`.
    """
    with listen(demand([ablation], jobs)) as listener:
        return _ablate(ablation, jobs, stopping, view, listener)


def _ablate(
    ablation: Ablation, jobs: int, stopping: Stopping, view: AblationView, listener: WorkerListener | None
) -> AblationResult:
    if listener is not None:
        refuse_gpu_elsewhere(ablation.base.algorithm.device)
    _open(ablation.folder)
    with RunFolder(ablation.folder).driving():
        campaign = AblationCampaign(ablation, _declare(ablation), view.cell_ended)
        view.announce(ablation, len(campaign.missing))
        drive_separately(campaign, stopping, jobs, view, listener)
        result = _result(campaign, stopping)
    if result.comparison is not None:
        view.show_comparison(result)
    return result


def ablate_suite(
    title: str,
    ablations: Sequence[Ablation],
    jobs: int,
    stopping: Stopping,
    view: AblationView,
    listen: Listen,
    share: float = suite_costs.SHARE,
) -> tuple[Ending, str]:
    """Compares the arms on one task after the other, then over all tasks; returns the table of all tasks too, '' when
    it was stopped before. The target is a `share` of the way to the best static arm. Raises as `ablate`."""
    last_failure, costs = Ending(FINISHED, ""), list[TaskCosts]()
    with listen(demand(ablations, jobs)) as listener:
        for ablation in ablations:
            result = _ablate(ablation, jobs, stopping, view, listener)
            if stopping.received:
                return result.ending, ""
            last_failure = result.ending if result.ending.code != FINISHED else last_failure
            assert ablation.random is not None
            task = ablation.folder.name
            details = (ablation.random, _roles(ablation.base), share, result.failures)
            costs.append(suite_costs.costs(task, ablation.arms, result.runs, *details))
        return last_failure, _write_suite(title, costs, ablations, share)


def _write_suite(title: str, costs: list[TaskCosts], ablations: Sequence[Ablation], share: float) -> str:
    """Writes the table over all tasks and its picture; returns the table."""
    root = ablations[0].folder.parent
    arms = list({arm.name: arm for ablation in ablations for arm in ablation.arms}.values())
    pictures = draw_if_possible(partial(suite_picture.draw, costs, arms, root, title))
    text = suite_table.markdown(title, costs, arms, pictures, share, ablations[0].registration)
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


def _registration(ablation: Ablation) -> str:
    content = {"declaration": _declaration(ablation), "seeds": ablation.seeds, "random": ablation.random}
    return registration_of(content)


def _declaration(ablation: Ablation) -> Declaration:
    # Through JSON, so that tuples become lists as when it is read back.
    document = from_json(to_json(ablation.base), dict[str, Any])
    del document["seed"]
    arms, headlines = {arm.name: settings(arm) for arm in ablation.arms}, tuple(ablation.headlines)
    return Declaration(settings=document, arms=arms, headlines=headlines)


def _declare(ablation: Ablation) -> Declaration:
    """Merges the folder's declaration with this one and writes it and the base configuration."""
    earlier = declaration.read(ablation.folder)
    declaration_of_both = declaration.merge(ablation.folder, earlier, _declaration(ablation))
    declaration.write(ablation.folder, declaration_of_both)
    RunFolder(ablation.folder).write(BASE, toml_dump.document(ablation.base).encode(), durable=True)
    return declaration_of_both


def _result(campaign: AblationCampaign, stopping: Stopping) -> AblationResult:
    """Writes tables and pictures of the finished runs, unless the ablation was stopped or its baseline has none."""
    ablation, failed = campaign.ablation, len(campaign.failures)
    runs, baseline = ablation.folder / "runs", ablation.arms[0].name
    comparison, pictures = None, list[str]()
    if stopping.received:
        ending = Ending(stopping.code, f"stopped with {len(campaign.missing)} runs to go; the same command resumes")
    elif not campaign.results[baseline]:
        ending = Ending(UNFINISHED, f"no run of the baseline {baseline} finished; see {runs}")
    else:
        if ablation.reference is not None:
            campaign.play_sides(ablation.reference)
        comparison, pictures = ablation_files.write(campaign)
        line = f"{failed} of {len(campaign.cells)} runs failed; see {runs}"
        ending = Ending(UNFINISHED, line) if failed else Ending(FINISHED, "")
    results, failures = campaign.results, campaign.failures_by_arm
    return AblationResult(ablation.folder, ending, comparison, results, failures, bool(pictures))
