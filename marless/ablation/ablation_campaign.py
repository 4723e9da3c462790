"""An ablation and its campaign: arms over seeds. Some arms take their number of rollouts from another arm's runs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from marless.ablation.arms import settings
from marless.ablation.declaration import Declaration
from marless.ablation.declaration import write as write_declaration
from marless.comparison.contrasts import Contrast
from marless.comparison.finished_run import FinishedRun, mean_rollouts, read
from marless.coordinator.config.schema import RunConfig
from marless.coordinator.file_reading import UnreadableFile
from marless.reports.crossplay import scores
from marless.reports.policy import TeamPolicy, load_policy
from marless.runs import summary
from marless.runs.folder import RunFolder
from marless.studies.campaign import CellCampaign
from marless.studies.cells import Arm, Cell, list_cells
from marless.studies.study_run import StudyRun

BASE = "base.toml"


@dataclass(frozen=True)
class Ablation:
    """One task's ablation: the first of `arms` is the baseline, `random` the return of random play, and `headlines` the
    contrasts declared before the runs. `reference` has the opponents of each side of competing agents. The runs keep
    the `registration`, the hash of the suite's file or of this ablation."""

    folder: Path
    base: RunConfig
    arms: Sequence[Arm]
    seeds: Sequence[int]
    random: float | None = None
    headlines: Sequence[Contrast] = ()
    reference: TeamPolicy | None = None
    registration: str = ""


class AblationCampaign(CellCampaign):
    """The runs of the missing cells.

    `results` are by arm and seed, in the order of arms, and `failures` say why a cell has none. `declaration` is the
    folder's, with the computed numbers of rollouts.
    """

    def __init__(self, ablation: Ablation, declaration: Declaration) -> None:
        self.ablation, self.declaration = ablation, declaration
        self.results: dict[str, dict[int, FinishedRun]] = {arm.name: {} for arm in ablation.arms}
        self.failures: dict[Cell, str] = {}
        cells = list_cells(ablation.arms, ablation.seeds)
        for cell in cells:
            if summary.has_finished(RunFolder(cell.folder(ablation.folder))):
                self._read(cell)
        super().__init__(ablation.folder, cells)

    @property
    def failures_by_arm(self) -> dict[str, dict[int, str]]:
        """The reasons of failed runs, by arm and seed."""
        by_arm: dict[str, dict[int, str]] = {}
        for cell, why in self.failures.items():
            by_arm.setdefault(cell.arm.name, {})[cell.seed] = why
        return by_arm

    def is_over(self, cell: Cell) -> bool:
        """See `CellCampaign`."""
        return cell in self.failures or cell.seed in self.results[cell.arm.name]

    def waits_for(self, cell: Cell) -> list[Cell]:
        """The runs that determine the arm's number of rollouts, if it is not known."""
        if cell.arm.name in self.declaration.rollouts:
            return []
        return [other for other in self.cells if other.arm.name == cell.arm.rollouts_of]

    def begin(self, cell: Cell) -> StudyRun:
        """The cell's run, which has failed if its number of rollouts is unknown."""
        source = cell.arm.rollouts_of
        rollouts = self._rollouts(cell.arm) if source else None
        if rollouts or not source:
            run = cell.to_train(settings(cell.arm, rollouts), self.folder / BASE)
            return replace(run, registration=self.ablation.registration)
        reason = f"no run of the arm {source} finished, so its number of rollouts is unknown"
        self.failures[cell] = reason
        return StudyRun(cell.run, cell.arm.name, cell.seed, "", self.ablation.base, "failed", reason=reason)

    def run_ended(self, run: StudyRun) -> None:
        """Reads the results of a run that ended."""
        cell = self.cell(run)
        if run.status == "finished":
            self._read(cell)
        elif run.reason:
            self.failures[cell] = run.reason

    def play_sides(self, reference: TeamPolicy) -> None:
        """Adds each side's returns against random play and against the `reference`, on the same start states for runs
        of the same seed."""
        episodes = self.ablation.base.evaluation_sizes(reference.spec.horizon).final
        for cell in self.cells:
            results = self.results[cell.arm.name]
            if cell.seed in results:
                plays = scores(load_policy(cell.folder(self.folder)), reference, episodes, cell.seed)
                results[cell.seed] = msgspec.structs.replace(results[cell.seed], plays=plays)

    def _rollouts(self, arm: Arm) -> int | None:
        sources = list(self.results[arm.rollouts_of].values())
        if arm.name not in self.declaration.rollouts and sources:
            rollouts = {**self.declaration.rollouts, arm.name: mean_rollouts(sources)}
            self.declaration = msgspec.structs.replace(self.declaration, rollouts=rollouts)
            write_declaration(self.folder, self.declaration)
        return self.declaration.rollouts.get(arm.name)

    def _read(self, cell: Cell) -> None:
        try:
            self.results[cell.arm.name][cell.seed] = read(cell.folder(self.ablation.folder), cell.arm.name, cell.seed)
        except UnreadableFile as fault:
            self.failures[cell] = str(fault)
