"""A session: one command drives a run, from its first decision to its files and its exit code."""

import time

from marless.backends.base import Connection
from marless.coordinator.config.defaults import unused_schedule
from marless.coordinator.config.schema import RunConfig
from marless.coordinator.core import budget
from marless.coordinator.core.decide import decide
from marless.coordinator.core.events import Stopped
from marless.coordinator.core.round_graph import PHASES
from marless.coordinator.core.state import State
from marless.coordinator.drive.driver import PATIENCE_S, Driver
from marless.coordinator.drive.ledger_items import load_state
from marless.coordinator.drive.ports import Ports
from marless.coordinator.errors import FINISHED, UNFINISHED, USER_ERROR, Ending
from marless.coordinator.file_reading import read_json
from marless.functions import keys
from marless.functions.errors import NoSuchObject, StorageFault
from marless.functions.messages.exchange import FailureKind
from marless.program import program_name
from marless.reports.attempts import AttemptLog
from marless.reports.journal import JsonLines, read
from marless.reports.lost_attempts import RetryLines
from marless.reports.plateau import PlateauMonitor
from marless.reports.text import event, next_step_hint
from marless.runs import summary
from marless.runs.folder import ATTEMPTS, CALLBACKS, METRICS, Identity, RunFolder
from marless.runs.instrumented_invoker import InstrumentedInvoker
from marless.runs.integrity.file_hashes import hashes_of
from marless.runs.integrity.ledger_loss import behind
from marless.runs.lease_renewal import renew_lease
from marless.runs.run_files import Documents
from marless.runs.run_log import RunLog
from marless.runs.stored_run import plan_of
from marless.runs.summary import Measured
from marless.runs.view import View
from marless.signals import Signals

# Failures that the user has to correct: an impossible task, a missing package, a full disk.
_USER_FAULTS: tuple[FailureKind, ...] = ("request", "missing_extra", "storage")

# Failures from the configuration. A run that fails with one before it sampled is removed.
_CONFIG_FAULTS: tuple[FailureKind, ...] = ("request", "missing_extra")
# How often the view hears of reports.
NOTICE_S = 0.1


