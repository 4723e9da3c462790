"""Compare rules over seeds, on one task or on several tasks. The same call continues in the same folder."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from marless.ablation import (
    ablation_files,
    declaration,
    result_tables,
    rules_file,
    suite_costs,
    suite_picture,
    suite_table,
)
from marless.ablation.ablation_campaign import BASE, Ablation, AblationCampaign
from marless.ablation.arms import arms_by_name, configuration, refuse_clashes, settings
from marless.ablation.declaration import Declaration
from marless.ablation.rules_file import RulesFile
from marless.ablation.suite_costs import TaskCosts
from marless.backends.base import Listen, WorkerDemand, WorkerListener
from marless.comparison.contrasts import contrasts
from marless.comparison.paired_by_seed import Failures, PairedComparison, Runs
from marless.coordinator.config import toml_dump
from marless.coordinator.config.renamed_keys import STORED, renamed
from marless.coordinator.config.schema import ConfigError, RunConfig
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
from marless.runs.run_policies import with_absolute_policies
from marless.runs.run_store import RUNS
from marless.signals import Signals
from marless.studies.campaign import CampaignView
from marless.studies.cells import Arm
from marless.studies.registration import refuse_hold_outs, registration_of
from marless.studies.seeds import seeds_of
from marless.studies.side_by_side import drive_separately

ROOT = Path("ablations")


@dataclass(frozen=True, repr=False)
class AblationResult(ShownResult):
    """The result of an ablation: its `comparison`, or None before the baseline has a run, and the finished `runs` by
    arm and seed. `failures` are the reasons of failed runs, by arm and seed. Without matplotlib, `has_pictures` is
    False."""

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
            return [Section("Return and cost", ("arm",), ())]
        main, cost, _, _, *others = result_tables.sections(self.comparison)
        return [main, cost, *others]


class AblationView(CampaignView):
    """Shows an ablation while its runs train. This one shows nothing."""

    def show_comparison(self, result: AblationResult) -> None:
        """The arms were compared."""


def plans(
    file: RulesFile,
    root: Path | None,
    where: str,
    overrides: Sequence[str] = (),
    registered_file: RulesFile | None = None,
) -> list[Ablation]:
    """Return an ablation for each task of a study, in its folder below `root`, or one ablation in `root`.

    `overrides` are ``key=value`` settings of all runs. `where` names the place of the settings in errors. The runs keep
    the registration of `registered_file`, by default `file`, if it asks for them. Raises `ConfigError` and
    `UserError`.
    """
    seeds, tasks = seeds_of(file.seeds), [*file.tasks, *([] if file.tasks else [None])]
    configs = [rules_file.configuration(file, task, overrides, where) for task in tasks]
    refuse_hold_outs(file.hold_outs, [config.task.name for config in configs], seeds, where)
    if not file.tasks:
        base, arms = with_absolute_policies(configs[0]), arms_by_name(file.rules)
        return [plan(base, arms, seeds, root, file.random, file.headlines, overrides, file.reference)]
    if file.random is not None or file.reference is not None:
        raise ConfigError(f"{where}: random and reference are for one task; each of `tasks` has its own random")
    registered_file = registered_file or file
    registration = registered_file.registration if registered_file.covers(file, overrides) else ""
    ablations = []
    for task, config in zip(file.tasks, configs, strict=True):
        folder, arms = (root or ROOT) / task.name, arms_by_name([*file.rules, *task.rules])
        details = (folder, task.random, file.headlines, overrides)
        ablations.append(plan(config, arms, seeds, *details, registration=registration))
    return ablations


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
    """The ablation of one task, by default in a folder after task and algorithm. See `reference_policy` for
    `reference`. An ablation without a `registration` gets the hash of its settings, arms, seeds and contrasts.

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
    if registration is not None:
        return ablation
    registered = registration_of({"declaration": _declaration(ablation), "seeds": seeds, "random": random})
    return replace(ablation, registration=registered)


def reference_policy(text: str, base: RunConfig) -> TeamPolicy:
    """The policies of a run or a file as opponents. Raises `UserError` if they cannot play the task."""
    path = Path(text) if Path(text).is_file() else RUNS.find(text).path
    try:
        crossplay.sides(base.task)
    except ValueError as error:
        raise UserError(f"--reference: {error}") from error
    reference = load_policy(path)
    if not same_task(reference.task, base.task):
        raise UserError(f"--reference: {text} was trained on another task ({reference.task.name}, or other options)")
    return reference


