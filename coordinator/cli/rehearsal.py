"""A run without its work: the real driver on functions that answer at once, with what a calibration measured.

So every decision, request, storage operation and ledger write is counted as the run would make it; only durations are
estimates. Time is a number that the functions advance.
"""

from collections.abc import Iterable
from itertools import cycle, islice

import msgspec
from msgspec.structs import replace

from coordinator.cli.calibration import Calibration, Seen, work_of
from coordinator.loop import Driver, Ports
from coordinator.state import Plan, RoundLine, State
from functions import keys
from functions.contract import (
    Done,
    EvaluateReply,
    EvaluateTask,
    NoSuchObject,
    Record,
    Report,
    Request,
    WholeReply,
    WholeTask,
)
from functions.evaluator.handler import BLOCK

_REQUESTS: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
_ENCODER = msgspec.json.Encoder()


def rehearse(plan: Plan, calibration: Calibration, workers: int) -> State:
    """The state in which the run would end."""
    functions = _Functions(calibration, workers)
    driver = Driver(plan, Ports(_Storage(), _Ledger(), functions, _Nowhere()), clock=lambda: functions.now)
    driver.begin()
    while driver.step():
        pass
    return driver.state


class _Functions:
    """Answers with what the calibration saw."""

    def __init__(self, calibration: Calibration, workers: int) -> None:
        self.now = 0.0
        self._calibration, self._workers = calibration, workers
        self._cold = dict(calibration.init_ms)
        self._pending: list[Report] = []
        self._overhead_s = max(0.0, calibration.round_s - _busy_s(calibration, workers)) / 2

    def invoke(self, function: str, id: str, attempt: int, body: bytes, timeout_s: float) -> None:
        """Answers at once, as long after the start as the calibration says such a task takes."""
        request = _REQUESTS.decode(body)
        done, duration_ms = self._evaluate(request) if isinstance(request, EvaluateTask) else self._work(request)
        self._pending.append(
            Report(
                id=id,
                attempt=attempt,
                function=function,
                outcome="answered",
                body=_ENCODER.encode(replace(done, id=id, attempt=attempt)),
                duration_ms=duration_ms,
                init_ms=self._cold.pop(function, 0.0),
            )
        )

    def wait(self, timeout_s: float) -> list[Report]:
        reports, self._pending = self._pending, []
        self.now += _makespan_s([report.duration_ms for report in reports], self._workers) + self._overhead_s
        return reports

    def close(self) -> None:
        """Nothing is held."""

    def _work(self, request: Request) -> tuple[Done, float]:
        seen = self._seen(work_of(request.id))
        assert seen.done is not None
        objects = {
            kind: replace(ref, key=keys.object_key(request.output, kind)) for kind, ref in seen.done.objects.items()
        }
        carried = {
            objects[kind].key: seen.done.carried[ref.key]
            for kind, ref in seen.done.objects.items()
            if ref.key in seen.done.carried
        }
        done = replace(seen.done, objects=objects, carried=carried)
        duration_ms = seen.duration_ms(first=request.round == 0)
        if isinstance(request, WholeTask) and isinstance(done.reply, WholeReply):
            return _stretched(done, done.reply, request.rounds, duration_ms)
        return done, duration_ms

    def _seen(self, work: str) -> Seen:
        """What was seen of the work, or of one that is like it: a last pack of units may have another size."""
        works = self._calibration.works
        return works.get(work) or next(seen for name, seen in works.items() if _is(name, work.split("/")[0]))

    def _evaluate(self, request: EvaluateTask) -> tuple[Done, float]:
        seen, episodes = self._calibration.evaluation, self._calibration.episodes
        assert seen.done is not None and isinstance(seen.done.reply, EvaluateReply)
        returns = tuple(islice(cycle(seen.done.reply.returns), request.episodes))
        share = _batches(request.episodes) / _batches(episodes)
        return replace(seen.done, reply=replace(seen.done.reply, returns=returns)), seen.duration_ms(False) * share


def _stretched(done: Done, reply: WholeReply, rounds: int, duration_ms: float) -> tuple[Done, float]:
    """An answer and its duration for another number of rounds in one function."""
    samples, learns = (tuple(islice(cycle(part), rounds)) for part in (reply.samples, reply.learns))
    stretched = replace(reply, samples=samples, learns=learns)
    return replace(done, reply=stretched), duration_ms * rounds / len(reply.samples)


class _Storage:
    """Objects that nobody reads."""

    def get(self, key: str) -> bytes:
        raise NoSuchObject(key)

    def put(self, key: str, body: bytes) -> None:
        """Nothing is kept."""

    def persist(self, keys: Iterable[str]) -> None:
        """Nothing is kept."""

    def delete(self, keys: Iterable[str]) -> None:
        """Nothing is kept."""

    def list(self, prefix: str) -> list[str]:
        return []


class _Ledger:
    """Items in memory; there is one writer."""

    def __init__(self) -> None:
        self._items: dict[str, Record] = {}

    def load(self, item: str) -> Record | None:
        return self._items.get(item)

    def commit(self, item: str, body: bytes, version: int) -> int:
        self._items[item] = Record(version=version + 1, body=body)
        return version + 1

    def persist(self) -> None:
        """Memory it stays."""

    def close(self) -> None:
        """Nothing is held."""


class _Nowhere:
    """Takes finished rounds without keeping them."""

    def record(self, line: RoundLine) -> None:
        """The last line is in the state."""

    def persist(self) -> None:
        """Nothing is kept."""


def _busy_s(calibration: Calibration, workers: int) -> float:
    """What the functions of a usual round take."""
    return sum(
        _makespan_s([seen.duration_ms(False) for work, seen in calibration.works.items() if _is(work, kind)], workers)
        for kind in ("sample", "learn")
    )


def _is(work: str, kind: str) -> bool:
    return work.startswith(f"{kind}/")


def _makespan_s(durations_ms: list[float], workers: int) -> float:
    """Seconds until tasks that begin together have ended, evenly spread."""
    return max(max(durations_ms, default=0.0), sum(durations_ms) / workers) / 1000


def _batches(episodes: int) -> int:
    """Evaluators play whole blocks of at most `BLOCK` copies; a small one costs what a large one does, nearly."""
    return -(-episodes // BLOCK)
