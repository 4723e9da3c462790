"""marless study: many runs over settings and seeds, on one pool of workers or in the cloud, or over rules."""

import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from marless.ablation import rules_file
from marless.ablation.ablate import ablate, plans, write_suite
from marless.ablation.rules_file import RulesFile
from marless.backends import registry
from marless.backends.dial_in import DriverOptions
from marless.cli import arguments as common
from marless.cli import dial_in_arguments as dial_in
from marless.cli.console import report_ending
from marless.cli.typed_lines import complain
from marless.coordinator.config.loading import read_toml
from marless.coordinator.config.nested_tables import flatten
from marless.coordinator.drive import study_governor
from marless.coordinator.errors import FINISHED, UNFINISHED, Ending, UserError
from marless.functions.encoding import to_json
from marless.infra.local.available_cores import cores
from marless.output import say, say_json, say_text
from marless.program import program_name
from marless.reports.text import money
from marless.runs.folder import RunFolder
from marless.runs.run_store import require_name
from marless.signals import Signals
from marless.studies import cloud_study
from marless.studies.cloud_study import StudyPlace
from marless.studies.registration import count, remark
from marless.studies.study import FILE, Study
from marless.studies.study_file import StudyFile
from marless.studies.study_run import StudyRun, summary
from marless.studies.train_study import ROOT, StudyResult, named_study, open_study, train_study, with_pool
from marless.views.ablation_views import AblationEvents, AblationLines
from marless.views.study_views import choose_study_view, unlogged_runs

