"""Trains the cells of a protocol until each has a record. Records stay, so the same command resumes."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.conformance import measures, record
from benchmarks.conformance.cases import REFERENCE, REFERENCE_SEED, Case, Protocol, missing
from benchmarks.conformance.record import Measured, Record
from marless.backends.base import FUNCTION_MODULES
from marless.comparison.finished_run import read
from marless.coordinator.file_reading import UnreadableFile
from marless.infra.local.separate_pools import SeparatePools
from marless.reports.atomic_files import replace
from marless.reports.policy import FILE as POLICIES
from marless.reports.provenance import code_sha256
from marless.runs.folder import RunFolder
from marless.runs.summary import has_finished
from marless.signals import Signals
from marless.studies.campaign import CampaignView, CellCampaign
from marless.studies.cells import Cell
from marless.studies.side_by_side import SideBySide
from marless.studies.study_run import StudyRun

_MEASURED = msgspec.json.Decoder(tuple[Measured, ...])


@dataclass(frozen=True)
class Folders:
    """Folders of the records and of the runs, which are temporary."""

    results: Path
    work: Path

    def run(self, cell: Cell) -> Path:
        """The cell's run."""
        return cell.folder(self.work)

    def measured(self, cell: Cell) -> Path:
        """The file of the run's measurements so far."""
        return self.work / "measured" / f"{cell.run}.json"

    def reference(self, case: Case) -> Path:
        """The policies that the sides of the case's task play against."""
        return self.work / "references" / f"{case.task}.safetensors"


class ProtocolCampaign(CellCampaign):
    """The cells of `protocol` that `among` picks and that can run here. `on_record` gets every new record.

    Cells without a record are missing, and so is a reference with deleted policies.
    """

    def __init__(
        self, protocol: Protocol, among: Callable[[Case], bool], folders: Folders, on_record: Callable[[Record], None]
    ) -> None:
        self._protocol, self._folders, self._on_record = protocol, folders, on_record
        self._code = code_sha256()
        self._file = record.path(folders.results, protocol.name)
        self._records = record.read(self._file)
        pairs = protocol.cells(lambda case: among(case) and not missing(case))
        self._cases: dict[Cell, Case] = {cell: case for case, cell in pairs}
        super().__init__(folders.work, list(self._cases))

    def run(self, jobs: int, stopping: Signals) -> None:
        """Trains the missing cells, `jobs` at once, until all have records or `stopping`."""
        for name in ("measured", "references"):
            (self._folders.work / name).mkdir(parents=True, exist_ok=True)
        with SeparatePools(FUNCTION_MODULES, self._folders.work / "resources") as pools:
            SideBySide(self, pools, stopping, jobs, CampaignView()).drive()

    def is_over(self, cell: Cell) -> bool:
        """See `CellCampaign`."""
        case, found = self._cases[cell], self._records.get((cell.arm.name, cell.seed))
        if found is None:
            return False
        return case.treatment != REFERENCE or self._folders.reference(case).exists() or found.status == "failed"

    def waits_for(self, cell: Cell) -> list[Cell]:
        """The opponents that the cell is measured against."""
        case = self._cases[cell]
        if case.measure != "sides":
            return []
        return [
            other for other, rival in self._cases.items() if rival.task == case.task and rival.treatment == REFERENCE
        ]

    def begin(self, cell: Cell) -> StudyRun | None:
        """The run of a cell without a record, from where it was measured last."""
        case, run = self._cases[cell], self._folders.run(cell)
        if case.measure == "sides" and not self._folders.reference(case).exists():
            self._fail(cell, "there is no reference to play against")
            return None
        if run.exists() and self._outdated(run):
            # A run of another program version cannot be resumed, and its results may differ.
            shutil.rmtree(run)
            self._folders.measured(cell).unlink(missing_ok=True)
        if self._trained(cell) and self._settled(cell):
            return None
        stop = {"stop.env_steps": self._next(cell)} if case.points else {}
        return cell.to_train({**case.settings, **stop}, None, [f"{key}={value}" for key, value in stop.items()])

    def _next(self, cell: Cell) -> int:
        """The point that the cell is to be measured at next."""
        return self._cases[cell].points[len(self._measured(cell))]

    def _trained(self, cell: Cell) -> bool:
        """Return whether the run has reached its end or next pause. A kill may have prevented its measurement."""
        run, points = self._folders.run(cell), self._cases[cell].points
        if not has_finished(RunFolder(run)):
            return False
        if len(self._measured(cell)) == len(points):
            return True
        return read(run, cell.arm.name, cell.seed).env_steps >= self._next(cell)

    def _settled(self, cell: Cell) -> bool:
        """Measures a run that ended or paused, and records a finished one. False for a run that continues."""
        run, case = self._folders.run(cell), self._cases[cell]
        if len(self._measured(cell)) < len(case.points):
            self._measure(cell)
        found = self._measured(cell)
        if len(found) < len(case.points):
            return False
        self._put(cell, record.finished(self._protocol.name, case, cell, run, found))
        return True

    def _outdated(self, run: Path) -> bool:
        try:
            return bool(msgspec.json.decode((run / "plan.json").read_bytes())["code_sha256"] != self._code)
        except (OSError, msgspec.MsgspecError, KeyError):
            return True

    def run_ended(self, run: StudyRun) -> None:
        """Measures a run that ended or paused, and records it."""
        cell = self.cell(run)
        try:
            if run.status == "finished":
                self._settled(cell)
            elif run.reason:
                self._fail(cell, run.reason)
        except UnreadableFile as fault:
            self._fail(cell, str(fault))
        if not self.is_over(cell):
            # A cell that paused for a measurement continues at once, so that cells end, and are recorded, one by one.
            self._waiting.insert(0, cell)

    def _measured(self, cell: Cell) -> tuple[Measured, ...]:
        try:
            return _MEASURED.decode(self._folders.measured(cell).read_bytes())
        except (OSError, msgspec.MsgspecError):
            return ()

    def _measure(self, cell: Cell) -> None:
        case, run, before = self._cases[cell], self._folders.run(cell), self._measured(cell)
        figures = (
            measures.wins(run, cell.seed, case.num_envs)
            if case.measure == "win"
            else measures.sides(run, self._folders.reference(case), cell.seed)
        )
        found = Measured(env_steps=self._next(cell), figures=figures)
        replace(self._folders.measured(cell), msgspec.json.encode((*before, found)))

    def _fail(self, cell: Cell, why: str) -> None:
        self._put(cell, record.failed(self._protocol.name, self._cases[cell], cell, why))

    def _put(self, cell: Cell, made: Record) -> None:
        """Writes the record. Of the run, keeps only the policies that other cells play against."""
        case, run = self._cases[cell], self._folders.run(cell)
        if case.treatment == REFERENCE and cell.seed == REFERENCE_SEED and made.status == "finished":
            replace(self._folders.reference(case), (run / POLICIES).read_bytes())
        record.put(self._file, made)
        self._records[made.key] = made
        self._on_record(made)
        if made.status == "finished":
            shutil.rmtree(run, ignore_errors=True)
            self._folders.measured(cell).unlink(missing_ok=True)
