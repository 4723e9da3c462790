"""Dry runs: the real driver, or turns of the detached coordinator, on functions that replay a calibration's answers.

Decisions, requests, storage operations and ledger writes are those of a real run; only durations are estimates. Time is
simulated: the platform advances it.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle, islice

from msgspec.structs import replace

from coordinator.core.state import Plan, State
from coordinator.drive.completion_reports import Detached
from coordinator.drive.detached_turn import CloudPorts, take_turn
from coordinator.drive.driver import Driver, Ports
from coordinator.placement.coordination_cost import MANIFEST_BYTES
from functions import codec, keys
from functions.completion import completion_report, report_completion
from functions.contract import (
    Done,
    EvaluateReply,
    EvaluateTask,
    NoSuchObject,
    Record,
    Report,
    Request,
    TaskHeader,
    Usage,
    WholeReply,
    WholeTask,
)
from functions.encoding import JsonDecoder, to_json
from functions.evaluator.handler import BLOCK
from functions.ports import Head
from functions.stored_answers import last_object
from marless.estimation.calibration import Calibration, NoJournal, WorkReports, work_of
from marless.estimation.platforms import Call, DeployedFunctions, Platform

_REQUESTS = JsonDecoder[Request](Request)
_COORDINATOR = "coordinator"


def rehearse(plan: Plan, calibration: Calibration, platform: Platform) -> State:
    """The final state of a dry run on `platform`."""
    functions = _Functions(_Answers(calibration), platform)
    driver = Driver(
        plan, Ports(NoObjects(), _Items(lambda: functions.now), functions, NoJournal()), lambda: functions.now
    )
    driver.begin()
    while driver.step():
        pass
    return driver.state


def rehearse_detached(plan: Plan, calibration: Calibration, platform: DeployedFunctions) -> State:
    """The final state of a dry run on `platform` with the coordinator as a function."""
    events = _Events(_Answers(calibration), platform)
    items = _Items(lambda: events.now)
    ports = Ports(NoObjects(), items, events, NoJournal())
    cloud = CloudPorts(events.sets, events.heads, events, lambda: events.now)
    described = replace(plan.platform, coordinator_mb=platform.memory_mb[_COORDINATOR])
    plan = dataclasses.replace(plan, platform=described)
    while True:
        detached = Detached(_COORDINATOR, events.turn_times(), (MANIFEST_BYTES, 0))
        after = take_turn(plan, ports, cloud, detached, True, resume=None).after
        if after.status != "running":
            return after


class _Functions:
    """An invoker that answers from the calibration, at the platform's simulated times."""

    def __init__(self, answers: "_Answers", platform: Platform) -> None:
        self.now = 0.0
        self._answers, self._platform = answers, platform
        self._pending: list[tuple[str, Done, float]] = []

    def invoke(self, function: str, id: str, attempt: int, body: bytes, timeout_s: float) -> None:
        """Keeps the request until `wait`."""
        done, duration_ms = self._answers.to(_REQUESTS.decode(body))
        self._pending.append((function, replace(done, id=id, attempt=attempt), duration_ms))

    def wait(self, timeout_s: float) -> list[Report]:
        """Reports on all requests after the platform's simulated time."""
        pending, self._pending = self._pending, []
        times, seconds = self._platform.wave([Call(function, ms, done.usage) for function, done, ms in pending])
        self.now += seconds
        return [
            Report(
                id=done.id,
                attempt=done.attempt,
                function=function,
                outcome="answered",
                body=to_json(done),
                duration_ms=time.duration_ms,
                init_ms=time.init_ms,
            )
            for (function, done, _), time in zip(pending, times, strict=True)
        ]

    def close(self) -> None:
        """Nothing to release."""


class _Answers:
    """Answers and durations of functions on this machine, from a calibration."""

    def __init__(self, calibration: Calibration) -> None:
        self._calibration = calibration

    def to(self, request: Request) -> tuple[Done, float]:
        """The answer, and milliseconds."""
        return self._evaluate(request) if isinstance(request, EvaluateTask) else self._work(request)

    def _work(self, request: Request) -> tuple[Done, float]:
        measured = self._reports(work_of(request.address.id))
        old = measured.done
        assert old is not None
        objects = {
            kind: replace(ref, key=keys.object_key(request.address.output, kind)) for kind, ref in old.objects.items()
        }
        inlined = {
            objects[kind].key: old.inlined[ref.key] for kind, ref in old.objects.items() if ref.key in old.inlined
        }
        done = replace(old, objects=objects, inlined=inlined, usage=_with_reads(old.usage, request))
        duration_ms = measured.duration_ms(first=request.address.round == 0)
        if isinstance(request, WholeTask) and isinstance(done.reply, WholeReply):
            return _for_rounds(done, done.reply, request.rounds, duration_ms)
        return done, duration_ms

    def _reports(self, work: str) -> WorkReports:
        """The calibration of this work item, or of one of its kind: the last batch of rollouts may differ in size."""
        works, kind = self._calibration.works, work.split("/")[0]
        return works.get(work) or next(works[name] for name in works if name.startswith(f"{kind}/"))

    def _evaluate(self, request: EvaluateTask) -> tuple[Done, float]:
        measured, episodes = self._calibration.evaluation, self._calibration.episodes
        done = measured.done
        assert done is not None and isinstance(done.reply, EvaluateReply)
        returns = tuple(islice(cycle(done.reply.returns), request.episodes))
        share = _batches(request.episodes) / _batches(episodes)
        reply, usage = replace(done.reply, returns=returns), _with_reads(done.usage, request)
        return replace(done, reply=reply, usage=usage), measured.duration_ms(False) * share