class Session:
    """Drives a run until it ends or a signal comes. `start_time` is the monotonic clock when the command began.

    `alone`: a step may wait for a report, and the run's end for its picture and its log. Otherwise other runs continue
    meanwhile, and their driver ends the log.
    """

    def __init__(
        self,
        folder: RunFolder,
        config: RunConfig,
        identity: Identity,
        backend: Connection,
        view: View,
        signals: Signals,
        start_time: float,
        alone: bool = True,
    ) -> None:
        plan = plan_of(identity, config, backend)
        self._folder, self._plan, self._view, self._signals, self._started = folder, plan, view, signals, start_time
        self._printed = backend.printed
        self._is_new = load_state(backend.ledger) is None
        self._invoker = InstrumentedInvoker(backend.invoker)
        journal = JsonLines(folder.path / METRICS)
        attempts = AttemptLog(folder.path / ATTEMPTS)
        ports = Ports(backend.storage, backend.ledger, self._invoker, journal, backend.repeated, attempts.record)
        self.driver = Driver(plan, ports, patience_s=PATIENCE_S if alone else 0.0)
        """Its remarks also name the tasks that were tried again."""
        self._hashes = hashes_of(folder, identity, backend.ledger)
        self._documents = Documents(folder, plan, identity, backend.storage, self._hashes, pictures=alone)
        self.log = RunLog(folder, identity, plan.config, view.remark)
        self._earlier = summary.earlier(folder)
        self._plateau_monitor, self._retry_lines = PlateauMonitor(plan, ()), RetryLines()
        # The last notice to the view (round, commit, time of the next), and events that happen once.
        self._reported_round, self._noticed_version, self._due = 0, 0, 0.0
        self._is_latest = self._remarked = False
        self._told = 0
        self._alone = alone

    @property
    def state(self) -> State:
        """The run's present state."""
        return self.driver.state

    @property
    def dollars(self) -> float:
        """The run's bill so far."""
        return float(budget.dollars(self._plan, self.state.meter))

    def refusal(self) -> Ending | None:
        """Return the ending of a new run if its cap is too low to begin."""
        if not self._is_new or not isinstance(decide(self._plan, State()), Stopped):
            return None
        cap = self._plan.config.stop.dollars
        too_low = f"stop.dollars = {cap:g} is less than a first attempt may cost; raise it"
        return Ending(USER_ERROR, too_low, keeps_folder=False)

    def begin(self) -> None:
        """Starts the run, or resumes it from its ledger. Raises `StorageFault` and `Unresumable`. The run can be
        resumed after both."""
        if self._is_new and self._alone and (line := unused_schedule(self._plan.config)):
            self._view.remark(line)
        self.driver.begin()
        done = self.state.round
        if self._hashes is not None:
            self._hashes.rewind(done)
        if (path := self._folder.path / CALLBACKS).is_file():
            self._view.remark(f"callbacks so far: {', '.join(read_json(path, list[str]))}")
        if loss := behind(self._folder, self.state):
            self._view.remark(
                f"{loss}; what followed round {done} is trained again, and what it cost is not in the bill"
            )
        lines = [line for line in read(self._folder.path / METRICS) if line.round <= done]
        self._plateau_monitor = PlateauMonitor(self._plan, lines)
        self.log.begin()
        self.log.add(lines, self._agents)
        self._reported_round, self._noticed_version, self._due = done, self.driver.version, 0.0

    def step(self, pause_at: int | None = None) -> bool:
        """Take one decision and show its result. False if the run has ended, or paused after the round `pause_at`.
        Raises the errors of `begin`."""
        going = self.driver.step(not self._signals.received, pause_at)
        # While reports arrive one by one, each look would copy the slots of all tasks.
        if going and self.driver.version == self._noticed_version and time.monotonic() < self._due:
            return True
        self._noticed_version, self._due = self.driver.version, time.monotonic() + NOTICE_S
        if going:
            self._notice()
        return going

    def _notice(self) -> None:
        state = self.state
        if state.round != self._reported_round:
            self._reported_round = state.round
            self._finished_round()
        if not self._is_latest and (state.round or (state.phase == "round" and state.round_refs)):
            self._folder.become_latest()
            self._is_latest = True
        if self._signals.received and not self._remarked:
            self._remarked = True
            self._view.remark("stopping after the tasks in flight; press again to stop at once")
        self.driver.remarks.update(dict.fromkeys(self._retry_lines.lines(self._plan, state)))
        self._tell_remarks()
        self._view.notice(self._plan, state, time.monotonic() - self._started)

    def _tell_remarks(self) -> None:
        for remark in list(self.driver.remarks)[self._told :]:
            self._view.remark(remark)
        self._told = len(self.driver.remarks)

    def _agents(self) -> tuple[str, ...]:
        return self.state.env_spec.agents

    def _finished_round(self) -> None:
        self.log.add(self.state.lines, self._agents)
        for line in self.state.lines:
            self._plateau_monitor.add(line)
            self._view.round(self._plan, line)
            if line.event:
                self._view.remark(event(line))
        if any(line.evaluation is not None for line in self.state.lines):
            self._warn_of_plateau()
            self._documents.interim(self.state, self._measure(), self._plateau_monitor.plateau)

    def _warn_of_plateau(self) -> None:
        if warning := self._plateau_monitor.look(self.state.final):
            self._view.remark(f"round {self.state.round:5d}  {warning}")

    def end(self) -> Ending:
        """Writes the run's files and says how it ended."""
        state = self.state
        self._tell_remarks()
        if self._never_began():
            problems = [slot.problem for slot in state.slots.values() if slot.problem]
            return Ending(USER_ERROR, problems[0] if problems else state.reason, keeps_folder=False)
        self._folder.become_latest()
        status = "interrupted" if state.status == "running" else state.status
        figures = self._documents.complete(state, self._measure(), status)
        self._warn_of_plateau()  # no line holds the last evaluation
        self.log.finish(figures, wait=self._alone)
        self._view.finish(self._plan, figures, self._folder.name, str(self._folder.path))
        go_on = next_step_hint(state, f"{program_name()} resume {self._folder.argument}")
        match state.status:
            case "finished":
                return Ending(FINISHED, "", keeps_folder=True)
            case "running":
                return Ending(self._signals.code, f"stopped after round {state.round}; {go_on}", keeps_folder=True)
            case _:
                code = USER_ERROR if self._user_is_to_blame() else UNFINISHED
                to_fix = self._code_to_fix()
                why = f"{state.status} after round {state.round}: {state.reason}{to_fix}"
                return Ending(code, f"{why}; {go_on}{' --changed-code' * bool(to_fix)}", keeps_folder=True)

    def close(self) -> None:
        """End the background work of the run. Necessary after a call that raised, and harmless after `end`."""
        self.log.close()

    def _user_is_to_blame(self) -> bool:
        # A run that fails before there are networks has a task that is configured wrongly.
        in_setup = self.state.status == "failed" and PHASES[self.state.phase].sets_up
        return in_setup or any(kind in _USER_FAULTS for kind in self._not_retryable())

    def _never_began(self) -> bool:
        state = self.state
        early = PHASES[state.phase].sets_up or (state.round == 0 and state.phase == "round")
        unpaid = early and not any(slot.done for slot in state.slots.values())
        return state.refused or (unpaid and any(kind in _CONFIG_FAULTS for kind in self._not_retryable()))

    def _code_to_fix(self) -> str:
        failed_tasks = (work for work, slot in self.state.slots.items() if slot.problem)
        kinds = (self._invoker.kinds.get(keys.task_id(self._plan.run, self.state.round, work)) for work in failed_tasks)
        return (
            f" (fix the environment; its traceback: {self._printed})"
            if self._printed and "environment" in kinds
            else ""
        )

    def _not_retryable(self) -> list[FailureKind | None]:
        state = self.state
        return [
            self._invoker.kinds.get(keys.task_id(self._plan.run, state.round, work))
            for work, slot in state.slots.items()
            if slot.not_retryable and state.status == "failed"
        ]

    def _measure(self) -> Measured:
        earlier, since = self._earlier, self._invoker.sampling_since
        start_up = None if since is None else round(since - self._started, 3)
        peaks = [summary.peaks(earlier), self._invoker.peak_mb]
        return Measured(
            wall_seconds=time.monotonic() - self._started + (earlier.wall_seconds if earlier else 0.0),
            start_up_seconds=earlier.start_up_seconds if earlier and earlier.start_up_seconds else start_up,
            peak_mb={name: max(peak.get(name, 0.0) for peak in peaks) for name in peaks[0] | peaks[1]},
        )


