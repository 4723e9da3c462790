"""Functions on a virtual clock: an invoker with tasks that take as long as a record says, and answer at once.

The coordinator is real: decisions, requests, storage operations and ledger writes equal a run's. Its computing time may
pass on the virtual clock too, while functions run.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush, heapreplace
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from marless.coordinator.core.round_graph import WorkAttempt
from marless.estimation.recorded_calls import RecordedAsk
from marless.estimation.recorded_replies import RecordedReplies, unstored
from marless.estimation.service_times import ServiceTimes
from marless.functions.encoding import to_json
from marless.functions.errors import NoSuchObject
from marless.functions.messages.exchange import Report, Request
from marless.functions.messages.message import Record
from marless.functions.messages.order import Attempt
from marless.functions.messages.usage import Usage

# How long a platform takes to reject an invocation.
_REJECTED_S = 0.05


@dataclass(frozen=True)
class Faults:
    """Shares of attempts that meet a fault. `slow` ones take `factor` times as long, `cold` ones start an environment,
    `throttled` ones are rejected, and `lost` ones run into their time-out."""

    slow: float = 0.0
    factor: float = 10.0
    cold: float = 0.0
    throttled: float = 0.0
    lost: float = 0.0


NO_FAULTS = Faults()


class VirtualClock:
    """Seconds of a forecast. If it `counts_coordinator`, the coordinator's computing time passes as well."""

    def __init__(self, counts_coordinator: bool = True) -> None:
        self.now = self.coordinator_s = 0.0
        self._counts_coordinator, self._left = counts_coordinator, time.process_time()

    def enter(self) -> None:
        """The coordinator calls the simulation: the time that it computed passes."""
        if not self._counts_coordinator:
            return
        worked_s = time.process_time() - self._left
        self.coordinator_s += worked_s
        self.now += worked_s

    def leave(self) -> None:
        """The coordinator continues."""
        self._left = time.process_time()


class VirtualInvocation(NamedTuple):
    """An attempt, and how many were asked for before."""

    number: int
    attempt: WorkAttempt


class Service(NamedTuple):
    """The service of an attempt that begins: its start-up, computation and storage, its use and its questions."""

    kind: str
    cold_s: float
    init_ms: float
    duration_ms: float
    usage: Usage
    asks: Sequence[RecordedAsk]
    is_lost: bool


