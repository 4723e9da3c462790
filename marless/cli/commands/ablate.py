"""marless ablate: compares sharing, scaling and placement rules over seeds, with runs in parallel on this machine."""

import math
import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from coordinator.config import dump
from coordinator.config.loading import load
from coordinator.config.schema import ConfigError, RunConfig
from coordinator.errors import FINISHED, UNFINISHED, Ending, UserError
from coordinator.placement.rules import PLACEMENTS
from coordinator.rules.scaling import SCALING_RULES
from functions.contract import MissingExtra
from functions.encoding import from_json, to_json, to_json_file
from functions.environments.roles.partition import roles_of
from infra.local.own_process import cores
from infra.local.separate_pools import SeparatePools
from marless.ablation import declaration, report, result_tables, suite, suite_costs, suite_picture, suite_table
from marless.ablation.arms import ARMS, SHARING, Arm, arms_by_name, configuration, cross, refuse_clashes, settings
from marless.ablation.campaign import Campaign, CellEnd
from marless.ablation.cells import BASE
from marless.ablation.declaration import Declaration
from marless.ablation.suite_costs import TaskCosts
from marless.backends.base import FUNCTION_MODULES
from marless.cli import arguments as common
from marless.cli.console import report_ending
from marless.comparison.contrasts import Contrast, contrasts
from marless.comparison.paired import PairedComparison, Runs
from marless.loggers import registry as loggers
from marless.output import note, say, say_json, say_text
from marless.reports import TeamPolicy, crossplay, load_policy
from marless.reports.digits import figure
from marless.reports.evaluations import names
from marless.reports.policy import same_task
from marless.reports.text import money, seconds
from marless.reports.text import table as aligned
from marless.runs.folder import ERRORS, RunFolder
from marless.runs.policies import with_absolute_policies
from marless.signals import Signals
from marless.studies.seeds import seeds_of
from marless.studies.side_by_side import SideBySide
from marless.studies.study import StudyRun
from marless.views.study import unlogged_line

ROOT = Path("ablations")
_AXES = ("sharing", "scaling", "placement")
_DEFAULTS = {"sharing": ["none"], "scaling": ["constant"], "placement": ["split"]}

EXAMPLES = f"""examples:
  marless ablate scaling.rollouts=8 stop.rounds=100 --seeds 1-3
  marless ablate my_run.toml --arms marless-minus,packed,ours --random -79.4
  marless ablate --sharing none,ours --scaling constant,gns --placement split,packed
  marless ablate suite.toml                  several tasks, one after the other, and a table over all

arms (the first one is the baseline):
{chr(10).join(f"  {arm.name:<15}{arm.about}" for arm in ARMS.values())}

The same command resumes a stopped ablation. docs/how-to/ablate.md explains the results."""


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    common.configuration(parser)
    parser.add_argument("--arms", type=_comma_separated, metavar="A,B", help="arms, the baseline first (default: all)")
    parser.add_argument(
        "--sharing", type=_comma_separated, metavar="A,B", help=f"combine rules instead: {', '.join(SHARING)}"
    )
    parser.add_argument("--scaling", type=_comma_separated, metavar="A,B", help=f"... {', '.join(SCALING_RULES)}")
    parser.add_argument("--placement", type=_comma_separated, metavar="A,B", help=f"... {', '.join(PLACEMENTS)}")
    parser.add_argument(
        "--seeds", type=_seeds, metavar="1-10", help="seeds of every arm (default: those of a suite's file, or 1-10)"
    )
    parser.add_argument(
        "--jobs",
        type=common.count,
        default=cores(),
        metavar="N",
        help="parallel runs (default: number of cores, %(default)s here)",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="output folder (default: ablations/TASK-ALGORITHM)")
    parser.add_argument(
        "--random", type=_finite, metavar="RETURN", help="return of random play, to report losses in %% of the gain"
    )
    parser.add_argument(
        "--headline",
        type=_comma_separated,
        default=[],
        metavar="ARM/OTHER:MEASURE,...",
        help="contrasts declared before the runs, whose p-values are corrected together; by return, dollars or reach",
    )
    parser.add_argument(
        "--reference", metavar="RUN", help="run whose policies are the opponents of each side of competing agents"
    )
    common.json(parser)


