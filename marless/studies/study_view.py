"""The interface of views of a study, and what they show."""

from typing import Protocol

from marless.studies.decisions import Halved
from marless.studies.study import Study, StudyRun


class StudyView(Protocol):
    """Shows a study while its runs train."""

    def started(self, study: Study) -> None: ...

    def changed(self, study: Study, run: StudyRun) -> None:
        """A run ended, or pauses until its setting is compared with the others."""

    def halved(self, study: Study, decision: Halved) -> None:
        """Settings were compared."""

    def unlogged(self, run: StudyRun, logger: str, problem: str) -> None:
        """A logger failed, for the first time in this command and for this run."""

    def remark(self, run: StudyRun, text: str) -> None:
        """Tasks of the run did something to their processes, for the first time in this command."""

    def look(self, study: Study) -> None:
        """Called often; must be cheap."""

    def close(self) -> None:
        """Restores the terminal; may be called twice."""
