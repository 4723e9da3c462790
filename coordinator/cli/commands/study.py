"""marless study: many runs over settings and seeds, all at once on one pool of workers."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

import msgspec

from coordinator.backends.base import FUNCTION_MODULES
from coordinator.cli import arguments as common
from coordinator.cli.console import report_ending
from coordinator.errors import FINISHED, UNFINISHED, Ending, UserError
from coordinator.reports.text import money
from coordinator.runs.folder import RunFolder, require_name
from coordinator.runs.signals import Signals
from coordinator.studies import decisions
from coordinator.studies.owners import jain, served_shares
from coordinator.studies.seeds import seeds_of
from coordinator.studies.side_by_side import SideBySide
from coordinator.studies.study import FILE, Study
from coordinator.studies.study_file import StudyFile, load, require_same
from coordinator.views.study import choose_study_view, summary
from infra.local.dispatch import Capacity
from infra.local.own_process import cores
from infra.local.pool import Pool

ROOT = Path("studies")

EXAMPLES = """examples:
  marless study lr.toml                      all runs of the file at once, in studies/lr
  marless study lr                           goes on with it
  marless study lr.toml --slots 16 --owner anna

lr.toml, three settings with ten seeds each:
  seeds = "1-10"
  base.stop.rounds = 200
  vary.algorithm.lr = [3e-4, 1e-3, 3e-3]
  halving.rungs = [40]

The same command resumes an interrupted study. docs/how-to/study.md explains all tables of the file."""


def arguments(parser: ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("study", metavar="FILE.toml | NAME", help="the study's file, or a study that was begun")
    parser.add_argument("--slots", type=common.count, metavar="N", help="worker processes (default: pool.slots)")
    parser.add_argument("--owner", metavar="NAME", help="whose runs they are (default: owner in the file)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="output folder (default: studies/NAME)")
    common.json(parser)


def run(options: Namespace) -> int:
    """Trains all runs; the exit code says whether all ended as they should."""
    folder, file = _wanted(options)
    folder.mkdir(parents=True, exist_ok=True)
    options.folder = folder
    with Signals() as signals, RunFolder(folder).driving():
        study = _study(folder, file)
        view = choose_study_view(options.json)
        with _pool(study.file, folder) as pool:
            runner = SideBySide(
                study,
                pool,
                signals,
                study.file.pool.runs,
                on_change=lambda run: view.changed(study, run),
                on_halved=lambda decision: view.halved(study, decision),
                on_look=lambda: view.look(study),
            )
            try:
                view.started(study)
                runner.drive()
            finally:
                view.close()
        return _report(options, study, pool, signals)


def _wanted(options: Namespace) -> tuple[Path, StudyFile | None]:
    """The study's folder, and its file unless the study itself is named; raises `UserError`."""
    path = Path(options.study)
    if path.suffix != ".toml":
        found = next((one for one in (ROOT / path, path) if (one / FILE).is_file()), None)
        if found is None:
            raise UserError(f"there is no study {options.study}; give its file, such as {options.study}.toml")
        return found, None
    file = load(path)
    require_name(path.stem, "the name of the file")
    slots, owner = options.slots or file.pool.slots, options.owner or file.owner
    pool = msgspec.structs.replace(file.pool, slots=slots)
    return options.out or ROOT / path.stem, msgspec.structs.replace(file, pool=pool, owner=owner)


def _study(folder: Path, file: StudyFile | None) -> Study:
    """The study in the folder, begun if it is new; raises `UserError` when the folder holds another one."""
    path = folder / FILE
    if path.is_file():
        try:
            began = msgspec.json.decode(path.read_bytes(), type=StudyFile)
        except (OSError, msgspec.MsgspecError) as error:
            raise UserError(f"{path} cannot be read: {error}") from error
        file = require_same(began, file, folder) if file else began
    assert file is not None
    study = Study(folder, file, seeds_of(file.seeds), decisions.read(folder))
    study.begin()
    study.save()
    return study


def _pool(file: StudyFile, folder: Path) -> Pool:
    size = file.pool
    capacity = Capacity(size.slots or cores(), size.cores or cores())
    return Pool(capacity, FUNCTION_MODULES, folder / "workers", memory_mb=size.memory_mb or 0.0)


def _report(options: Namespace, study: Study, pool: Pool, signals: Signals) -> int:
    """Says what came out, and the exit code."""
    runs = list(study.runs)
    owners = {run.name: run.owner for run in runs}
    served = served_shares(pool.busy_s, owners, {name: study.owner(name).weight for name in owners.values()})
    fairness, spent, busy = jain(served.values()), sum(run.dollars for run in runs), pool.busy_share()
    if options.json:
        told = {"event": "finished", "folder": str(study.folder), "dollars": spent, "fairness": fairness, "busy": busy}
        print(msgspec.json.encode(told).decode(), flush=True)
    else:
        print(f"{summary(runs)}   {money(spent)}")
        if len(served) > 1:
            print(f"fairness among owners, by weight: {fairness:.2f} (Jain's index; 1 is best)")
        print(f"the pool's slots were busy {busy:.0%} of the time")
        print(f"compare the runs: marless compare {study.folder}")
    if signals.received:
        return report_ending(Ending(signals.code, f"stopped; go on with: marless study {study.folder}"))
    if left := [run for run in runs if run.status not in ("finished", "stopped")]:
        line = f"{len(left)} of {len(runs)} runs did not finish, the first: {left[0].name}: {left[0].reason}"
        return report_ending(Ending(UNFINISHED, line))
    return report_ending(Ending(FINISHED, ""))
