"""What gives runs to `SideBySide`, such as a study or an ablation."""

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from coordinator.governor.purse import Purse
from marless.studies.decisions import Halved
from marless.studies.study import StudyRun
from marless.studies.study_file import Owner


class RunSource(Protocol):
    """Gives runs, which train in ``folder/runs``. One that inherits from it defines what its runs share: without that
    they have one owner, no cap, and nothing to be compared by on the way."""

    folder: Path

    def ask(self) -> list[StudyRun]:
        """More runs; none if there are no more for now. Asked again whenever a run has ended."""
        ...

    @property
    def runs(self) -> Iterable[StudyRun]:
        """Those that were asked for before, and what the pool served them is written to."""
        return ()

    def owner(self, name: str) -> Owner:
        """Weight and cap of an owner."""
        return Owner()

    def purses(self) -> tuple[Purse, dict[str, Purse]]:
        """The dollars of all runs, and of each owner's."""
        return Purse(None, 0), {}

    def pause_at(self, run: StudyRun) -> int | None:
        """The round after which the run waits for a decision; None: it goes on to its end."""
        return None

    def halve(self) -> list[Halved]:
        """Decides about the runs that wait."""
        return []

    def tell(self) -> None:
        """Called when a run has ended."""
        return

    def save(self) -> None:
        """Called after what is to survive a kill; raises `StorageFault`."""
        return
