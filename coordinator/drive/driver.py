"""The one loop that makes a run happen: load, decide, commit, do, record. It knows ports, and nothing behind them."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import msgspec

from coordinator.core.apply import apply
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
    Event,
    Finishing,
    Loaded,
    Lost,
    Persisted,
    Reported,
    Resumed,
    Stopped,
)
from coordinator.core.state import Phase, Plan, RoundLine, State
from coordinator.core.tasks import to_checkpoint
from coordinator.drive.checkpoint import CHECKPOINT, STATE, Unresumable, decoded, encoded, passing, trouble
from coordinator.drive.ports import Invoker, Ledger, Storage
from coordinator.drive.telling import Detached, telling
from functions import keys
from functions.contract import (
    Answer,
    Done,
    KeyTaken,
    Record,
    Ref,
    Report,
    Request,
    StaleVersion,
    Usage,
)

# How long to wait for a report before looking whether the user wants to stop.
PATIENCE_S = 0.5
# Keys that storage lists in one request (S3 API reference, "ListObjectsV2").
LISTED = 1000

_ENCODER = msgspec.json.Encoder()
_ANSWERS: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)


class Journal(Protocol):
    """Where finished rounds are recorded; `record` is called at least once for every round and must not mind twice."""

    def record(self, line: RoundLine) -> None: ...

    def persist(self) -> None:
        """Returns once what was recorded would survive a power loss."""


@dataclass(frozen=True)
class Ports:
    """The outside world of a run."""

    storage: Storage
    ledger: Ledger
    invoker: Invoker
    journal: Journal


class Driver:
    """Drives one run, one `step` at a time; all it needs to go on after a kill is in the ledger.

    With `detached` nobody hears functions out: they are told where to report, and another driver takes the run up.
    """

    def __init__(
        self,
        plan: Plan,
        ports: Ports,
        clock: Callable[[], float] = time.monotonic,
        detached: Detached | None = None,
    ) -> None:
        self._plan, self._ports, self._clock, self._detached = plan, ports, clock, detached
        self._marked: float | None = None
        self._version, self._committed_at = 0, 0.0
        # Bytes of the state as it stands in the ledger.
        self._standing = 0
        self._stored: State | None = None
        # Objects that travel inside messages, until nobody needs them; those of the last checkpoint are stored too.
        self._inlined: dict[str, bytes] = {}
        self._unloaded: set[str] = set()
        # Whether a round has ended that no commit holds yet.
        self._ended = False
        self.state = State()

    def begin(self, version: int | None = None) -> None:
        """Takes up the run where the ledger left it, or starts it; with `version` only where it still stands there.

        Raises `StaleVersion` when somebody else goes on with it.
        """
        record = self._ports.ledger.load(STATE)
        if version not in (None, record.version if record else 0):
            raise StaleVersion("somebody else went on with the run")
        if record is not None:
            self._version, self._standing, self._stored = record.version, len(record.body), decoded(record.body)
            self.state = self._sound(apply(self._plan, self._stored, Resumed()))
        # A run that cannot go on is left as it is: resuming it again and again costs nothing.
        if record is None or not isinstance(decide(self._plan, self.state), Stop):
            self._become(_loaded(record))
            if record is None and self._plan.opponents:
                self._become(Persisted(Usage(puts=1, bytes_written=self._plan.opponents.policies.size)))
            # Listed before the commit, so that nothing is among it that a later driver stores.
            found = self._ports.storage.list("rounds/")
            if self._plan.platform.fixed_sizes:
                self._become(Persisted(Usage(), lists=max(1, -(-len(found) // LISTED))))
            self._commit()
            # Only now: a driver that had not noticed the hand-over could still have committed what is deleted here.
            self._drop_unfinished(found)
        self._record()

    def take_up(self) -> bool:
        """Goes on where a driver left off that had asked tasks to report by themselves; False if none ever began."""
        record = self._ports.ledger.load(STATE)
        if record is not None:
            self._version, self._marked, self._committed_at = record.version, record.at, record.at
            self._standing, self._stored = len(record.body), decoded(record.body)
            self.state = self._stored
        self._become(_loaded(record))
        return record is not None

    @property
    def version(self) -> int:
        """Of the last commit."""
        return self._version

    @property
    def committed_at(self) -> float:
        """When the commit was written that this driver took up, in seconds since 1970."""
        return self._committed_at

    @property
    def waiting(self) -> bool:
        """Whether there is nothing to do until a function reports."""
        return isinstance(decide(self._plan, self.state), Wait)

    def hear(self, event: Reported | Lost | CompletionsBilled) -> None:
        """Takes in what was found out about tasks that report by themselves."""
        self._become(event)

    def tidy(self) -> None:
        """Does again what a driver does after the end of a round, in case the last one died before it could."""
        self._record()
        self._ports.storage.delete(self.state.garbage)

    def step(self, asking: bool = True) -> bool:
        """Takes one decision and acts on it; False when there is nothing more to do.

        With `asking` False no attempt is started any more: the run ends resumably when those in flight have reported.
        """
        command = decide(self._plan, self.state)
        match command:
            case Dispatch() if not asking:
                if any(slot.waiting for slot in self.state.slots.values()):
                    return self._listen()
                return self._leave()
            case Dispatch():
                self._ask(command)
            case Advance():
                self._advance(asking)
            case Abandon(event):
                self._advance(asking, Abandoned(event))
            case Finish(reason):
                self._become(Finishing(reason))
            case Stop(status, reason):
                self._become(Stopped(status, reason))
                return self._leave()
            case _:
                self._listen()
        return True

    def _ask(self, command: Dispatch) -> None:
        self._become(Dispatched(command.tasks))
        self._write()
        if self._marked is None:
            self._elapsed()
        tells = telling(self.state, self._version, self._detached) if self._detached else {}
        for task in command.tasks:
            request = task.request
            if self._inlined:
                request = msgspec.structs.replace(request, inlined=self._needed_by(request))
            if tells:
                request = msgspec.structs.replace(request, report_to=tells[task.work])
            body = _ENCODER.encode(request)
            self._ports.invoker.invoke(task.item.function, request.id, request.attempt, body, request.timeout_s)
        # Only now: where storage fails, what was asked for is under way all the same.
        self._wind_up()

    def _needed_by(self, request: Request) -> dict[str, bytes]:
        fields = (getattr(request, name) for name in request.__struct_fields__)
        refs = [item for field in fields if isinstance(field, tuple) for item in field if isinstance(item, Ref)]
        return {ref.key: self._inlined[ref.key] for ref in refs if ref.key in self._inlined}

    def _listen(self) -> bool:
        for report in self._ports.invoker.wait(PATIENCE_S):
            prefix = keys.task_id(self._plan.run, self.state.round, "")
            # An attempt of an earlier round is metered; no task of this round waits for it.
            work = report.id.removeprefix(prefix) if report.id.startswith(prefix) else ""
            report, answer = _read(report)
            if isinstance(answer, Done) and answer.inlined:
                self._inlined |= answer.inlined
                answer = msgspec.structs.replace(answer, inlined={})
            self._become(Reported(work, report, answer))
        return True

    def _leave(self) -> bool:
        """Keeps what was heard since the last commit, so that a resume bills nothing as lost; False, for `step`."""
        self._unload()
        if self.state != self._stored:
            self._settle()
        return False

    def _advance(self, asking: bool, event: Abandoned | None = None) -> None:
        before = self.state
        self._become(event or Advanced(self._elapsed()))
        if self._checkpoint_due(before):
            self._checkpoint()
        if self.state.round == before.round and self.state.status == "running":
            return
        self._ended = True
        # One write for the end of a round and what is asked next.
        command = decide(self._plan, self.state)
        if isinstance(command, Dispatch) and asking:
            self._ask(command)
        else:
            self._settle()

    def _settle(self) -> None:
        """Commits; and after the end of a round, once it is committed, records it and drops what nobody needs."""
        self._write()
        self._wind_up()

    def _write(self) -> None:
        if self._ended and self._detached is not None:
            lines = (len(_ENCODER.encode(line)) for line in self.state.lines)
            self._become(CompletionsBilled(tuple(item_bytes(self._plan, size) for size in lines), (), Usage()))
        self._commit()

    def _wind_up(self) -> None:
        if not self._ended:
            return
        self._ended = False
        self._record()
        self._ports.storage.delete(self.state.garbage)
        for key in self.state.garbage:
            self._inlined.pop(key, None)
            self._unloaded.discard(key)

    def _checkpoint_due(self, before: State) -> bool:
        """At fixed distances and at the end; and wherever objects begin to travel inside messages."""
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

    def _unload(self) -> None:
        """Stores what the run cannot go on without and no function has stored."""
        for ref in self.state.durable_refs:
            if ref.key not in self._inlined or ref.key in self._unloaded:
                continue
            body = self._inlined[ref.key]
            # An attempt that was lost before the message changed its way may have stored the same bytes.
            with suppress(KeyTaken):
                self._ports.storage.put(ref.key, body)
            self._unloaded.add(ref.key)
            self._become(Persisted(Usage(puts=1, bytes_written=len(body))))

    def _checkpoint(self) -> None:
        """Makes a state that a power loss cannot take, before anything it replaces is deleted."""
        self._unload()
        # What the last checkpoint kept is safe already.
        kept = [ref for ref in self.state.durable_refs if ref.key not in self.state.checkpointed]
        self._ports.storage.persist(ref.key for ref in kept)
        if self._plan.platform.fixed_sizes:
            self._become(Persisted(Usage(gets=len(kept))))
        self._ports.journal.persist()
        record = self._ports.ledger.load(CHECKPOINT)
        self._become(_loaded(record))
        self._become(Checkpointed())
        version, standing = (record.version, len(record.body)) if record else (0, 0)
        self._ports.ledger.commit(CHECKPOINT, self._billed(standing), version)
        self._ports.ledger.persist()

    def _commit(self) -> None:
        if self._detached is not None and any(worked := self._detached.worked()):
            self._become(CoordinatorBilled(*worked, self._detached.loads))
        body = self._billed(self._standing)
        self._version = self._ports.ledger.commit(STATE, body, self._version)
        self._stored, self._standing = self.state, len(body)

    def _billed(self, standing: int) -> bytes:
        """The state as it is about to be written, with that write on its bill, in the place of `standing` bytes.

        The bill may make it longer or shorter than it was billed for: a shorter one is filled up, since a smaller bill
        could make it longer again.
        """
        before, size, body = self.state, 0, encoded(self.state)
        while len(body) > size:
            size = len(body)
            self.state = apply(self._plan, before, Committed(size, standing))
            body = encoded(self.state)
        return body.ljust(size, b"\0")

    def _become(self, event: Event) -> None:
        self.state = apply(self._plan, self.state, event)

    def _elapsed(self) -> float:
        """Seconds since the last call; 0 the first time, so that training time begins with the first task."""
        now = self._clock()
        passed = 0.0 if self._marked is None else now - self._marked
        self._marked = now
        return passed

    def _sound(self, state: State) -> State:
        """`state` if all it refers to is whole; without the round in flight if only that is damaged; else the last
        checkpoint, with the bill carried on."""
        problem = trouble(self._ports.storage, state.durable_refs)
        if not problem:
            damaged = trouble(self._ports.storage, passing(state))
            if not damaged:
                return state
            first = _first(state)
            return msgspec.structs.replace(state, slots={}, wave=0, phase=first, proposal=None, decision=None)
        record = self._ports.ledger.load(CHECKPOINT)
        if record is None:
            raise Unresumable(f"{problem}; the run has no checkpoint to go back to")
        checkpoint = decoded(record.body)
        if worse := trouble(self._ports.storage, checkpoint.durable_refs):
            raise Unresumable(f"{problem}; the checkpoint of round {checkpoint.round} is damaged too: {worse}")
        learnt = {name: getattr(state, name) for name in ("meter", "slowest", "timings", "peaks")}
        returned = apply(self._plan, msgspec.structs.replace(checkpoint, **learnt), Resumed())
        return apply(self._plan, returned, _loaded(record))

    def _drop_unfinished(self, found: list[str]) -> None:
        """Deletes, of the keys `found`, what later rounds or unanswered attempts left: after a power loss it may be
        torn. Raises `StaleVersion` when another driver went on meanwhile, who may need any of it."""
        refs = (*self.state.durable_refs, *passing(self.state))
        if self._stored is not None and self._version > 1:
            # It may be newer than the state, where a kill came between their commits.
            record = self._ports.ledger.load(CHECKPOINT)
            self._become(_loaded(record))
            refs = (*refs, *(decoded(record.body).durable_refs if record else ()))
        kept = {ref.key for ref in refs} | set(self.state.checkpointed)
        if self._plan.opponents:
            kept.add(self._plan.opponents.policies.key)
        left = [key for key in found if key not in kept and not self._half_written(key)]
        if left and (record := self._ports.ledger.load(STATE)) is not None and record.version != self._version:
            raise StaleVersion("somebody else went on with the run")
        self._ports.storage.delete(left)

    def _half_written(self, key: str) -> bool:
        """Whether a task of the round in flight may be about to store the rest of what it belongs to: functions that
        this process did not start go on, and objects of a cloud are never torn."""
        works = self.state.slots if self._plan.platform.fixed_sizes else ()
        return any(key.startswith(f"{keys.output_prefix(self.state.round, work)}.") for work in works)


def _loaded(record: Record | None) -> Loaded:
    return Loaded(len(record.body) if record else 0)


def _first(state: State) -> Phase:
    """The phase that a round in flight begins with."""
    return "sample" if state.phase in ("learn", "regroup", "trial") else state.phase


def _read(report: Report) -> tuple[Report, Answer | None]:
    """The report with its answer; an answer that cannot be read is as good as none."""
    if report.outcome != "answered":
        return report, None
    try:
        return report, _ANSWERS.decode(report.body)
    except msgspec.MsgspecError as error:
        return msgspec.structs.replace(report, outcome="crash", detail=f"its answer cannot be read: {error}"), None
