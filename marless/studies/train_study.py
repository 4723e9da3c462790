"""Training a study on this machine: all its runs at once on one pool of workers."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from marless.backends.base import FUNCTION_MODULES, Listen, WorkerDemand, WorkerListener
from marless.coordinator.errors import UserError
from marless.coordinator.file_reading import read_json
from marless.functions.algorithms.engine import MODULES
from marless.infra.local.available_cores import cores
from marless.infra.local.dispatch import GPUS, Capacity
from marless.infra.local.task_pool import TaskPool
from marless.infra.local.workers import local_workers
from marless.reports import gpus
from marless.reports.digits import figure
from marless.reports.notebook.shown_result import ShownResult
from marless.reports.section import NONE, Section
from marless.reports.text import money
from marless.reports.user_code import captured_source
from marless.reports.user_code.named_objects import require_importable
from marless.reports.user_code.user_modules import find_module
from marless.runs.folder import RunFolder
from marless.runs.inputs.required_packages import refuse_gpu_elsewhere, require_packages
from marless.runs.integrity.seals import is_sealed
from marless.runs.run_store import require_name
from marless.signals import Signals
from marless.studies import decisions
from marless.studies.campaign import CampaignView
from marless.studies.owners import jain, served_shares
from marless.studies.seeds import seeds_of
from marless.studies.side_by_side import SideBySide
from marless.studies.study import FILE, Study
from marless.studies.study_file import StudyFile, load, require_same
from marless.studies.study_run import StudyRun, summary

ROOT = Path("studies")
# Clusters keep account of no smaller part of one.
_LEAST_CORES = 1e-4


@dataclass(frozen=True, repr=False)
class StudyResult(ShownResult):
    """The result of a study: its `runs` with their status, last return (`score`) and bill, and the `dollars` of all.

    `busy` is the share of time in this command that the pool's slots had work. `fairness` is Jain's index among
    `owners`, by weight. `registration` is the hash of the study's file."""

    folder: Path
    runs: Sequence[StudyRun]
    dollars: float
    busy: float
    fairness: float
    owners: int
    registration: str = ""

    @property
    def headline(self) -> str:
        """Return the folder, the states of the runs and the dollars."""
        return f"{self.folder}, {summary(self.runs)}, {money(self.dollars)}"

    @property
    def sections(self) -> list[Section]:
        """Return a table with a row for each setting."""
        header = ("setting", "seeds", "finished", "mean return", "dollars")
        by_setting: dict[str, list[StudyRun]] = {}
        for run in self.runs:
            by_setting.setdefault(run.setting, []).append(run)
        rows = tuple((name, *_setting_cells(runs)) for name, runs in by_setting.items())
        return [Section("Last evaluations, mean over seeds", header, rows)]

    @property
    def records(self) -> list[dict[str, Any]]:
        """Return a row for each run."""
        names = ("name", "setting", "seed", "status", "round", "score", "dollars", "seconds")
        return [{name: getattr(run, name) for name in names} for run in self.runs]

    @property
    def sentences(self) -> list[str]:
        """Return the call that compares the settings."""
        return [f"marless.compare({str(self.folder)!r}) says which settings can be told apart"]


def _setting_cells(runs: Sequence[StudyRun]) -> tuple[str, ...]:
    scores = [run.score for run in runs if run.score is not None]
    score = figure(sum(scores) / len(scores)) if scores else NONE
    finished = sum(run.status == "finished" for run in runs)
    return str(len(runs)), str(finished), score, money(sum(run.dollars for run in runs))


def named_study(name: str, out: Path | None) -> tuple[Path, StudyFile]:
    """Return a study's folder and file, by the path of its file, its folder, or its name under ``studies/``. Raises
    `ConfigError`, and `UserError` if there is none."""
    path = Path(name)
    if path.suffix == ".toml":
        require_name(path.stem, "the name of the file")
        return out or ROOT / path.stem, load(path)
    folder = next((path for path in (ROOT / name, path) if (path / FILE).is_file()), None)
    if folder is None:
        raise UserError(f"there is no study {name}; give its file, such as {name}.toml")
    file = read_json(folder / FILE, StudyFile)
    _use_source(folder, file)
    return folder, file


def _use_source(folder: Path, file: StudyFile) -> None:
    for run in filter(is_sealed, (folder / "runs").glob("*")):
        captured_source.use(run)
    if missing := [name for name in captured_source.modules_of(to_builtins(file)) if find_module(name) is None]:
        raise UserError(
            f"{folder} needs {missing[0]}, source of a notebook that no run of yours there has: repeat the call in"
            " Python"
        )


