"""A detached run without its work: real turns of the coordinator, between functions that report at once."""

import dataclasses
from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from coordinator.core.state import Plan, State
from coordinator.drive.detached_turn import CloudPorts, turn
from coordinator.drive.driver import Ports
from coordinator.drive.telling import Detached
from coordinator.estimation.calibration import Calibration
from coordinator.estimation.platforms import Call, There
from coordinator.estimation.rehearsal import Answers, Items, Nowhere, Objects
from coordinator.placement.coordination_cost import MANIFEST_BYTES
from functions import codec, keys
from functions.completion import completion_report, report_completion
from functions.contract import Done, Report, Request, TaskHeader
from functions.ports import Head
from functions.serving import last_object

_REQUESTS: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
_COORDINATOR = "coordinator"


def rehearse_detached(plan: Plan, calibration: Calibration, platform: There) -> State:
    """The state in which the run would end whose functions `platform` has, the coordinator among them."""
    events = _Events(Answers(calibration), platform)
    items = Items(lambda: events.now)
    ports = Ports(Objects(), items, events, Nowhere())
    around = CloudPorts(events.sets, events.heads, events, lambda: events.now)
    promises = msgspec.structs.replace(plan.platform, coordinator_mb=platform.memory_mb[_COORDINATOR])
    plan = dataclasses.replace(plan, platform=promises)
    while True:
        detached = Detached(_COORDINATOR, events.turned(), (MANIFEST_BYTES, 0))
        after = turn(plan, ports, around, detached, True, resume=None).after
        if after.status != "running":
            return after


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
        """Forgets what was read."""
        self._members.clear()


class _Events:
    """Functions that were asked by events: each has reported, and stored its answer, before the next turn begins."""

    def __init__(self, answers: Answers, platform: There) -> None:
        self.now = 0.0
        self.sets = _Sets()
        self._answers, self._platform = answers, platform
        self._asked: list[tuple[str, Request]] = []
        self._stored: dict[str, Head] = {}

    def invoke(self, function: str, id: str, attempt: int, body: bytes, timeout_s: float) -> None:
        """Keeps the request until all are sent."""
        self._asked.append((function, _REQUESTS.decode(body)))

    def flush(self, patience_s: float) -> list[tuple[str, int, str, bool]]:
        """Has all that was asked for done, as long after as the platform takes; nothing is turned away."""
        asked, self._asked = self._asked, []
        answers = [self._answers.to(request) for _, request in asked]
        done = [self._store(request, answer) for (_, request), (answer, _) in zip(asked, answers, strict=True)]
        calls = [
            Call(function, duration_ms, answer.usage)
            for (function, _), (_, duration_ms), answer in zip(asked, answers, done, strict=True)
        ]
        ran, seconds = self._platform.wave(calls)
        self.now += seconds
        self.sets.clear()
        for (_, request), answer, took in zip(asked, done, ran, strict=True):
            assert request.report_to is not None
            report_completion(
                self.sets, request.report_to, completion_report(answer, took.duration_ms, took.init_ms, 0.0)
            )
        return []

    def turned(self) -> Callable[[], tuple[float, float]]:
        """What the coming turn works, and the start it pays for: once, as `Detached.worked` is asked."""
        latency, platform = self._platform.latency, self._platform
        parts = [(platform.worked(_COORDINATOR, latency.turn, latency.waited_ms), platform.started(_COORDINATOR))]
        return lambda: parts.pop() if parts else (0.0, 0.0)

    def heads(self, keys: Sequence[str]) -> list[Head | None]:
        """Of the objects that hold answers."""
        return [self._stored.pop(name, None) for name in keys]

    def _store(self, request: Request, done: Done) -> Done:
        """The answer as it is once its last object lies in storage with it."""
        kind = last_object(request)
        assert kind is not None
        others = {name: ref for name, ref in done.objects.items() if name != kind}
        header = TaskHeader(task=request.id, done=Done(id=request.id, attempt=0, objects=others, reply=done.reply))
        key, body = keys.object_key(request.output, kind), codec.encode({}, header)
        last = done.objects.get(kind) or codec.reference(key, body)
        self._stored[key] = Head(body, last.sha256, last.size)
        usage = done.usage if kind in done.objects else replace(done.usage, puts=1, bytes_written=len(body))
        return replace(done, id=request.id, attempt=request.attempt, usage=usage)

    def wait(self, timeout_s: float) -> list[Report]:
        """Nobody is heard out."""
        return []

    def close(self) -> None:
        """Nothing is held."""
