"""The loop that drives a run: load, decide, commit, act, record. It uses the ports, never an adapter."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec

from coordinator.core.apply import apply
from coordinator.core.attempt_record import AttemptRecord
from coordinator.core.budget import item_bytes
from coordinator.core.decide import Abandon, Advance, Dispatch, Finish, Stop, Wait, decide
from coordinator.core.events import (
    Abandoned,
    Advanced,
    Checkpointed,
    Committed,
    CompletionsBilled,
    CoordinatorBilled,
    Dispatched,
    Ended,
    Event,
    Finishing,
    Loaded,
    Lost,
    Persisted,
    Repeated,
    Reported,
    Resumed,
    Stopped,
)
from coordinator.core.round_graph import PHASES
from coordinator.core.rounds import to_checkpoint
from coordinator.core.state import Plan, RoundLine, State, WorkItem
from coordinator.drive.answers import decode_answer
from coordinator.drive.completion_reports import Detached, report_addresses
from coordinator.drive.ledger_items import (
    CHECKPOINT,
    STATE,
    StateEncoder,
    Unresumable,
    decode_state,
    find_damaged,
    round_refs,
)
from coordinator.drive.ports import Invoker, Ledger, Storage
from coordinator.pricing.bill import Meter
from functions import keys
from functions.contract import (
    Done,
    Failed,
    KeyTaken,
    Record,
    Request,
    StaleVersion,
    Usage,
)
from functions.encoding import to_json

# How long to wait for a report before checking whether the user wants to stop.
PATIENCE_S = 0.5
# Keys that storage lists in one request (S3 API reference, "ListObjectsV2").
LISTED = 1000


class Journal(Protocol):
    """Where finished rounds are recorded; `record` is called at least once for every round and must be idempotent."""

    def record(self, line: RoundLine) -> None: ...

    def persist(self) -> None:
        """Returns once the recorded lines would survive a power loss."""


def _discard(records: list[AttemptRecord]) -> None:
    """Keeps no record."""


@dataclass(frozen=True)
class Ports:
    """The outside world of a run. `repeated` returns what requests that were sent again took since its last call;
    `attempts` takes the records of attempts that ended."""

    storage: Storage
    ledger: Ledger
    invoker: Invoker
    journal: Journal
    repeated: Callable[[], Meter] = Meter
    attempts: Callable[[list[AttemptRecord]], None] = _discard


class Driver:
    """Drives one run, one `step` at a time; all that a resume after a kill needs is in the ledger.

    With `detached` no process waits for the functions: they report to completion sets, and another driver continues.
    """

    def __init__(
        self,
        plan: Plan,
        ports: Ports,
        clock: Callable[[], float] = time.monotonic,
        detached: Detached | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._plan, self._ports, self._clock, self._detached = plan, ports, clock, detached
        self._patience_s = patience_s
        self._marked: float | None = None
        self._version, self._committed_at = 0, 0.0
        # The state in the ledger, and the bytes of its item.
        self._committed: State | None = None
        self._item_size = 0
        # Objects that travel inside messages, while the run needs them, and the keys of those that are stored too.
        self._inlined: dict[str, bytes] = {}
        self._stored_keys: set[str] = set()
        # Whether a round has ended that is not committed yet.
        self._round_ended = False
        # What ended and is not applied yet, because each application copies all slots; the attempts in flight by work
        # and number, with the times when they were asked for; and whether one failed since the last decision.
        self._ended: list[Ended] = []
        self._in_flight: dict[tuple[str, int], tuple[WorkItem, float]] = {}
        self._failed = False
        self._state = State()
        self.remarks: dict[str, None] = {}
        """What tasks did to their processes, each once, in the order of its report."""

    @property
    def state(self) -> State:
        """The run with all that was reported so far."""
        if self._ended:
            ended, self._ended = tuple(self._ended), []
            self._apply(Reported(ended))
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        self._state = state

    def begin(self, version: int | None = None) -> None:
        """Resumes the run from the ledger, or starts it; with `version` only if the ledger still has that version.

        Raises `StaleVersion` when another driver goes on with it.
        """
        record = self._ports.ledger.load(STATE)
        if version not in (None, record.version if record else 0):
            raise StaleVersion("another driver continued the run")
        if record is not None:
            self._version, self._item_size, self._committed = (
                record.version,
                len(record.body),
                decode_state(record.body),
            )
            self.state = self._intact(apply(self._plan, self._committed, Resumed()))
        # A run that cannot go on stays as it is, so that repeated resumes cost nothing.
        if record is None or not isinstance(decide(self._plan, self.state), Stop):
            self._apply(_loaded(record))
            if record is None:
                for ref in self._plan.inputs.refs():
                    self._apply(Persisted(Usage(puts=1, bytes_written=ref.size)))
            # Listed before the commit, so that no object of a later driver is among them.
            round_keys = self._ports.storage.list("rounds/")
            if record is None and keys.of_rounds(round_keys):
                # To begin would delete these objects, and forget what they cost.
                raise Unresumable(
                    "the run has objects and no state: its ledger was lost; restore it, or start a new run"
                )
            if self._plan.platform.requests_billed:
                self._apply(Persisted(Usage(), lists=max(1, -(-len(round_keys) // LISTED))))
            self._commit()
            # After the commit: before it, a driver unaware of the hand-over could still have committed these objects.
            self._drop_unfinished(round_keys)
        self._record()

    def take_up(self) -> bool:
        """Continues where the last driver of a detached run ended; False if the run has not begun."""
        record = self._ports.ledger.load(STATE)
        if record is not None:
            self._version, self._marked, self._committed_at = record.version, record.at, record.at
            self._item_size, self._committed = len(record.body), decode_state(record.body)
            self.state = self._committed
        self._apply(_loaded(record))
        return record is not None

    @property
    def version(self) -> int:
        """The version of the last commit."""
        return self._version

    @property
    def committed_at(self) -> float:
        """When the commit that this driver took up was written, in seconds since 1970."""
        return self._committed_at

    @property
    def waiting(self) -> bool:
        """Whether there is nothing to do until a function reports."""
        return isinstance(decide(self._plan, self.state), Wait)

    def receive(self, event: Reported | Lost | CompletionsBilled) -> None:
        """Applies an event of the tasks of a detached run."""
        self._apply(event)

    def clean_up(self) -> None:
        """Repeats what follows the commit of a finished round, in case the last driver died before it could."""
        self._record()
        self._ports.storage.delete(self.state.garbage)

    @property
    def listening(self) -> bool:
        """Whether attempts are in flight that may all succeed, so that there is nothing to decide until a report."""
        return bool(self._in_flight) and not self._failed

    def allow(self, concurrency: int, dollars: float | None) -> None:
        """From the next decision on the run uses so many functions at once and costs at most `dollars`.

        Both change when and where tasks run, and when the run ends; never a weight.
        """
        plan = self._plan
        if (plan.platform.concurrency, plan.config.stop.dollars) != (concurrency, dollars):
            stop = msgspec.structs.replace(plan.config.stop, dollars=dollars)
            config = msgspec.structs.replace(plan.config, stop=stop)
            platform = msgspec.structs.replace(plan.platform, concurrency=concurrency)
            self._plan = replace(plan, config=config, platform=platform)

    def step(self, dispatching: bool = True, pause_at: int | None = None) -> bool:
        """Takes one decision and acts on it; False when the run has ended.

        Without `dispatching` no new attempt starts: the run ends resumably once those in flight have reported. So does
        a run that has finished the round `pause_at`.
        """
        dispatching = dispatching and not self._pauses(pause_at)
        command = Wait() if self.listening else decide(self._plan, self.state)
        match command:
            case Dispatch() if not dispatching:
                if any(slot.waiting for slot in self.state.slots.values()):
                    return self._listen()
                return self._leave()
            case Dispatch():
                self._dispatch(command)
            case Advance():
                self._advance(dispatching, pause_at)
            case Abandon(event):
                self._advance(dispatching, pause_at, Abandoned(event))
            case Finish(reason):
                self._apply(Finishing(reason))
            case Stop(status, reason):
                self._apply(Stopped(status, reason))
                return self._leave()
            case _:
                self._listen()
        return True

    def _dispatch(self, command: Dispatch) -> None:
        # Training time begins with the first tasks.
        self._apply(Dispatched(command.tasks, 0.0 if self._marked is None else self._elapsed()))
        self._write()
        if self._marked is None:
            self._elapsed()
        addresses = report_addresses(self.state, self._version, self._detached) if self._detached else {}
        for task in command.tasks:
            request = task.request
            if self._inlined:
                request = msgspec.structs.replace(request, inlined=self._inlined_inputs(request))
            if addresses:
                request = msgspec.structs.replace(request, report_to=addresses[task.work])
            body = to_json(request)
            if not self._detached:
                self._in_flight[task.work, request.attempt] = task.item, self._clock()
            self._ports.invoker.invoke(task.item.function, request.address.id, request.attempt, body, request.timeout_s)
        self._failed = False
        # After the invocations, which must start even where storage fails.
        self._finish_round()

    def _inlined_inputs(self, request: Request) -> dict[str, bytes]:
        return {ref.key: self._inlined[ref.key] for ref in request.reads() if ref.key in self._inlined}

    def _listen(self) -> bool:
        prefix, records = keys.task_id(self._plan.run, self._state.round, ""), []
        self._failed = False  # what was to be decided was decided
        for report in self._ports.invoker.wait(self._patience_s):
            # An attempt of an earlier round is metered and belongs to no task of this round.
            work = report.id.removeprefix(prefix) if report.id.startswith(prefix) else ""
            report, answer = decode_answer(report)
            self.remarks.update(dict.fromkeys((*report.remarks, *(answer.remarks if answer else ()))))
            if isinstance(answer, Done) and answer.inlined:
                self._inlined |= answer.inlined
                answer = msgspec.structs.replace(answer, inlined={})
            self._ended.append(Ended(work, report, answer))
            self._failed = self._failed or not isinstance(answer, Done)
            if item_and_time := self._in_flight.pop((work, report.attempt), None):
                records.append(self._record_of(self._ended[-1], *item_and_time))
        self._ports.attempts(records)
        return True

    def _record_of(self, attempt: Ended, item: WorkItem, asked_at: float) -> AttemptRecord:
        report, answer = attempt.report, attempt.answer
        return AttemptRecord(
            round=self._state.round,
            work=attempt.work,
            attempt=report.attempt,
            function=report.function,
            kind=item.kind,
            size=item.size or item.weight,
            slots=self._plan.platform.concurrency,
            asked=asked_at,
            ended=self._clock(),
            queued_ms=report.queued_ms,
            init_ms=report.init_ms,
            duration_ms=report.duration_ms,
            outcome="failed" if isinstance(answer, Failed) else report.outcome,
            usage=answer.usage if answer else Usage(),
        )

    def _leave(self) -> bool:
        """Commits the reports since the last commit, so that a resume bills nothing as lost; False, for `step`."""
        self._store_inlined()
        if self.state != self._committed:
            self._commit_and_finish_round()
        return False

    def _advance(self, dispatching: bool, pause_at: int | None, event: Abandoned | None = None) -> None:
        before = self.state
        self._in_flight.clear()
        self._apply(event or Advanced(self._elapsed()))
        if self._checkpoint_due(before):
            self._checkpoint()
        if self.state.round == before.round and self.state.status == "running":
            return
        self._round_ended = True
        # One write for the end of a round and the next dispatch.
        command = decide(self._plan, self.state)
        if isinstance(command, Dispatch) and dispatching and not self._pauses(pause_at):
            self._dispatch(command)
        else:
            self._commit_and_finish_round()

    def _pauses(self, pause_at: int | None) -> bool:
        return pause_at is not None and self._state.round >= pause_at

    def _commit_and_finish_round(self) -> None:
        self._write()
        self._finish_round()

    def _write(self) -> None:
        if self._round_ended and self._detached is not None:
            lines = (len(to_json(line)) for line in self.state.lines)
            self._apply(CompletionsBilled(tuple(item_bytes(self._plan, size) for size in lines), (), Usage()))
        self._commit()

    def _finish_round(self) -> None:
        """Records a round that was committed and deletes its garbage."""
        if not self._round_ended:
            return
        self._round_ended = False
        self._record()
        self._ports.storage.delete(self.state.garbage)
        for key in self.state.garbage:
            self._inlined.pop(key, None)
            self._stored_keys.discard(key)

    def _checkpoint_due(self, before: State) -> bool:
        """At fixed distances, at the end, and wherever objects begin to travel inside messages."""
        state = self.state
        if state.status != "running":
            return True
        if state.phase != "sample" or state.slots:
            return False
        begins = state.placement.inline_objects and not (
            before.round_placement and before.round_placement.inline_objects
        )
        return begins or to_checkpoint(state) <= 0

    def _record(self) -> None:
        for line in self.state.lines:
            self._ports.journal.record(line)

    def _store_inlined(self) -> None:
        """Stores the durable objects that no function has stored."""
        for ref in self.state.durable_refs:
            if ref.key not in self._inlined or ref.key in self._stored_keys:
                continue
            body = self._inlined[ref.key]
            # A lost attempt from before objects travelled inside messages may have stored the same bytes.
            with suppress(KeyTaken):
                self._ports.storage.put(ref.key, body)
            self._stored_keys.add(ref.key)
            self._apply(Persisted(Usage(puts=1, bytes_written=len(body))))

    def _checkpoint(self) -> None:
        """Makes the state durable before anything that it replaces is deleted."""
        self._store_inlined()
        # The objects of the last checkpoint are durable already.
        new_refs = [ref for ref in self.state.durable_refs if ref.key not in self.state.checkpointed]
        self._ports.storage.persist(ref.key for ref in new_refs)
        if self._plan.platform.requests_billed:
            self._apply(Persisted(Usage(gets=len(new_refs))))
        self._ports.journal.persist()
        record = self._ports.ledger.load(CHECKPOINT)
        self._apply(_loaded(record))
        self._apply(Checkpointed())
        version, size_before = (record.version, len(record.body)) if record else (0, 0)
        self._ports.ledger.commit(CHECKPOINT, self._encode_billed(size_before), version)
        self._ports.ledger.persist()

    def _commit(self) -> None:
        if self._detached is not None and any(unbilled := self._detached.unbilled_ms()):
            self._apply(CoordinatorBilled(*unbilled, self._detached.loads))
        if (repeated := self._ports.repeated()) != Meter():
            self._apply(Repeated(repeated))
        body = self._encode_billed(self._item_size)
        self._version = self._ports.ledger.commit(STATE, body, self._version)
        self._committed, self._item_size = self.state, len(body)

    def _encode_billed(self, size_before: int) -> bytes:
        """The encoded state with the write that replaces `size_before` bytes by it on its bill.

        The bill may make the body longer or shorter than the size that was billed. A shorter body is padded, because a
        smaller bill could make it longer again.
        """
        before, size, encoder = self.state, 0, StateEncoder(self.state)
        body = encoder.encode(before)
        while len(body) > size:
            size = len(body)
            self.state = apply(self._plan, before, Committed(size, size_before))
            body = encoder.encode(self.state)
        return body.ljust(size, b"\0")

    def _apply(self, event: Event) -> None:
        self.state = apply(self._plan, self.state, event)

    def _elapsed(self) -> float:
        """Seconds since the last call; 0 the first time."""
        now = self._clock()
        seconds = 0.0 if self._marked is None else now - self._marked
        self._marked = now
        return seconds

    def _intact(self, state: State) -> State:
        """`state` if all its objects are intact; without the round in flight if only that is damaged; else the last
        checkpoint with the present bill."""
        problem = find_damaged(self._ports.storage, state.durable_refs)
        if not problem:
            if not find_damaged(self._ports.storage, round_refs(state)):
                return state
            phase = "sample" if PHASES[state.phase].in_round else state.phase
            return msgspec.structs.replace(state, slots={}, phase=phase, proposal=None, decision=None)
        record = self._ports.ledger.load(CHECKPOINT)
        if record is None:
            raise Unresumable(f"{problem}; the run has no checkpoint to go back to")
        checkpoint = decode_state(record.body)
        if worse := find_damaged(self._ports.storage, checkpoint.durable_refs):
            raise Unresumable(f"{problem}; the checkpoint of round {checkpoint.round} is damaged too: {worse}")
        measurements = {name: getattr(state, name) for name in ("meter", "slowest", "timings", "peaks")}
        state_ = apply(self._plan, msgspec.structs.replace(checkpoint, **measurements), Resumed())
        return apply(self._plan, state_, _loaded(record))

    def _drop_unfinished(self, stored_keys: list[str]) -> None:
        """Deletes the `stored_keys` objects of later rounds and unanswered attempts, which a power loss may have torn.
        Raises `StaleVersion` when another driver, which may need them, went on meanwhile."""
        refs = (*self.state.durable_refs, *round_refs(self.state))
        if self._committed is not None and self._version > 1:
            # After a kill between their commits the checkpoint may be newer than the state.
            record = self._ports.ledger.load(CHECKPOINT)
            self._apply(_loaded(record))
            refs = (*refs, *(decode_state(record.body).durable_refs if record else ()))
        keys_in_use = {ref.key for ref in (*refs, *self._plan.inputs.refs())} | set(self.state.checkpointed)
        leftovers = [key for key in stored_keys if key not in keys_in_use and not self._half_written(key)]
        if leftovers and (record := self._ports.ledger.load(STATE)) is not None and record.version != self._version:
            raise StaleVersion("another driver continued the run")
        self._ports.storage.delete(leftovers)

    def _half_written(self, key: str) -> bool:
        """Whether a task of the round in flight may still store the object's siblings: functions in the cloud go on
        without this process, and objects of a cloud are never torn."""
        works = self.state.slots if self._plan.platform.functions_outlive_driver else ()
        return any(key.startswith(f"{keys.output_prefix(self.state.round, work)}.") for work in works)


def _loaded(record: Record | None) -> Loaded:
    return Loaded(len(record.body) if record else 0)