@dataclass(frozen=True)
class _Ablation:
    """One task's ablation, as it was asked for."""

    folder: Path
    base: RunConfig
    arms: list[Arm]
    seeds: Sequence[int]
    random: float | None
    headlines: list[Contrast]
    reference: TeamPolicy | None = None


def run(options: Namespace) -> int:
    """Runs missing cells and writes the comparison."""
    path, overrides = common.split(options.settings)
    if path is not None and suite.is_suite(path):
        return _run_suite(options, path, overrides)
    base, arms = with_absolute_policies(load(path, overrides)), _arms(options, list(ARMS))
    loggers.require(base.log.to)
    declared = _declared(options, base, arms, overrides)
    folder = options.out or ROOT / _suggestion(base)
    seeds = options.seeds or list(range(1, 11))
    wanted = _Ablation(folder, base, arms, seeds, options.random, declared, _reference(options.reference, base))
    _open(folder)
    options.folder = folder
    with Signals() as signals:
        return report_ending(_compare(options, wanted, signals)[0])


def _run_suite(options: Namespace, path: Path, overrides: list[str]) -> int:
    """Compares the arms on one task after the other, then over all tasks."""
    if options.random is not None or options.reference is not None:
        raise UserError("--random and --reference are for one task; the file of a suite has the return of random play")
    file, root = suite.load(path), options.out or ROOT / path.stem
    tasks: list[tuple[suite.SuiteTask, _Ablation]] = []
    for task in file.tasks:
        base, arms = suite.configuration(file, task, overrides), _arms(options, [*file.arms, *task.arms])
        loggers.require(base.log.to)
        declared = _declared(options, base, arms, overrides)
        seeds = options.seeds or seeds_of(file.seeds)
        tasks.append((task, _Ablation(root / task.name, base, arms, seeds, task.random, declared)))
    options.folder, failed, found = root, Ending(FINISHED, ""), list[TaskCosts]()
    with Signals() as signals:
        for task, wanted in tasks:
            _open(wanted.folder)
            ending, results = _compare(options, wanted, signals)
            if signals.received:
                return report_ending(ending)
            failed = ending if ending.code != FINISHED else failed
            costs = suite_costs.costs(task.name, wanted.arms, results, task.random, _roles(wanted.base))
            found += [costs] if costs else []
        text = _write_suite(root, path.stem, found, [wanted for _, wanted in tasks])
    if not options.json:
        say("")
        say_text(text)
        say(str(root))
    return report_ending(failed)


def _write_suite(root: Path, title: str, found: list[TaskCosts], tasks: list[_Ablation]) -> str:
    """Writes the table over all tasks and its picture; returns the table."""
    arms = list({arm.name: arm for wanted in tasks for arm in wanted.arms}.values())
    try:
        pictures = suite_picture.draw(found, arms, root, title)
    except MissingExtra:
        pictures = []
    text = suite_table.markdown(title, found, arms, pictures)
    RunFolder(root).write("table.md", text.encode())
    RunFolder(root).write("table.json", to_json_file(found))
    return text


def _roles(base: RunConfig) -> tuple[int, ...] | None:
    """The hidden roles of the task's agents; None for a task without any."""
    try:
        return roles_of(base.task)
    except (ValueError, MissingExtra):
        return None


def _declared(options: Namespace, base: RunConfig, arms: list[Arm], overrides: list[str]) -> list[Contrast]:
    """The headlines; raises `ConfigError` for those that cannot be, and for an arm that the settings exclude."""
    refuse_clashes(arms, overrides)
    for arm in arms:
        configuration(arm, base)
    return contrasts(options.headline, [arm.name for arm in arms])


