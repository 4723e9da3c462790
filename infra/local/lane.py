"""A lane of a pool: the invoker of one run, with its queue, its reports and the durations of its tasks."""

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from math import inf
from pathlib import Path
from typing import Any, Literal, Protocol, Self

import msgspec

from marless.functions.encoding import JsonDecoder, Undecodable, to_json
from marless.functions.messages.exchange import Failed, Report
from marless.functions.messages.message import Ref
from marless.functions.messages.order import Attempt, Order
from marless.functions.resources.settings import Resource
from marless.infra.local.core_account import CoreAccount
from marless.infra.local.dispatch import CORES, GPUS, SLOTS, Capacity, Need, QueuedTask, TaskQueue
from marless.infra.local.file_storage import FileStorage
from marless.infra.local.worker_handle import WorkerProcess

# The predicted duration of a task while none like it has ended.
_UNKNOWN_S = 1.0
# A task is late when it takes this factor times its prediction, and a second.
_LATE = 4.0
# A task that sleeps keeps a little of a core busy.
_LEAST_CORES = 0.01
# Unfinished episodes count as so many bytes: a process that has not written them may have to play them again.
REPLAY_COST_BYTES = 1 << 20
# Faster loading than this makes a worker's data unimportant.
_NEGLIGIBLE_S = 1e-3
# The weight of the newest measurement in a mean of a lane's measurements.
_NEWEST = 0.5
_LEARNS = "learner"


class _Outputs(msgspec.Struct):
    """The objects of an answer. Its other fields are skipped."""

    objects: dict[str, Ref] = {}


_OUTPUTS = JsonDecoder(_Outputs)


@dataclass(slots=True)
class Pending:
    """An attempt in a lane, from the request to its report."""

    task: QueuedTask
    lane: "Lane"
    attempt: Attempt
    asked_at: float
    queued_ms: float = 0.0
    # It is tried again while no other lane's task runs.
    alone: bool = False
    # How often its machine was lost.
    lost: int = 0
    # Whether it continues before its objects are stored, and whether one of them could not be.
    stores_ahead: bool = False
    has_unstored: bool = False
    remarks: tuple[str, ...] = ()

    def report(
        self, outcome: Literal["answered", "timeout", "crash", "throttled", "withdrawn"], **measurements: Any
    ) -> Report:
        """Return the report of its end. `measurements` are other fields of the report."""
        return Report(
            id=self.id,
            attempt=self.attempt.number,
            function=self.attempt.function,
            outcome=outcome,
            queued_ms=self.queued_ms,
            remarks=self.remarks,
            **measurements,
        )

    def refused(self, reason: str, **measurements: Any) -> Report:
        """Nothing of it counts, and another attempt fails equally."""
        body = to_json(Failed(id=self.id, attempt=self.attempt.number, kind="request", message=reason, again=False))
        return self.report("answered", body=body, **measurements)

    @property
    def output(self) -> str:
        """Return the prefix of its objects' keys, or ''."""
        return self.attempt.output

    def forget_output(self) -> None:
        """Deletes the objects that it has stored. A later attempt would take them for its own."""
        storage = FileStorage(Path(os.fsdecode(self.lane.root)))
        storage.delete(storage.list(self.output) if self.output else [])

    @property
    def id(self) -> str:
        """The task's id."""
        return self.attempt.id

    @property
    def work(self) -> str:
        """Return the part of its id that it shares with the next round's task: the id without run and round."""
        return _work(self.id)

    @property
    def kind(self) -> str:
        """Return the kind of task, the first word of its work: ``sample``, ``grad``, ``learn`` ..."""
        return _kind(self.work)


Refusal = Callable[[Mapping[str, str], str], str]
"""Why an answer from files with these hashes by name, of a machine of that name or this one (''), is no answer."""