def demand(ablations: Sequence[Ablation], workers: int) -> WorkerDemand:
    """Return the demand of ablations on a cluster: a worker for each parallel run."""
    runs = [configuration(arm, ablation.base) for ablation in ablations for arm in ablation.arms]
    return WorkerDemand(runs, workers)


def ablate(
    ablations: Sequence[Ablation], workers: int, stopping: Signals, view: AblationView, listen: Listen
) -> list[AblationResult]:
    """Train the missing runs of each ablation, `workers` runs at once, and write the comparison into its folder. A stop
    leaves out the ablations after it. `listen` lets workers dial in.

    Raises `UserError` for a folder that holds something else and for learners on GPUs elsewhere, and `StorageFault`.
    """
    results = list[AblationResult]()
    with listen(demand(ablations, workers)) as listener:
        for ablation in ablations:
            if not stopping.received:
                results.append(_ablate(ablation, workers, stopping, view, listener))
    return results


def _ablate(
    ablation: Ablation, workers: int, stopping: Signals, view: AblationView, listener: WorkerListener | None
) -> AblationResult:
    if listener is not None:
        refuse_gpu_elsewhere(ablation.base.algorithm.device)
    _open(ablation.folder)
    with RunFolder(ablation.folder).driving():
        campaign = AblationCampaign(ablation, _declare(ablation))
        view.start(campaign)
        drive_separately(campaign, stopping, workers, view, listener)
        result = _result(campaign, stopping)
    if result.comparison is not None:
        view.show_comparison(result)
    return result


def write_suite(
    ablations: Sequence[Ablation], results: Sequence[AblationResult], share: float = suite_costs.SHARE
) -> str:
    """Write the table over all tasks and its picture next to the folders of the tasks. Return the table. The target of
    a task lies this `share` of the way from random play to the best static arm."""
    root, costs = ablations[0].folder.parent, list[TaskCosts]()
    for ablation, result in zip(ablations, results, strict=True):
        assert ablation.random is not None
        details = (ablation.random, _roles(ablation.base), share, result.failures)
        costs.append(suite_costs.costs(ablation.folder.name, ablation.arms, result.runs, *details))
    arms = list({arm.name: arm for ablation in ablations for arm in ablation.arms}.values())
    pictures = draw_if_possible(partial(suite_picture.draw, costs, arms, root, root.name))
    text = suite_table.markdown(root.name, costs, arms, pictures, share, ablations[0].registration)
    RunFolder(root).write("table.md", text.encode())
    RunFolder(root).write("table.json", to_json_file(costs))
    return text


def _roles(base: RunConfig) -> tuple[int, ...] | None:
    try:
        return roles_of(base.task)
    except (ValueError, MissingExtra):
        return None


def _open(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    foreign = [path.name for path in folder.iterdir() if not path.name.startswith(".") and path.name != ERRORS]
    if foreign and not (folder / declaration.FILE).exists():
        raise UserError(f"{folder} holds {foreign[0]} and is not the folder of an ablation; choose another `out`")


def _declaration(ablation: Ablation) -> Declaration:
    # Through JSON, so that tuples become lists as when it is read back.
    document = renamed(from_json(to_json(ablation.base), dict[str, Any]), STORED)
    del document["seed"]
    arms = {arm.name: {STORED.get(key, key): value for key, value in settings(arm).items()} for arm in ablation.arms}
    return Declaration(settings=document, arms=arms, headlines=tuple(ablation.headlines))


def _declare(ablation: Ablation) -> Declaration:
    declaration_of_both = declaration.merge(ablation.folder, declaration.read(ablation.folder), _declaration(ablation))
    declaration.write(ablation.folder, declaration_of_both)
    RunFolder(ablation.folder).write(BASE, toml_dump.document(ablation.base).encode(), durable=True)
    return declaration_of_both


def _result(campaign: AblationCampaign, stopping: Signals) -> AblationResult:
    """Writes tables and pictures of the finished runs, except after a stop or if the baseline has none."""
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