def _compare(options: Namespace, wanted: _Ablation, signals: Signals) -> tuple[Ending, Mapping[str, Runs]]:
    """Runs the missing cells of one task and writes its comparison; the results are by arm and seed."""
    with RunFolder(wanted.folder).driving():
        ablation = _begin(wanted)
        progress = _Progress(options.json, wanted)
        campaign = Campaign(wanted.folder, ablation, wanted.arms, wanted.seeds, progress)
        _announce(options, campaign, wanted)
        pools = SeparatePools(FUNCTION_MODULES)
        notice = _StopNotice(signals)
        SideBySide(
            campaign, pools, signals, options.jobs, campaign.ended, on_look=notice, on_unlogged=_say_unlogged
        ).drive()
        if signals.received:
            line = f"stopped with {len(campaign.missing)} runs to go; the same command resumes"
            return Ending(signals.code, line), campaign.results
        return _report(options, campaign, wanted), campaign.results


def _say_unlogged(run: StudyRun, logger: str, problem: str) -> None:
    note(unlogged_line(run, logger, problem))


class _StopNotice:
    """Announces the stop once when a signal has arrived."""

    def __init__(self, signals: Signals) -> None:
        self._signals, self._announced = signals, False

    def __call__(self) -> None:
        if self._signals.received and not self._announced:
            self._announced = True
            note("stopping the runs after their tasks in flight; press again to stop at once")


class _Progress:
    """Prints a line for every run that ends."""

    def __init__(self, json: bool, wanted: _Ablation) -> None:
        self._json, self._width = json, max(len(arm.name) for arm in wanted.arms)

    def __call__(self, ended: CellEnd) -> None:
        if self._json:
            say_json(_event(ended))
        elif ended.status != "interrupted":
            say(self._line(ended))

    def _line(self, ended: CellEnd) -> str:
        width = len(str(ended.total))
        start = f"{ended.done:>{width}}/{ended.total}  {ended.cell.arm.name:<{self._width}}  seed {ended.cell.seed:<4}"
        if ended.result is None:
            return f"{start}FAILED: {ended.reason}"
        result = ended.result
        returned = f"return {figure(result.final_return):>8}"
        return f"{start}{returned}   {money(result.dollars):>9}   {seconds(result.seconds)}"


def _event(ended: CellEnd) -> dict[str, Any]:
    """The JSON line."""
    known = {"event": "run", "arm": ended.cell.arm.name, "seed": ended.cell.seed, "status": ended.status}
    if ended.result is None:
        return {**known, "reason": ended.reason, "done": ended.done, "total": ended.total}
    result = ended.result
    measured = {"final_return": result.final_return, "dollars": result.dollars, "seconds": result.seconds}
    return {**known, **measured, "done": ended.done, "total": ended.total}


def _arms(options: Namespace, default: list[str]) -> list[Arm]:
    """The named arms, then the combinations; those of `default` when none are given."""
    axes = {name: getattr(options, name) for name in _AXES}
    crossed = cross(**{name: rules or _DEFAULTS[name] for name, rules in axes.items()}) if any(axes.values()) else []
    named = options.arms if options.arms or crossed else default
    arms = [*arms_by_name(named or []), *crossed]
    repeated = next((arm.name for index, arm in enumerate(arms) if arm in arms[:index]), None)
    if repeated:
        raise UserError(f"the arm {repeated} is given twice")
    return arms


def _reference(text: str | None, base: RunConfig) -> TeamPolicy | None:
    """The reference policies; raises `UserError` when they cannot play the task."""
    if text is None:
        return None
    path = Path(text) if Path(text).is_file() else RunFolder.find(text).path
    try:
        crossplay.sides(base.task)
    except ValueError as error:
        raise UserError(f"--reference: {error}") from error
    reference = load_policy(path)
    if not same_task(reference.task, base.task):
        raise UserError(f"--reference: {text} was trained on another task ({reference.task.name}, or other options)")
    return reference


def _open(folder: Path) -> None:
    """Creates the folder; raises `UserError` when it holds something else."""
    folder.mkdir(parents=True, exist_ok=True)
    foreign = [path.name for path in folder.iterdir() if not path.name.startswith(".") and path.name != ERRORS]
    if foreign and not (folder / declaration.FILE).exists():
        raise UserError(f"{folder} holds {foreign[0]} and is not the folder of an ablation; choose another --out")