EXAMPLES = """examples:
  marless study lr.toml                      all runs of the file at once, in studies/lr
  marless study lr                           goes on with it
  marless study lr.toml --workers 16 --owner anna
  marless study lr.toml --backend aws        begins all runs in the cloud, which needs this machine no more
  marless study lr                           then shows how far they are, and fetches results
  marless study lr.toml --backend ray        on the nodes of a Ray cluster, driven by this machine
  marless study rules.toml                   compares controller rules, if the file names `rules`

lr.toml, three settings with ten seeds each:
  seeds = "1-10"
  base.stop.rounds = 200
  vary.algorithm.lr = [3e-4, 1e-3, 3e-3]
  halving.rungs = [40]

The same command resumes an interrupted study. docs/how-to/study.md explains all tables of the file."""


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("study", metavar="FILE.toml | NAME", help="the study's file, or a study that was begun")
    parser.add_argument(
        "--workers",
        type=common.count,
        metavar="N",
        help="worker processes, or functions at once (default: pool.workers)",
    )
    parser.add_argument("--owner", metavar="NAME", help="owner of the runs (default: owner in the file)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="output folder (default: studies/NAME)")
    parser.add_argument(
        "--backend",
        choices=[*registry.placed_here(), *registry.remote_names()],
        help="the cluster, or the cloud, where functions run (default: pool.backend, or this machine)",
    )
    common.deployment(parser)
    parser.add_argument("--stop", action="store_true", help="end a study in the cloud (you can resume its runs)")
    common.json(parser)
    dial_in.machines(parser)


def run(options: Namespace) -> int:
    """Train all runs. The exit code says whether all ended well."""
    path = Path(options.study)
    keys = flatten(read_toml(path)) if path.suffix == ".toml" else {}
    if "pool.slots" in keys:
        complain(f"pool.slots of {path} is now pool.workers")
    if not keys.keys().isdisjoint(rules_file.KEYS):
        if options.stop or options.owner or _names_cloud(options):
            raise UserError(f"{path} compares rules, on this machine or on Ray; leave --stop, --owner and clouds away")
        require_name(path.stem, "the name of the file")
        return compare_rules(options, rules_file.load(path), options.out or ROOT / path.stem)
    folder, file = _folder_and_file(options)
    options.folder = folder
    if options.stop:
        return _stop(folder)
    if _names_cloud(options) or cloud_study.place_of(folder):
        if options.machines != DriverOptions() or options.backend in registry.placed_here():
            raise UserError("workers that dial in are for studies on this machine's disk; this one is in the cloud")
        folder.mkdir(parents=True, exist_ok=True)
        with RunFolder(folder).driving():
            return _in_cloud(options, folder, file)
    assert file is not None
    options.backend = file.pool.backend
    with Signals() as signals:
        view = choose_study_view(options.json)
        return _report(options, train_study(folder, file, signals, view, partial(dial_in.serving, options)), signals)


def compare_rules(
    options: Namespace,
    file: RulesFile,
    root: Path | None,
    overrides: Sequence[str] = (),
    registered_file: RulesFile | None = None,
) -> int:
    """Trains the missing runs of every rule and writes the tables, as `ablate.plans` describes."""
    ablations = plans(file, root, options.study, overrides, registered_file)
    options.folder = root or ablations[0].folder
    with Signals() as signals:
        view = AblationEvents(signals) if options.json else AblationLines(signals)
        results = ablate(ablations, options.workers or cores(), signals, view, partial(dial_in.serving, options))
    if file.tasks and not signals.received:
        table = write_suite(ablations, results, file.target)
        if not options.json:
            say("")
            say_text(table)
            say(str(options.folder))
    unfinished_endings = [result.ending for result in results if result.ending.code != FINISHED]
    return report_ending(unfinished_endings[-1] if unfinished_endings else Ending(FINISHED, ""))


def _folder_and_file(options: Namespace) -> tuple[Path, StudyFile | None]:
    """Return the study's folder, and its file. A cloud study that began on another machine has no file here. Raises
    `UserError`."""
    path = Path(options.study)
    try:
        folder, file = named_study(options.study, options.out)
    except UserError:
        if path.suffix == ".toml" or not _names_cloud(options):
            raise
        require_name(path.name, "the study")
        return options.out or ROOT / path.name, None
    backend = options.backend if options.backend in registry.placed_here() else None
    if options.machines.listen and options.backend is None:
        # Workers that dial in are not part of the study's earlier cluster.
        backend = registry.DEFAULT
    file = with_pool(folder, file, options.workers, backend)
    return folder, msgspec.structs.replace(file, owner=options.owner or file.owner)


def _names_cloud(options: Namespace) -> bool:
    return options.backend in registry.remote_names()


def _in_cloud(options: Namespace, folder: Path, file: StudyFile | None) -> int:
    place = cloud_study.place_of(folder)
    if place is None and (folder / FILE).is_file():
        raise UserError(f"{folder} holds a study on this machine; give another folder with --out")
    if file is not None:
        cloud_study.refuse(file)
    if place is None:
        place = _new_place(options, folder, file)
    if (state := cloud_study.fetch(folder, place)) is None:
        return _begin(folder, file, place)
    study = open_study(folder, None)
    study.save()
    if file is not None and to_json(file) != to_json(study.file):
        raise UserError(f"{folder} holds a study in the cloud, which keeps its file; give another folder with --out")
    cloud_study.mark(study, place, state)
    return _show(options, study)


def _stop(folder: Path) -> int:
    if (place := cloud_study.place_of(folder)) is None:
        raise UserError(f"--stop is for studies in the cloud; {folder} is not, so interrupt its command")
    cloud_study.stop(folder, place)
    study_command = f"{program_name()} study {shlex.quote(str(folder))}"
    say(f"asked the cloud to stop {place.name} after the tasks in flight; see {study_command}")
    return FINISHED


def _new_place(options: Namespace, folder: Path, file: StudyFile | None) -> StudyPlace:
    backend = registry.remote(options.backend)
    if file is None:
        from marless.cloud.deployments import locate

        location = locate(backend, folder.name, options.tenant, options.region)
        cloud_study.adopt(folder, location)
    else:
        location = backend.prepare(folder.name, options.tenant, options.region)
        if study_governor.read_plan(location.deployed, folder.name) is not None:
            raise UserError(f"tenant {options.tenant} has a study {folder.name} already; give the file another name")
    return cloud_study.settle(folder, backend, location)


def _begin(folder: Path, file: StudyFile | None, place: StudyPlace) -> int:
    ref, backend = place.deployment_ref, registry.remote(place.backend)
    study = open_study(folder, file)
    study.save()
    plan = cloud_study.begin(study, place, backend.prepare(place.name, ref.tenant, ref.region))
    say(
        f"{folder.name}: {len(plan.owners)} runs begin in the cloud, {plan.width} functions at once; {backend.survives}"
    )
    study_command = f"{program_name()} study {shlex.quote(str(folder))}"
    say(f"  {study_command}     how far they are, and the results of those that have ended")
    return FINISHED


def _show(options: Namespace, study: Study) -> int:
    runs, view = list(study.runs), choose_study_view(options.json)
    try:
        view.start(study)
        for run in runs:
            view.show_run(study, run)
        view.look(study)
    finally:
        view.close()
    if not options.json:
        say(f"{summary(runs)}   {money(sum(run.dollars for run in runs))}")
    return report_ending(_ending(runs, [run for run in runs if run.status in ("failed", "interrupted")]))


def _report(options: Namespace, result: StudyResult, signals: Signals) -> int:
    runs = list(result.runs)
    if options.json:
        totals = {name: getattr(result, name) for name in ("dollars", "fairness", "busy")}
        say_json({"event": "finished", "folder": str(result.folder), **totals})
    else:
        say(f"{summary(runs)}   {money(result.dollars)}")
        if result.owners > 1:
            say(f"fairness among owners, by weight: {result.fairness:.2f} (Jain's index; 1 is best)")
        if registered := remark(count(run.registration for run in runs), result.registration):
            say(registered)
        say(f"the pool's slots were busy {result.busy:.0%} of the time")
        for line in unlogged_runs(result.folder, runs):
            say(line)
        say(f"compare the runs: {program_name()} compare {shlex.quote(str(result.folder))}")
    if signals.received:
        return report_ending(
            Ending(signals.code, f"stopped; go on with: {program_name()} study {shlex.quote(str(result.folder))}")
        )
    return report_ending(_ending(runs, [run for run in runs if run.status not in ("finished", "stopped")]))


def _ending(runs: list[StudyRun], unfinished_runs: list[StudyRun]) -> Ending:
    if not unfinished_runs:
        return Ending(FINISHED, "")
    first = unfinished_runs[0]
    return Ending(
        UNFINISHED,
        f"{len(unfinished_runs)} of {len(runs)} runs did not finish, the first: {first.name}: {first.reason}",
    )
