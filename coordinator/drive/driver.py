"""The loop that drives a run: load, decide, commit, act, record. It uses the ports, never an adapter."""

import time
from collections.abc import Callable
from functools import reduce

import msgspec

from marless.coordinator.core import events
from marless.coordinator.core.apply import apply
from marless.coordinator.core.budget import item_bytes, load_meter, turn_meter, written_bytes
from marless.coordinator.core.decide import Advance, Dispatch, Wait, decide
from marless.coordinator.core.rounds import to_checkpoint
from marless.coordinator.core.state import Plan, State
from marless.coordinator.drive.attempts_in_flight import AttemptsInFlight
from marless.coordinator.drive.completion_reports import Detached, new_asks, report_addresses
from marless.coordinator.drive.inlined_objects import InlinedObjects
from marless.coordinator.drive.ledger_items import CHECKPOINT, STATE, StateEncoder, Unresumable, decode_state, line_body
from marless.coordinator.drive.ports import Ports
from marless.coordinator.drive.recovery import intact_state, leftover_keys
from marless.coordinator.pricing.bill import Meter
from marless.functions import keys
from marless.functions.errors import StaleVersion
from marless.functions.messages.exchange import Done
from marless.functions.messages.usage import Usage

# How long to wait for a report before checking whether the user wants to stop.
PATIENCE_S = 0.5
# Keys that storage lists in one request (S3 API reference, "ListObjectsV2").
LISTED = 1000
_NOTHING = Meter()


class Overtaken(StaleVersion):
    """Another driver was quicker. `meter` is the unbilled use of this driver."""

    def __init__(self, message: str, meter: Meter) -> None:
        super().__init__(message)
        self.meter = meter


