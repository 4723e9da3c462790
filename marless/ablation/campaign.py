"""Gives the runs of an ablation's cells until every one has finished or failed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from coordinator.file_reading import UnreadableFile
from marless.ablation import declaration
from marless.ablation.arms import Arm, settings
from marless.ablation.cells import BASE, Cell, list_cells
from marless.ablation.declaration import Declaration
from marless.comparison.finished_run import FinishedRun, has_finished, mean_rollouts, read
from marless.studies.run_source import RunSource
from marless.studies.study import StudyRun


@dataclass(frozen=True)
class CellEnd:
    """The end of a run, or its failure to start; `done` of `total` cells are over, this one included."""

    cell: Cell
    result: FinishedRun | None
    reason: str
    done: int
    total: int

    @property
    def status(self) -> Literal["finished", "failed", "interrupted"]:
        """What became of the run."""
        return "finished" if self.result else "failed" if self.reason else "interrupted"


class Campaign(RunSource):
    """The runs of the missing cells; `on_ended` is called after each.

    `results` are by arm and seed, in the order of arms, and `failures` say why a cell has none.
    """

    def __init__(
        self,
        folder: Path,
        ablation: Declaration,
        arms: Sequence[Arm],
        seeds: Sequence[int],
        on_ended: Callable[[CellEnd], None],
    ) -> None:
        self.folder, self._study, self._on_ended = folder, ablation, on_ended
        self._cells = list_cells(arms, seeds)
        self.results: dict[str, dict[int, FinishedRun]] = {arm.name: {} for arm in arms}
        self.failures: dict[Cell, str] = {}
        for cell in self._cells:
            if has_finished(cell.folder(folder)):
                self._read(cell)
        self._waiting = self.missing

    @property
    def study(self) -> Declaration:
        """The folder's study, with the computed numbers of rollouts."""
        return self._study

    @property
    def missing(self) -> list[Cell]:
        """Cells that are neither finished nor failed, in their order."""
        return [cell for cell in self._cells if not self._is_over(cell)]

    def ask(self) -> list[StudyRun]:
        """The run of the next cell that waits for no other; see `RunSource`."""
        while cell := next(filter(self._ready, self._waiting), None):
            self._waiting.remove(cell)
            rollouts = self._rollouts(cell.arm) if cell.arm.rollouts_of else None
            if rollouts or not cell.arm.rollouts_of:
                return [cell.to_train(settings(cell.arm, rollouts), self.folder / BASE)]
            source = cell.arm.rollouts_of
            self.failures[cell] = f"no run of the arm {source} finished, so its number of rollouts is unknown"
            self._report(cell)
        return []

    def ended(self, run: StudyRun) -> None:
        """Reads the results of a run that ended."""
        cell = next(cell for cell in self._cells if cell.run == run.name)
        if run.status == "finished":
            self._read(cell)
        elif run.reason:
            self.failures[cell] = run.reason
        self._report(cell)

    def _ready(self, cell: Cell) -> bool:
        """Whether the runs that determine the arm's number of rollouts, if any, are over."""
        sources = [other for other in self._cells if other.arm.name == cell.arm.rollouts_of]
        return cell.arm.name in self._study.rollouts or all(map(self._is_over, sources))

    def _rollouts(self, arm: Arm) -> int | None:
        """The constant number of rollouts of an arm; once computed it stays, even when seeds are added."""
        sources = list(self.results[arm.rollouts_of].values())
        if arm.name not in self._study.rollouts and sources:
            rollouts = {**self._study.rollouts, arm.name: mean_rollouts(sources)}
            self._study = msgspec.structs.replace(self._study, rollouts=rollouts)
            declaration.write(self.folder, self._study)
        return self._study.rollouts.get(arm.name)

    def _read(self, cell: Cell) -> None:
        try:
            self.results[cell.arm.name][cell.seed] = read(cell.folder(self.folder), cell.arm.name, cell.seed)
        except UnreadableFile as fault:
            self.failures[cell] = str(fault)

    def _report(self, cell: Cell) -> None:
        result, why = self.results[cell.arm.name].get(cell.seed), self.failures.get(cell, "")
        self._on_ended(CellEnd(cell, result, why, sum(map(self._is_over, self._cells)), len(self._cells)))

    def _is_over(self, cell: Cell) -> bool:
        return cell in self.failures or cell.seed in self.results[cell.arm.name]