def _with_reads(usage: Usage, request: Request) -> Usage:
    """The operations of a function that has kept nothing; the driver bills what it would have kept."""
    refs = request.reads_from_storage()
    read = sum(ref.size for ref in refs)
    return replace(usage, gets=len(refs), bytes_read=read, hits=0, hit_bytes=0)


def _for_rounds(done: Done, reply: WholeReply, rounds: int, duration_ms: float) -> tuple[Done, float]:
    """Repeats an answer and its duration for another number of rounds in one function."""
    samples, learns = (tuple(islice(cycle(part), rounds)) for part in (reply.samples, reply.learns))
    repeated = replace(reply, samples=samples, learns=learns)
    return replace(done, reply=repeated), duration_ms * rounds / len(reply.samples)


class NoObjects:
    """Storage that discards objects."""

    def get(self, key: str, size: int | None = None) -> bytes:
        raise NoSuchObject(key)

    def put(self, key: str, body: bytes) -> None:
        """Nothing is kept."""

    def persist(self, keys: Iterable[str]) -> None:
        """Nothing is kept."""

    def delete(self, keys: Iterable[str]) -> None:
        """Nothing is kept."""

    def list(self, prefix: str) -> list[str]:
        return []


class _Items:
    """A ledger in memory with the time of `clock`; there is one writer."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._items: dict[str, Record] = {}

    def load(self, item: str) -> Record | None:
        return self._items.get(item)

    def commit(self, item: str, body: bytes, version: int) -> int:
        self._items[item] = Record(version=version + 1, body=body, at=self._clock())
        return version + 1

    def persist(self) -> None:
        """Nothing is persisted."""

    def now(self) -> float:
        return self._clock()

    def close(self) -> None:
        """Nothing to release."""


def _batches(episodes: int) -> int:
    """Number of blocks of at most `BLOCK` environments; a small block costs nearly as much as a full one."""
    return -(-episodes // BLOCK)


class _Sets:
    """Completion sets in memory."""

    def __init__(self) -> None:
        self._members: dict[str, set[bytes]] = {}

    def add(self, name: str, member: bytes) -> frozenset[bytes]:
        self._members.setdefault(name, set()).add(member)
        return frozenset(self._members[name])

    def read(self, names: Sequence[str]) -> list[frozenset[bytes]]:
        return [frozenset(self._members.get(name, ())) for name in names]

    def clear(self) -> None:
        """Forgets all members."""
        self._members.clear()


class _Events:
    """Event invocations: each function stores its answer and completion report before the next turn begins."""

    def __init__(self, answers: _Answers, platform: DeployedFunctions) -> None:
        self.now = 0.0
        self.sets = _Sets()
        self._answers, self._platform = answers, platform
        self._pending: list[tuple[str, Request]] = []
        self._stored: dict[str, Head] = {}

    def invoke(self, function: str, id: str, attempt: int, body: bytes, timeout_s: float) -> None:
        """Keeps the request until all are sent."""
        self._pending.append((function, _REQUESTS.decode(body)))

    def flush(self, patience_s: float) -> list[tuple[str, int, str, bool]]:
        """Completes all requests after the platform's simulated time; rejects none."""
        pending, self._pending = self._pending, []
        answers = [self._answers.to(request) for _, request in pending]
        stored = [self._store(request, answer) for (_, request), (answer, _) in zip(pending, answers, strict=True)]
        calls = [
            Call(function, duration_ms, answer.usage)
            for (function, _), (_, duration_ms), answer in zip(pending, answers, stored, strict=True)
        ]
        times, seconds = self._platform.wave(calls)
        self.now += seconds
        self.sets.clear()
        for (_, request), answer, time in zip(pending, stored, times, strict=True):
            assert request.report_to is not None
            report = completion_report(answer, time.duration_ms, time.init_ms, 0.0)
            report_completion(self.sets, request.report_to, report)
        return []

    def turn_times(self) -> Callable[[], tuple[float, float]]:
        """Computation and start-up of the next turn, returned once, as `Detached.worked` expects."""
        latency, platform = self._platform.latency, self._platform
        parts = [(platform.run_ms(_COORDINATOR, latency.turn, latency.wait_ms), platform.start_up_ms(_COORDINATOR))]
        return lambda: parts.pop() if parts else (0.0, 0.0)

    def heads(self, keys: Sequence[str]) -> list[Head | None]:
        """Heads of the objects that hold answers."""
        return [self._stored.pop(name, None) for name in keys]

    def _store(self, request: Request, done: Done) -> Done:
        """The answer as stored with its last object."""
        kind, id = last_object(request), request.address.id
        assert kind is not None
        others = {name: ref for name, ref in done.objects.items() if name != kind}
        header = TaskHeader(
            task=request.address.id, done=Done(id=request.address.id, attempt=0, objects=others, reply=done.reply)
        )
        key, body = keys.object_key(request.address.output, kind), codec.encode({}, header)
        last = done.objects.get(kind) or codec.reference(key, body)
        self._stored[key] = Head(body, last.sha256, last.size)
        usage = done.usage if kind in done.objects else replace(done.usage, puts=1, bytes_written=len(body))
        return replace(done, id=id, attempt=request.attempt, usage=usage)

    def wait(self, timeout_s: float) -> list[Report]:
        """Events have no replies."""
        return []

    def close(self) -> None:
        """Nothing to release."""