class VirtualFunctions:
    """An invoker of `slots` slots. Tasks wait in order for the first that is free."""

    def __init__(
        self,
        clock: VirtualClock,
        slots: int,
        times: ServiceTimes,
        replies: RecordedReplies,
        faults: Faults,
        rng: np.random.Generator,
    ) -> None:
        self._clock, self._times, self._replies, self._faults = clock, times, replies, faults
        self._rng = rng
        self._free = [0.0] * slots
        # By function: how many environments have started, and the ends of the attempts that hold one.
        self._started: dict[str, int] = defaultdict(int)
        self._held: dict[str, list[float]] = defaultdict(list)
        self._due: dict[str, float] = defaultdict(float)
        self._pending: list[tuple[float, int, Report]] = []
        self.asked = self.request_bytes = self.reply_bytes = self.largest_request = 0
        self.busy_s: dict[str, float] = defaultdict(float)

    def invoke(self, attempt: Attempt) -> None:
        """See `Invoker`."""
        body = attempt.body()  # in the coordinator's time
        self._clock.enter()
        self._run(self._counted(attempt, body))
        self._clock.leave()

    def wait(self, timeout_s: float) -> list[Report]:
        """The reports of all attempts that have ended when the first of them has."""
        self._clock.enter()
        reports = []
        if self._pending:
            self._clock.now = max(self._clock.now, self._pending[0][0])
        while self._pending and self._pending[0][0] <= self._clock.now:
            reports.append(heappop(self._pending)[2])
        self._clock.leave()
        return reports

    def close(self) -> None:
        """See `Invoker`."""
        self._pending.clear()

    def _counted(self, attempt: Attempt, body: bytes) -> VirtualInvocation:
        assert isinstance(attempt, WorkAttempt)
        self.asked += 1
        self.request_bytes += len(body)
        self.largest_request = max(self.largest_request, len(body))
        return VirtualInvocation(self.asked, attempt)

    def _run(self, invocation: VirtualInvocation) -> None:
        start = max(self._clock.now, self._free[0])
        if (service := self._service(invocation.attempt, start)) is None:
            self._reject(invocation, self._clock.now)
            return
        end = self._end(invocation, start, service)
        heapreplace(self._free, end)
        heappush(self._held[invocation.attempt.function], end)

    def _service(self, attempt: WorkAttempt, start: float) -> Service | None:
        function, request, item = attempt.function, attempt.request, attempt.item
        faults, chance = self._faults, self._rng.random(4)
        if chance[0] < faults.throttled:
            return None
        size, times = item.size or item.weight, self._times.of(item.kind)
        starts = self._starts(function, start) or chance[1] < faults.cold
        init_ms = self._init_ms(function) if starts else 0.0
        usage = times.usage_of(size, len(request.reads_from_storage()))
        if request.report_to is not None and not request.writes():
            usage = replace(usage, puts=1)  # the answer alone
        storage_usage = unstored(usage) if request.inline_objects else usage
        duration_ms = times.duration_ms(size, storage_usage, starts, self._rng)
        if chance[2] < faults.slow:
            duration_ms *= faults.factor
        cold_s = self._times.cold_s if starts else 0.0
        asks = times.asks_of(size, self._rng)
        return Service(item.kind, cold_s, init_ms, duration_ms, usage, asks, bool(chance[3] < faults.lost))

    def _end(self, invocation: VirtualInvocation, start: float, service: Service) -> float:
        limit_ms = invocation.attempt.timeout_s * 1000
        late = service.is_lost or service.duration_ms > limit_ms
        duration_ms = limit_ms if late else service.duration_ms
        end = start + service.cold_s + self._times.hand_over_s + (service.init_ms + duration_ms) / 1000
        self.busy_s[service.kind] += duration_ms / 1000
        self.busy_s["start-up"] += service.init_ms / 1000
        self._push(invocation, end, "timeout" if late else "answered", service.init_ms, duration_ms, service.usage)
        return end

    def _reject(self, invocation: VirtualInvocation, now: float) -> None:
        self._push(invocation, now + _REJECTED_S, "throttled", 0.0, 0.0, Usage())

    def _push(
        self, invocation: VirtualInvocation, end: float, outcome: str, init_ms: float, duration_ms: float, usage: Usage
    ) -> None:
        attempt, body = invocation.attempt, b""
        if outcome == "answered":
            assert isinstance(attempt.request, Request)
            body = to_json(self._replies.to(attempt.request, usage))
        self.reply_bytes += len(body)
        report = Report(
            id=attempt.id,
            attempt=attempt.number,
            function=attempt.function,
            outcome=outcome,  # type: ignore[arg-type]
            body=body,
            duration_ms=duration_ms,
            init_ms=init_ms,
        )
        heappush(self._pending, (end, invocation.number, report))

    def _starts(self, function: str, start: float) -> bool:
        """Return True if all environments of the function are held, so that another or a restarted one starts."""
        ends = self._held[function]
        while ends and ends[0] <= start:
            heappop(ends)
        starts = len(ends) >= self._started[function]
        self._started[function] += starts
        # Environments start again as often in every wave as in the record.
        self._due[function] += self._times.restarts.get(function, 0.0)
        if self._due[function] < 1:
            return starts
        self._due[function] -= 1
        return True

    def _init_ms(self, function: str) -> float:
        init_times = self._times.init_ms.get(function, (0.0,))
        return init_times[int(self._rng.integers(len(init_times)))]


def work_of(id: str) -> str:
    """The work item's name in a task's id."""
    return id.split("/", 2)[2]


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


class VirtualLedger:
    """A ledger in memory. A commit takes `commit_s`."""

    def __init__(self, clock: VirtualClock, commit_s: float = 0.0) -> None:
        self.clock, self._commit_s = clock, commit_s
        self._items: dict[str, Record] = {}
        self.largest = 0

    def load(self, item: str) -> Record | None:
        return self._items.get(item)

    def commit(self, item: str, body: bytes, version: int) -> int:
        self.clock.enter()
        self.clock.now += self._commit_s
        self.largest = max(self.largest, len(body))
        self._items[item] = Record(version=version + 1, body=body, at=self.clock.now)
        self.clock.leave()
        return version + 1

    def persist(self) -> None:
        """Nothing is persisted."""

    def now(self) -> float:
        return self.clock.now

    def close(self) -> None:
        """Nothing to release."""