def with_pool(folder: Path, file: StudyFile, workers: int | None, backend: str | None) -> StudyFile:
    """The study's file with these, as far as there are any. The default back-end is the back-end of the study in the
    folder, if there is one."""
    path = folder / FILE
    begun_at = read_json(path, StudyFile).pool.backend if path.is_file() else None
    backend = backend or file.pool.backend or begun_at
    return replace(file, pool=replace(file.pool, workers=workers or file.pool.workers, backend=backend))


def open_study(folder: Path, file: StudyFile | None) -> Study:
    """Return the study in the folder. A new study begins and needs its file. Writes nothing before `Study.save`. Raises
    `UserError` if the folder holds another study."""
    path = folder / FILE
    if path.is_file():
        before = read_json(path, StudyFile)
        file = require_same(before, file, folder) if file else before
    assert file is not None
    study = Study(folder, file, seeds_of(file.seeds), decisions.read(folder))
    study.begin()
    return study


def demand(study: Study) -> WorkerDemand:
    """Return the demand of a study on a cluster. A worker has its part of the memory, and its part of a core while all
    are active."""
    size, runs = study.file.pool, study.known_configs()
    slots = size.workers or cores()
    part = min(1.0, size.cores / slots) if size.cores else 1.0
    return WorkerDemand(runs, slots, max(_LEAST_CORES, part), (size.memory_mb or 0.0) / slots, study.may_learn)


def _capacity(study: Study) -> Capacity:
    size = study.file.pool
    computes = any(run.config.algorithm.device == "cuda" for run in study.runs)
    others = {GPUS: float(size.gpus or len(gpus.names()))} if computes else {}
    return Capacity(size.workers or cores(), size.cores or cores(), others=others)


def _pool(study: Study) -> TaskPool:
    size, capacity = study.file.pool, _capacity(study)
    # Processes of resources are workers, too: each gets its part of the memory.
    resources = {(name, resource) for run in study.runs for name, resource in run.config.resources.items()}
    all_slots = capacity.slots + sum(resource.slots for _, resource in resources)
    memory_mb = (size.memory_mb or 0.0) / all_slots
    logs, engines = study.folder / "workers", {MODULES[run.config.algorithm.engine] for run in study.runs}
    workers = local_workers(capacity.slots, [*FUNCTION_MODULES.values(), *engines], logs, memory_mb)
    return TaskPool(capacity, FUNCTION_MODULES, logs, workers)


def _dial_in_pool(study: Study, listener: WorkerListener) -> TaskPool:
    for run in study.runs:
        refuse_gpu_elsewhere(run.config.algorithm.device)
    return listener.pool(FUNCTION_MODULES, study.folder / "workers", study.file.pool.workers or inf)


def train_study(folder: Path, file: StudyFile, stopping: Signals, view: CampaignView, listen: Listen) -> StudyResult:
    """Train the study in the folder until all runs are over or `stopping`. `listen` lets workers dial in.

    Raises `StorageFault`, and `UserError` if the folder holds another study or a package is missing.
    """
    require_importable(file, file.pool.backend or "local")
    folder.mkdir(parents=True, exist_ok=True)
    with RunFolder(folder).driving():
        study = open_study(folder, file)
        with listen(demand(study)) as listener:
            return _train(study, stopping, view, listener)


def _train(study: Study, stopping: Signals, view: CampaignView, listener: WorkerListener | None) -> StudyResult:
    for run in study.runs:
        require_packages(run.config)
    with _dial_in_pool(study, listener) if listener else _pool(study) as pool:
        # A study continues on its file's back-end, so the file is saved only after that back-end accepted it.
        study.save()
        driver = SideBySide(study, pool, stopping, study.file.pool.runs, view)
        try:
            view.start(study)
            driver.drive()
        finally:
            view.close()
    runs = list(study.runs)
    owners = {run.name: run.owner for run in runs}
    shares_by_owner = served_shares(pool.busy_s, owners, {name: study.owner(name).weight for name in owners.values()})
    return StudyResult(
        folder=study.folder,
        runs=runs,
        dollars=sum(run.dollars for run in runs),
        busy=pool.scheduler.busy_share(),
        fairness=jain(shares_by_owner.values()),
        owners=len(shares_by_owner),
        registration=study.registration,
    )