def _begin(wanted: _Ablation) -> Declaration:
    """Merges the folder's study with the requested one and writes it and the base configuration."""
    # Through JSON, so that tuples become lists as when it is read back.
    document = from_json(to_json(wanted.base), dict[str, Any])
    del document["seed"]
    arms, headlines = {arm.name: settings(arm) for arm in wanted.arms}, tuple(wanted.headlines)
    requested = Declaration(settings=document, arms=arms, headlines=headlines)
    merged = declaration.merge(wanted.folder, declaration.read(wanted.folder), requested)
    declaration.write(wanted.folder, merged)
    RunFolder(wanted.folder).write(BASE, dump.document(wanted.base).encode(), durable=True)
    return merged


def _announce(options: Namespace, campaign: Campaign, wanted: _Ablation) -> None:
    """Prints the number of runs, and warns when scaling rules have no choice."""
    arms, seeds, missing = len(wanted.arms), len(wanted.seeds), len(campaign.missing)
    if not options.json:
        total = arms * seeds
        say(f"arms: {arms}, seeds: {seeds}, runs: {total}, of them finished: {total - missing}")
    scaled = [arm.name for arm in wanted.arms if SCALING_RULES[str(arm.settings["scaling.rule"])].adapts]
    if scaled and wanted.base.scaling.rollouts == 1:
        text = "scaling.rollouts = 1: the scaling rules have nothing to choose from; set a maximum, such as"
        note(f"{text} scaling.rollouts=8")


def _report(options: Namespace, campaign: Campaign, wanted: _Ablation) -> Ending:
    """Writes tables and pictures of the finished runs."""
    folder, base, arms, failed = wanted.folder, wanted.base, wanted.arms, len(campaign.failures)
    if not campaign.results[arms[0].name]:
        return Ending(UNFINISHED, f"no run of the baseline {arms[0].name} finished; see {folder / 'runs'}")
    results: Mapping[str, Runs] = campaign.results
    by_name = {arm.name: arm for arm in arms}
    if wanted.reference is not None:
        results = report.add_plays(folder, by_name, results, partial(_plays, base, wanted.reference))
    comparison, has_pictures = report.write(
        folder, _title(base), campaign.study, by_name, results, campaign.failures, wanted.random
    )
    if not has_pictures:
        note("no pictures without matplotlib: pip install 'marless[report]'")
    _show(options, folder, comparison)
    line = f"{failed} of {len(arms) * len(wanted.seeds)} runs failed; see {folder / 'runs'}"
    return Ending(UNFINISHED, line) if failed else Ending(FINISHED, "")


def _plays(base: RunConfig, reference: TeamPolicy, run: Path, seed: int) -> dict[str, float]:
    """Returns against opponents; runs of the same seed play on the same start states."""
    return crossplay.scores(load_policy(run), reference, base.evaluation.final_episodes, seed)


def _show(options: Namespace, folder: Path, comparison: PairedComparison) -> None:
    if options.json:
        say_json({"event": "finished", "folder": str(folder), "table": comparison})
        return
    main, expense, *others = result_tables.sections(comparison)
    # Sections on the rules and the bill are only in the file.
    for section in (main, expense, *others[2:]):
        say("", section.title)
        say_text(aligned(section.header, section.rows))
        for sentence in section.conclusions:
            say(sentence.replace("**", ""))
    say("", f"read {folder / 'table.md'}; the pictures are beside it", str(folder))


def _title(base: RunConfig) -> str:
    agents = f" with {base.task.agents} agents" if base.task.agents else ""
    return f"{base.task.name}{agents}, {base.algorithm.name}"


def _suggestion(base: RunConfig) -> str:
    """A folder's name such as ``simple_spread-mappo``: the same command finds it again."""
    task = re.sub(r"[^a-z0-9_-]", "_", names(base.task)[1])
    return f"{task}-{base.algorithm.name}"


def _comma_separated(text: str) -> list[str]:
    """Names between commas."""
    entries = [name.strip() for name in text.split(",")]
    if not all(entries):
        raise ArgumentTypeError(f"{text!r} is not a list such as none,ours")
    return entries


def _finite(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ArgumentTypeError(f"{text!r} is not a finite number")
    return value


def _seeds(text: str) -> list[int]:
    try:
        return seeds_of(text)
    except ConfigError as error:
        raise ArgumentTypeError(str(error)) from error
