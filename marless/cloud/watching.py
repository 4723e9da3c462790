"""Follows a run in the cloud until it ends, then downloads its files and policies."""

import time
from collections.abc import Sequence

from msgspec.structs import replace

from marless.backends import registry
from marless.backends.base import Connection
from marless.coordinator.core.state import Plan, RoundLine, State
from marless.coordinator.drive import lease
from marless.coordinator.drive.ledger_items import LedgerJournal, load_state
from marless.coordinator.errors import FINISHED, UNFINISHED, USER_ERROR, Ending
from marless.infra.local.own_process import has_ended
from marless.program import program_name
from marless.reports.journal import JsonLines
from marless.reports.lost_attempts import RetryLines
from marless.reports.plateau import PlateauMonitor
from marless.reports.text import event, next_step_hint
from marless.runs.folder import METRICS, Identity, RunFolder
from marless.runs.run_files import Documents
from marless.runs.run_log import RunLog
from marless.runs.stored_run import plan_of
from marless.runs.summary import measured_before
from marless.runs.view import View
from marless.signals import Signals

# Every poll costs a read or two of the ledger: a twentieth of a cent an hour.
_POLL_S = 2.0


class Watch:
    """Follows a run that another process or the cloud drives."""

    def __init__(
        self,
        folder: RunFolder,
        identity: Identity,
        backend: Connection,
        view: View,
        signals: Signals,
        start_time: float,
    ) -> None:
        self._folder, self._identity, self._backend = folder, identity, backend
        self._view, self._signals, self._started = view, signals, start_time
        deployment_ref = identity.deployment_ref
        assert deployment_ref is not None
        self._plan: Plan = plan_of(identity, folder.config(), backend)
        self._journal = JsonLines(folder.path / METRICS)
        there = registry.remote(identity.backend).deployed(folder.path, deployment_ref)
        self._lines = LedgerJournal(there.outside(identity.run).ledger)
        self._plateau_monitor, self._retry_lines = PlateauMonitor(self._plan, ()), RetryLines()
        self._last_round = 0
        self._log = RunLog(folder, identity, self._plan.config, view.remark)

    def follow(self) -> Ending:
        """Polls until the run ends, has no driver any more, or a signal arrives."""
        self._view.start(self._folder.name, str(self._folder.path))
        self._log.begin()
        while True:
            # The lease first: a driver commits before it releases the lease.
            lease_, _ = lease.read(self._backend.ledger)
            state = load_state(self._backend.ledger) or State()
            self._show(state)
            if not lease_.is_taken("", self._backend.ledger.now(), has_ended):
                return self._finish(state, lease_.problem)
            if self._signals.received:
                follow = f"{program_name()} status --follow {self._folder.argument}"
                self._log.close()
                return Ending(FINISHED, f"{self._folder.name} is still running; follow it with: {follow}")
            time.sleep(_POLL_S)

    def _show(self, state: State) -> None:
        if state.round > self._last_round:
            for line in self._lines.lines_after(self._last_round):
                self._journal.record(line)
                self._show_round(line)
                self._log.add([line], lambda: state.env_spec.agents)
        for text in self._retry_lines.lines(self._plan, state):
            self._view.remark(text)
        self._view.notice(self._plan, state, time.monotonic() - self._started)

    def _show_round(self, line: RoundLine) -> None:
        self._last_round = line.round
        self._plateau_monitor.add(line)
        self._view.round(self._plan, line)
        if line.event:
            self._view.remark(event(line))
        if line.evaluation is not None:
            self._check_plateau()

    def _check_plateau(self, final: Sequence[float] = ()) -> None:
        if warning := self._plateau_monitor.look(final):
            self._view.remark(f"round {self._last_round:5d}  {warning}")

    def _finish(self, state: State, problem: str) -> Ending:
        before = measured_before(self._folder, state.seconds)
        measurements = replace(before, peak_mb=before.peak_mb | state.peaks)
        self._folder.become_latest()
        status = "interrupted" if state.status == "running" else state.status
        documents = Documents(self._folder, self._plan, self._identity, self._backend.storage)
        results = documents.complete(state, measurements, status)
        self._check_plateau(state.final)  # the last evaluation is in no round line
        self._log.finish(results)
        self._view.finish(self._plan, results, self._folder.name, str(self._folder.path))
        if state.status == "finished":
            return Ending(FINISHED, "")
        if state.refused:
            return Ending(USER_ERROR, f"nothing was trained: {state.reason}; then train under another name")
        why = f": {problem or state.reason}" if problem or state.reason else ""
        go_on = next_step_hint(state, f"{program_name()} resume --detach {self._folder.argument}")
        return Ending(UNFINISHED, f"{status} after round {state.round}{why}; {go_on}")