class SharedPool(Protocol):
    """A `marless.infra.local.task_pool.TaskPool` as lanes and the sources of their tasks know it."""

    modules: Mapping[str, str]
    logs: Path
    cores: CoreAccount
    usual_cores: dict[str, float]
    presumed_cores: float
    any_processor: bool

    @property
    def capacity(self) -> Capacity: ...
    @property
    def lanes(self) -> "Iterable[Lane]": ...
    @property
    def workers(self) -> Iterable[WorkerProcess[Pending]]: ...
    def open(self, lane: "Lane") -> None:
        """Lets a lane take part."""

    def weigh(self, lane: "Lane", weight: float) -> None:
        """Changes a lane's share."""

    def serve(self, lane: "Lane") -> None:
        """Lets the lane's tasks ask its resources."""

    def waits(self, lane: "Lane") -> None:
        """A task arrives in the lane's empty queue."""

    def drop(self, lane: "Lane") -> None:
        """Ends a lane."""

    def prewarm(self, function: str) -> None:
        """Imports the function's module."""

    def hear(self) -> None:
        """Handles messages of workers."""

    def close(self) -> None:
        """Ends all lanes and workers."""

    def wait(self, timeout_s: float, lane: "Lane") -> object:
        """Waits for reports of the lane."""

    def due_at(self) -> float: ...
    def fileno(self) -> int: ...