class Driver:
    """Drives one run, one `step` at a time. A resume after a kill needs only the ledger.

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
        self.version = 0
        """The version of the last commit."""
        self.committed_at = 0.0
        """When the last commit was written, in seconds since 1970."""
        self._turn = Meter()  # the driver's use since its last commit
        # The state in the ledger, and the bytes of its item.
        self._committed: State | None = None
        self._item_size = 0
        self._inlined = InlinedObjects()
        # Whether a round has ended that is not committed yet.
        self._round_ended = False
        # Attempts that ended and are not applied yet, because each application copies all slots.
        self._ended: list[events.AttemptEnded] = []
        self._in_flight = AttemptsInFlight()
        self._state = State()
        self.remarks: dict[str, None] = {}
        """What tasks did to their processes, each once, in the order of its report."""

    @property
    def state(self) -> State:
        """The run with all that was reported so far."""
        if self._ended:
            attempts, self._ended = tuple(self._ended), []
            self._apply(events.Reported(attempts))
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        self._state = state

    def begin(self) -> None:
        """Resumes the run from the ledger, or starts it."""
        self.load()
        self.start()

    def load(self, unbilled: Meter = _NOTHING) -> State | None:
        """Read the state that the last driver committed, or None before the first commit. Call `start` or `go_on` next,
        which bills `unbilled` with the read."""
        record = self._ports.ledger.load(STATE)
        self._turn = unbilled + load_meter(self._plan, record)
        if record is not None:
            self.version, self._item_size, self._committed = record.version, len(record.body), decode_state(record.body)
            self.committed_at, self.state = record.at, self._committed
        return self._committed

    def start(self) -> None:
        """Resume the run that was read, or start a new run.

        Raises `Overtaken` if another driver continues it.
        """
        is_new = self._committed is None
        if not is_new:
            self._apply(events.Resumed())
            self.state = intact_state(self._plan, self.state, self._ports.storage, self._ports.ledger)
        # A run that cannot continue stays unchanged, so that repeated resumes are free.
        if is_new or not isinstance(decide(self._plan, self.state), events.Stopped):
            self._bill(self._turn)
            if is_new:
                for ref in self._plan.inputs.refs():
                    self._bill(Meter().add_stored(Usage(puts=1, bytes_written=ref.size)))
            # Listed before the commit, so that no object of a later driver is among them.
            round_keys = self._ports.storage.list("rounds/")
            if is_new and keys.of_rounds(round_keys):
                # A new start would delete these objects and forget their cost.
                raise Unresumable(
                    "the run has objects and no state: its ledger was lost; restore it, or start a new run"
                )
            if self._plan.platform.requests_billed:
                self.bill_turn(Meter().add_listing(max(1, -(-len(round_keys) // LISTED))))
            self._commit()
            # After the commit: before it, a driver unaware of the hand-over could still have committed these objects.
            self._drop_unfinished(round_keys)
        self._record()

    def go_on(self) -> None:
        """Continues where the last driver of a detached run ended."""
        self._marked = self.committed_at
        self._bill(self._turn)

    def waits(self, dispatching: bool) -> bool:
        """Return whether the run must wait for a report, given whether new attempts may start."""
        command = decide(self._plan, self.state)
        held_back = isinstance(command, Dispatch) and not dispatching and bool(self.state.waiting)
        return isinstance(command, Wait) or held_back

    def receive(self, event: events.Reported | events.Lost | events.Metered) -> None:
        """Applies an event of the tasks of a detached run."""
        self._apply(event)

    def bill_turn(self, meter: Meter) -> None:
        """Bill the use of a detached run's turn."""
        self._turn += meter
        self._bill(meter)

    def commit_received(self) -> None:
        """Commit the events received since the last commit, if any, and the time until now. The next driver counts from
        this commit."""
        if self.state != self._committed:
            self._apply(events.Elapsed(self._elapsed()))
            self._commit()

    def clean_up(self) -> None:
        """Repeat the steps after the commit of a finished round, in case the last driver died before them."""
        self.bill_turn(self._lines_meter())  # writes that the table refuses are billed, too
        self._record()
        self._ports.storage.delete(self.state.garbage)

    @property
    def listening(self) -> bool:
        """True if the next decision depends only on attempts in flight, so that a report is awaited."""
        return self._in_flight.listening

    def allow(self, concurrency: int, dollars: float | None) -> None:
        """From the next decision on, let the run use `concurrency` functions at once and cost at most `dollars`.

        Both change when and where tasks run, and when the run ends, but never a weight.
        """
        plan = self._plan
        if (plan.platform.concurrency, plan.config.stop.dollars) != (concurrency, dollars):
            self._plan = plan.limited(dollars, concurrency=concurrency)

    def step(self, dispatching: bool = True, pause_at: int | None = None) -> bool:
        """Take one decision and act on it. False if the run has ended.

        If `dispatching` is False, no attempt starts, and the run ends resumably after the attempts in flight. A run
        that has finished the round `pause_at` ends in the same way.
        """
        dispatching = dispatching and not self._pauses(pause_at)
        command = Wait() if self.listening else decide(self._plan, self.state)
        match command:
            case Dispatch() if not dispatching:
                return self._listen() if self.state.waiting else self._leave()
            case Dispatch():
                self._dispatch(command)
            case Advance():
                self._advance(dispatching, pause_at)
            case events.Abandoned():
                self._advance(dispatching, pause_at, command)
            case events.Finishing():
                self._apply(command)
            case events.Stopped():
                self._apply(command)
                return self._leave()
            case _:
                self._listen()
        return True

    def _dispatch(self, command: Dispatch) -> None:
        works = [task.work for task in command.tasks]
        asks = new_asks(self.version + 1, works, command.awaited) if self._detached else {}
        # Training time begins with the first tasks.
        self._apply(events.Dispatched(command.tasks, 0.0 if self._marked is None else self._elapsed(), asks))
        self._write()
        if self._marked is None:
            self._elapsed()
        addresses = report_addresses(self.state, self._detached) if self._detached else {}
        for task in command.tasks:
            request = self._inlined.attach(task.request)
            if addresses:
                request = msgspec.structs.replace(request, report_to=addresses[task.work])
            if not self._detached:
                self._in_flight.ask(task.work, task.number, task.item, self._clock())
            self._ports.invoker.invoke(msgspec.structs.replace(task, request=request))
        self._in_flight.await_sets(command.awaited)
        # After the invocations, which must start even where storage fails.
        self._finish_round()

    def _listen(self) -> bool:
        from marless.coordinator.drive.attempt_record import record_of  # a coordinator on Lambda never listens

        prefix, records = keys.task_id(self._plan.run, self._state.round, ""), []
        self._in_flight.await_reports()
        for report in self._ports.invoker.wait(self._patience_s):
            # An attempt of an earlier round is metered and belongs to no task of this round.
            work = report.id.removeprefix(prefix) if report.id.startswith(prefix) else ""
            report, answer = events.decode_answer(report)
            self.remarks.update(dict.fromkeys((*report.remarks, *(answer.remarks if answer else ()))))
            if isinstance(answer, Done):
                answer = self._inlined.detach(answer)
            self._ended.append(events.AttemptEnded(work, report, answer))
            if item_and_time := self._in_flight.end(work, report.attempt, isinstance(answer, Done)):
                item, asked_at = item_and_time
                slots, now = self._plan.platform.concurrency, self._clock()
                records.append(record_of(self._ended[-1], self._state.round, item, slots, asked_at, now))
        self._ports.attempts(records)
        return True

    def _leave(self) -> bool:
        """Commit the reports since the last commit, so that a resume bills them exactly. Returns False, for `step`."""
        self._store_inlined()
        if self.state != self._committed:
            self._commit_and_finish_round()
        return False

    def _advance(self, dispatching: bool, pause_at: int | None, event: events.Abandoned | None = None) -> None:
        before = self.state
        self._in_flight.forget()
        self._apply(event or events.Advanced(self._elapsed()))
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
        if self._round_ended:
            self._bill(self._lines_meter())
        self._commit()

    def _lines_meter(self) -> Meter:
        lines = () if self._detached is None else self.state.lines
        return reduce(Meter.add_commit, (item_bytes(self._plan, len(line_body(line))) for line in lines), Meter())

    def _finish_round(self) -> None:
        if not self._round_ended:
            return
        self._round_ended = False
        self._record()
        self._ports.storage.delete(self.state.garbage)
        self._inlined.drop(self.state.garbage)

    def _checkpoint_due(self, before: State) -> bool:
        """Return True at fixed distances, at the end, and whenever objects begin to travel inside messages."""
        state = self.state
        if state.status != "running":
            return True
        if state.phase != "round" or state.slots:
            return False
        begins = state.placement.inline_objects and not (
            before.round_placement and before.round_placement.inline_objects
        )
        return begins or to_checkpoint(state) <= 0

    def _record(self) -> None:
        for line in self.state.lines:
            self._ports.journal.record(line)

    def _store_inlined(self) -> None:
        for size in self._inlined.store(self.state.durable_refs, self._ports.storage):
            self._bill(Meter().add_stored(Usage(puts=1, bytes_written=size)))

    def _checkpoint(self) -> None:
        """Makes the state durable before anything that it replaces is deleted."""
        self._store_inlined()
        # The objects of the last checkpoint are durable already.
        new_refs = [ref for ref in self.state.durable_refs if ref.key not in self.state.checkpointed]
        self._ports.storage.persist(ref.key for ref in new_refs)
        if self._plan.platform.requests_billed:
            self.bill_turn(Meter().add_stored(Usage(gets=len(new_refs))))
        self._ports.journal.persist()
        record = self._ports.ledger.load(CHECKPOINT)
        self.bill_turn(load_meter(self._plan, record))
        self._apply(events.Checkpointed())
        version, size_before = (record.version, len(record.body)) if record else (0, 0)
        self._put(CHECKPOINT, version, size_before)
        self._ports.ledger.persist()

    def _commit(self) -> None:
        if self._detached is not None and any(unbilled_ms := self._detached.unbilled_ms()):
            self.bill_turn(turn_meter(self._plan, *unbilled_ms, self._detached.loads))
        self.bill_turn(self._ports.repeated())
        self.version, self._item_size = self._put(STATE, self.version, self._item_size)
        self._committed, self.committed_at, self._turn = self.state, self._clock(), Meter()

    def _put(self, item: str, version: int, size_before: int) -> tuple[int, int]:
        """Replace version `version` of the item, of `size_before` bytes, by the state with this write on its bill.
        Returns the new version and its bytes."""
        body = self._encode_billed(size_before)
        try:
            new_version = self._ports.ledger.commit(item, body, version)
        except StaleVersion as error:
            raise Overtaken(str(error), self._turn + self._written(len(body), error.size)) from error
        self._turn += self._written(len(body), size_before)
        return new_version, len(body)

    def _written(self, size: int, size_before: int) -> Meter:
        """The use of a write, or of one that was refused because of an item of `size_before` bytes."""
        return Meter().add_commit(written_bytes(self._plan, size, size_before))

    def _encode_billed(self, size_before: int) -> bytes:
        """The encoded state with the write that replaces `size_before` bytes by it on its bill.

        The bill may make the body longer or shorter than the size that was billed. A shorter body is padded, because a
        smaller bill could make it longer again.
        """
        before, size, encoder = self.state, 0, StateEncoder(self.state)
        body = encoder.encode(before)
        while len(body) > size:
            size = len(body)
            self.state = apply(self._plan, before, events.Committed(size, size_before))
            body = encoder.encode(self.state)
        return body.ljust(size, b"\0")

    def _apply(self, event: events.Event) -> None:
        self.state = apply(self._plan, self.state, event)

    def _bill(self, meter: Meter) -> None:
        self._apply(events.Metered(meter))

    def _elapsed(self) -> float:
        now = self._clock()
        seconds = 0.0 if self._marked is None else now - self._marked
        self._marked = now
        return seconds

    def _drop_unfinished(self, stored_keys: list[str]) -> None:
        """Delete the leftovers among the `stored_keys`.

        Raises `Overtaken` if another driver, which may need them, has continued the run.
        """
        checkpoint = None
        if self._committed is not None and self.version > 1:
            checkpoint = self._ports.ledger.load(CHECKPOINT)
            self.bill_turn(load_meter(self._plan, checkpoint))
        if leftovers := leftover_keys(self._plan, self.state, checkpoint, stored_keys):
            record = self._ports.ledger.load(STATE)
            self.bill_turn(load_meter(self._plan, record))
            if record is not None and record.version != self.version:
                raise Overtaken("another driver continued the run", self._turn)
        self._ports.storage.delete(leftovers)
