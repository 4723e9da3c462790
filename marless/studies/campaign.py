"""A campaign: runs over settings and seeds in one folder, which continues after an interruption. Studies, ablations and
the benchmarks' campaigns are campaigns. `SideBySide` drives them."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path

from marless.coordinator.governor.shared_budget import Purse
from marless.studies.cells import Cell
from marless.studies.decisions import Halved
from marless.studies.study_file import Owner
from marless.studies.study_run import StudyRun


class Campaign(ABC):
    """Gives runs, which train in ``folder/runs``. A subclass defines the common parts of its runs. By default they have
    one owner, unlimited dollars, and no comparisons before their end."""

    folder: Path

    @abstractmethod
    def ask(self) -> list[StudyRun]:
        """Return more runs, if there are any for now. Asked again whenever a run has ended."""

    @property
    def runs(self) -> Iterable[StudyRun]:
        """The runs that were asked for before. The pool writes their service times to them."""
        return ()

    def owner(self, name: str) -> Owner:
        """Weight and cap of an owner."""
        return Owner()

    def purses(self) -> tuple[Purse, dict[str, Purse]]:
        """The dollars of all runs, and of each owner's."""
        return Purse(None, 0), {}

    def pause_at(self, run: StudyRun) -> int | None:
        """Return the round after which the run waits for a decision, or None if it continues to its end."""
        return None

    def halve(self) -> list[Halved]:
        """Decides about the runs that wait."""
        return []

    def run_ended(self, run: StudyRun) -> None:
        """A run has ended, or waits for a decision."""
        return

    def save(self) -> None:
        """Save the decisions that must survive a kill. Raises `StorageFault`."""
        return


class CellCampaign(Campaign):
    """The runs of `cells` in their order, each as soon as the cells that it waits for are over."""

    def __init__(self, folder: Path, cells: Sequence[Cell]) -> None:
        self.folder, self.cells = folder, cells
        self._waiting = self.missing

    @property
    def missing(self) -> list[Cell]:
        """The cells that are not over, in their order."""
        return [cell for cell in self.cells if not self.is_over(cell)]

    def ask(self) -> list[StudyRun]:
        """The run of the next cell that waits for no other."""
        while cell := next((cell for cell in self._waiting if all(map(self.is_over, self.waits_for(cell)))), None):
            self._waiting.remove(cell)
            if run := self.begin(cell):
                return [run]
        return []

    @abstractmethod
    def is_over(self, cell: Cell) -> bool:
        """Return whether the cell has a result, or has failed."""

    @abstractmethod
    def begin(self, cell: Cell) -> StudyRun | None:
        """Return the cell's run, or None if it needs no training."""

    def waits_for(self, cell: Cell) -> Iterable[Cell]:
        """The cells that are over before this one begins."""
        return ()

    def cell(self, run: StudyRun) -> Cell:
        """The cell of a run."""
        return next(cell for cell in self.cells if cell.run == run.name)


class CampaignView:
    """Shows a campaign while its runs train. This base class shows nothing."""

    def start(self, campaign: Campaign) -> None:
        """The runs begin."""

    def show_run(self, campaign: Campaign, run: StudyRun) -> None:
        """A run ended, or pauses until its setting is compared with the others."""

    def show_halving(self, decision: Halved) -> None:
        """Settings were compared."""

    def show_log_failure(self, run: StudyRun, logger: str, problem: str) -> None:
        """A logger failed, for the first time in this command and for this run."""
        self.tell(f"{run.name} has no log in {logger} any more, other runs may follow: {problem}; training goes on")

    def remark(self, run: StudyRun, text: str) -> None:
        """Tasks of the run did something to their processes, for the first time in this command."""
        self.tell(f"{run.name}: {text}")

    def tell(self, text: str) -> None:
        """Workers of other machines have come or gone, or were refused."""

    def look(self, campaign: Campaign) -> None:
        """Called often, so it must be cheap."""

    def close(self) -> None:
        """Restore the terminal. Repeated calls are allowed."""
