"""One run of a study: an ordinary run in a separate folder, driven step by step with the others."""

import shutil
import time
import traceback
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path

from marless.backends.local import LocalBackend
from marless.coordinator.config.schema import ConfigError
from marless.coordinator.core.state import Plan, RoundLine, State
from marless.coordinator.drive.ledger_items import Unresumable
from marless.coordinator.errors import FINISHED, Ending, UserError, one_line
from marless.coordinator.governor.shared_budget import least
from marless.functions.errors import CorruptObject, NoSuchObject, StorageFault
from marless.functions.text.redaction import redact
from marless.infra.local.lane import Lane
from marless.runs.beginning import begin_run, compare_code, continue_run, with_processors
from marless.runs.folder import ERRORS, IDENTITY, RunFolder
from marless.runs.integrity.code_record import CodeRecord
from marless.runs.run_log import LEAST_PATIENCE_S
from marless.runs.session import Session
from marless.runs.summary import Summary
from marless.runs.train_and_resume import config_and_changes, with_limits
from marless.runs.view import View
from marless.signals import Signals
from marless.studies.study_run import StudyRun

# Errors that a run's files, settings and objects may cause.
_EXPECTED = (UserError, ConfigError, StorageFault, Unresumable, CorruptObject, NoSuchObject)


class _Progress(View):
    def __init__(self, run: StudyRun) -> None:
        self._run = run

    def round(self, plan: Plan, line: RoundLine) -> None:
        self._run.round, self._run.dollars, self._run.seconds = line.round, line.dollars, line.seconds
        if line.evaluation is not None:
            self._run.score = line.evaluation.mean

    def finish(self, plan: Plan, summary: Summary, name: str, folder: str) -> None:
        run = self._run
        run.round, run.dollars, run.seconds = summary.rounds, summary.dollars.total, summary.train_seconds
        if summary.final_return is not None:
            run.score = summary.final_return.mean


class PooledRun:
    """An active run. Any error ends this run alone: `run.status` and `run.reason` say how it ended."""

    def __init__(self, run: StudyRun, root: Path, lane: Lane, backend: LocalBackend, stopping: Signals) -> None:
        self.run, self.lane = run, lane
        self._root, self._backend, self._stopping = root, backend, stopping
        self._folder = RunFolder(root / run.name)
        self._open_files = ExitStack()
        self._session: Session | None = None

    def begin(self, concurrency: int) -> bool:
        """Start or resume the run. Returns False if it is over already."""
        self.run.status = "running"
        try:
            ending = self._begin(concurrency)
        except Exception as error:
            self._fail(error)
            return False
        if ending is not None:
            self.run.status = "finished" if ending.code == FINISHED else "failed"
            self.run.reason = ending.line
            self._tidy(ending)
        return ending is None

    @property
    def ready(self) -> bool:
        """True if a step would not wait."""
        return bool(self.lane.reports) or (self._session is not None and not self._session.driver.listening)

    @property
    def unlogged(self) -> dict[str, str]:
        """The loggers that failed so far, and why."""
        return self._session.log.failed if self._session is not None else {}

    @property
    def remarks(self) -> Collection[str]:
        """Remarks about its tasks' effects on their processes."""
        return self._session.driver.remarks if self._session is not None else ()

    def spent(self) -> float:
        """The run's bill so far."""
        return self.run.dollars if self._session is None else self._session.dollars

    def advance(self, concurrency: int, cap: float | None, pause_at: int | None) -> bool:
        """Step until the run waits for a report. Returns False if it is over or paused after the round `pause_at`."""
        assert self._session is not None
        try:
            self._session.driver.allow(concurrency, least([self.run.config.stop.dollars, cap]))
            while self._session.step(pause_at):
                if not self.ready:
                    return True
            self._end(self._session.end(), self._session.state, pause_at)
        except Exception as error:
            self._fail(error)
        return False

    def end(self) -> None:
        """End its tasks. Loggers continue with their unwritten points."""
        self.lane.close()
        if self._session is not None:
            self._session.log.stop()

    @property
    def written(self) -> bool:
        """True if `close` would not wait for loggers, after `end`."""
        return self._session is None or self._session.log.written

    def close(self, patience_s: float = LEAST_PATIENCE_S) -> None:
        """End its tasks and release its folder. The run can be resumed. Waits for its loggers, for `patience_s`."""
        self.end()
        if self._session is not None:
            self._session.log.close(patience_s)
        self._open_files.close()

    def _begin(self, concurrency: int) -> Ending | None:
        folder, path = self._folder, self._folder.path
        path.mkdir(parents=True, exist_ok=True)
        self._open_files.enter_context(folder.driving())
        resumes = (path / IDENTITY).is_file()
        if not resumes:
            folder.begin()
        connection = self._backend.attach(path, self.lane, concurrency)
        self._open_files.callback(connection.ledger.close)
        shared = CodeRecord(self._root.parent, "")
        if resumes:
            identity = folder.identity()
            old, _ = config_and_changes(folder, identity)
            config = with_limits(old, self.run.limits)
            compare_code(folder, config, connection, shared)
            identity_or_ending = continue_run(folder, identity, old, config, connection)
            if isinstance(identity_or_ending, Ending):
                return Ending(FINISHED, "")
            identity = identity_or_ending
        else:
            config = self.run.config
            compare_code(folder, config, connection, shared)
            identity = begin_run(folder, config, self._backend.name, None, connection.storage, self.run.registration)
        identity = with_processors(folder, identity, config, connection)
        connection.serve(config.resources)
        view, start_time = _Progress(self.run), time.monotonic()
        session = Session(folder, config, identity, connection, view, self._stopping, start_time, alone=False)
        if refusal := session.refusal():
            return refusal
        self._session = session
        self._open_files.callback(session.close)
        session.begin()
        return None

    def _end(self, ending: Ending, state: State, pause_at: int | None) -> None:
        run = self.run
        if ending.code == FINISHED:
            run.status, run.reason = "finished", state.reason
        elif state.status == "running":
            is_paused = pause_at is not None and state.round >= pause_at and not self._stopping.received
            run.status = "paused" if is_paused else "interrupted"
        else:
            run.status, run.reason = "failed", ending.line.partition("; go on with: ")[0]
        run.round, run.dollars = state.round, self.spent()
        self._tidy(ending)

    def _tidy(self, ending: Ending) -> None:
        if not ending.keeps_folder:
            shutil.rmtree(self._folder.path, ignore_errors=True)

    def _fail(self, error: Exception) -> None:
        """End this run, while the others continue. Storage may work again at a resume."""
        self.run.status = "interrupted" if isinstance(error, StorageFault) else "failed"
        self.run.reason = one_line(error)
        if self._session is not None and not self._folder.begun:
            self.run.reason = f"{self._folder.path} was removed while the run trained"
            return
        if not isinstance(error, _EXPECTED):
            self.run.reason = f"internal error: {type(error).__name__}: {one_line(error)}"
            text = redact(traceback.format_exc())
            try:
                (self._folder.path / ERRORS).write_text(text, encoding="utf-8")
            except OSError:
                self.run.reason += "; its traceback could not be written"