class Lane:
    """Runs one run's functions in a pool. `TaskPool.lane` makes it. `weight` is its share among all lanes.

    Closing it ends its tasks. The pool and its other lanes continue.
    """

    def __init__(self, pool: SharedPool, name: str, blobs_root: Path, weight: float) -> None:
        self._pool, self.name, self.weight, self.logs = pool, name, weight, pool.logs
        self.any_processor = pool.any_processor
        """Whether processors that round otherwise than this one may serve it."""
        self.resources: Mapping[str, Resource] = {}
        """The resources for its tasks, by name."""
        self.root = os.fsencode(blobs_root.absolute())
        self.reports: list[Report] = []
        self.is_withdrawn = False
        """Whether the run is to stop: none of its tasks begins, or waits for a resource that asks to be left alone."""
        self.running: set[WorkerProcess[Pending]] = set()
        self.refusal: Refusal = lambda code, place: ""
        self.third_party_groups: set[str] = set()
        """The groups of its tasks that import third-party code."""
        self.waiting = TaskQueue(pool.capacity)
        self._numbers = count()
        self._pending: dict[int, Pending] = {}
        self._seconds: dict[str, float] = {}
        # The seconds of one rollout, over all rollouts, because equal numbers in two rounds are unrelated.
        self._rollout_s: float | None = None
        self._cores: dict[str, float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def prewarm(self, function: str) -> None:
        """Imports the function's module ahead of its first task, in an idle worker or a new one below the limit."""
        self._pool.prewarm(function)

    def compare_code(self, refusal: Refusal) -> None:
        """Refuses answers by this from now on."""
        self.refusal = refusal

    def serve(self, resources: Mapping[str, Resource]) -> None:
        """Lets its tasks ask these resources, by name, from now on."""
        self.resources = resources
        if resources:
            self._pool.serve(self)

    def invoke(self, attempt: Attempt) -> None:
        """Queue the attempt. Never wait.

        Its time limit counts from the hand-over to a worker, start-up included: no attempt is metered for more than its
        time-out. Raises `KeyError` for a function without a module.
        """
        self._add(Pending(self._task(attempt), self, attempt, time.monotonic()))
        self._pool.cores.dispatch()

    def wait(self, timeout_s: float) -> list[Report]:
        """Returns the reports that arrived. If there are none, waits for the first for at most `timeout_s`."""
        self._pool.wait(timeout_s, self)
        reports, self.reports = self.reports, []
        return reports

    def close(self) -> None:
        """Kills the workers that run its tasks, with their process groups, and drops the others. Idempotent."""
        self.withdraw()
        self._pool.drop(self)

    def pop(self, task: QueuedTask) -> Pending:
        """Removes a waiting task."""
        self.waiting.remove(task)
        return self._pending.pop(task.number)

    def pending_tasks(self) -> Collection[Pending]:
        """The waiting tasks, in order of arrival."""
        return self._pending.values()

    def waits_since(self) -> float:
        """Return when the first waiting task arrived, by the monotonic clock, or `inf` if none waits."""
        return next((pending.asked_at for pending in self._pending.values()), inf)

    def again(self, pending: Pending) -> None:
        """A task that has begun waits again."""
        self._add(pending)

    def withdraw(self) -> None:
        """Reports as withdrawn the tasks that no worker has begun."""
        self.is_withdrawn = True
        self.reports += [pending.report("withdrawn") for pending in self._pending.values()]
        self.waiting = TaskQueue(self._pool.capacity)
        self._pending.clear()

    def _add(self, pending: Pending) -> None:
        if not self.waiting:
            self._pool.waits(self)
        self.waiting.add(pending.task)
        self._pending[pending.task.number] = pending

    def may_borrow(self) -> bool:
        """Return True if the lane may use others' slots: ended tasks predict its waiting tasks, and its running tasks
        are not late."""
        return not self._late() and all(self._pending[task.number].kind in self._cores for task in self.waiting.first())

    def _late(self) -> bool:
        return any(
            worker.task is not None and worker.clock.elapsed_s() > _LATE * worker.task.task.expected_s + _UNKNOWN_S
            for worker in self.running
        )

    def measured(self, pending: Pending, seconds: float, cores: float) -> None:
        """Learns from a task that took `seconds` without loading its inputs, as far as loading is predicted."""
        self._seconds[pending.work] = self._seconds[pending.kind] = seconds
        if rollouts := pending.attempt.request.sampled_rollouts():
            self._rollout_s = _mean(self._rollout_s, seconds / rollouts)
        self._cores[pending.kind] = _mean(self._cores.get(pending.kind), cores)

    def expect(self, kind: str, cores: float) -> None:
        """The first task of a kind has ended, in any lane: waiting tasks are expected to be like it."""

        def update(task: QueuedTask) -> QueuedTask:
            pending = self._pending[task.number]
            if pending.kind == kind:
                pending.task = replace(task, need=_need(max(cores, _LEAST_CORES), task.need.get(GPUS, 0.0)))
            return pending.task

        self.waiting.change(update)

    def _task(self, attempt: Attempt) -> QueuedTask:
        function, request, work = attempt.function, attempt.request, _work(attempt.id)
        kind = _kind(work)
        seconds = self._seconds.get(work, self._seconds.get(kind, _UNKNOWN_S))
        if (rollouts := request.sampled_rollouts()) and self._rollout_s is not None:
            seconds = rollouts * self._rollout_s
        usual = self._pool.usual_cores.get(kind, self._pool.presumed_cores)
        cores = max(self._cores.get(kind, usual), _LEAST_CORES)
        module = self._pool.modules[function]
        reads = _inputs(request)
        if sum(reads.values()) * self._pool.capacity.load_s_per_byte < _NEGLIGIBLE_S:
            reads = {}
        # Players must not reach learners.
        group = _LEARNS if function == _LEARNS else "plays"
        need = _need(cores, float(request.gpus() if GPUS in self._pool.capacity.others else 0))
        return QueuedTask(
            next(self._numbers), module, max(seconds, 1e-4), need, reads, group, group in self.third_party_groups
        )


@lru_cache(maxsize=64)
def _need(cores: float, gpus: float) -> Need:
    """Cached, so that the dispatcher tells by the object that tasks need the same."""
    return {SLOTS: 1.0, CORES: cores} | ({GPUS: gpus} if gpus else {})


def _work(id: str) -> str:
    return id.split("/", 2)[-1]


def _kind(work: str) -> str:
    return work.partition("/")[0]


def _mean(before: float | None, newest: float) -> float:
    return newest if before is None else before + _NEWEST * (newest - before)


def _inputs(request: Order) -> Mapping[str, int]:
    sizes = {ref.sha256: ref.size for ref in request.reads_from_storage()}
    return sizes | {ref.sha256: max(ref.size, REPLAY_COST_BYTES) for ref in request.continued_episodes()}


def outputs(body: bytes) -> Mapping[str, int]:
    """The bytes of each object that an answer names, by hash, or {} if the answer is unreadable."""
    try:
        return {ref.sha256: ref.size for ref in _OUTPUTS.decode(body).objects.values()}
    except Undecodable:
        return {}