def _look_at_workers(session: Session, config: RunConfig, backend: Connection, view: View) -> None:
    """Use all available workers if their number changes, and show news about them."""
    if backend.width is not None:
        session.driver.allow(backend.width(), config.stop.dollars)
    for line in backend.news():
        view.remark(line)


def launch(
    folder: RunFolder,
    config: RunConfig,
    identity: Identity,
    backend: Connection,
    view: View,
    signals: Signals,
    start_time: float,
) -> Ending:
    """Drive the run. A full disk ends it resumably. `start_time` is the monotonic clock when the command began."""
    session = Session(folder, config, identity, backend, view, signals, start_time)
    if refusal := session.refusal():
        return refusal
    try:
        with renew_lease(identity, config, backend) as renew:
            view.start(folder.name, str(folder.path))
            session.begin()
            while session.step():
                renew()
                _look_at_workers(session, config, backend, view)
                if signals.received:
                    backend.withdraw()
            return session.end()
    except (StorageFault, NoSuchObject, OSError) as fault:
        if not folder.begun:
            return Ending(USER_ERROR, f"{folder.path} was removed while the run trained; nothing can go on with it")
        if isinstance(fault, OSError):
            raise
        until = (
            "restore it from a copy, or go back to the last checkpoint"
            if isinstance(fault, NoSuchObject)
            else "then go on"
        )
        return Ending(USER_ERROR, f"{fault}; {until} with: {program_name()} resume {folder.argument}")
    finally:
        session.close()
        view.close()
