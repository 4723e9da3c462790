"""Warm worker processes that serve the tasks of lanes."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Self

from marless.functions.encoding import MessagePackDecoder, Undecodable
from marless.infra.local.core_account import CoreAccount
from marless.infra.local.dispatch import Capacity
from marless.infra.local.lane import Lane, Pending, outputs
from marless.infra.local.pipe_messages import Ask, Damaged, Get, Loaded, Put, Ready, Restart, TaskEnded, checked_header
from marless.infra.local.scheduling.retries import lost_machine
from marless.infra.local.scheduling.scheduler import Scheduler
from marless.infra.local.worker_processes import Worker
from marless.infra.local.workers import Failure, Workers, local_workers

if TYPE_CHECKING:
    from marless.infra.local.resources.resource_pool import CallSource
    from marless.infra.local.resources.resource_pools import ResourcePools

# An answer that has begun to arrive was finished in time. This is the longest pause between two of its chunks.
_TRANSFER_S = 10.0
# A process that holds more than this part of its allowed memory is replaced after its task.
_FULL = 0.5

_Message = Ready | Loaded | TaskEnded | Ask | Restart | Get | Put
_decoder = MessagePackDecoder[_Message](_Message)


class TaskPool:
    """Worker processes, started when needed and kept warm, shared by lanes. `capacity.slots` of them run at once.

    After a process has imported third-party code for a lane, it serves only this lane, and there either players or
    learners. So this code reaches only its own run, and players' code never reaches learners. A process that is not as
    it was at its start ends. The operating system holds nothing else apart: processes of one user may kill each other.

    A task may ask resources in the middle of its work. While it waits for an answer it keeps its slot, but none of the
    cores, and its clock stands still. Resources have their own processes and slots, over all lanes, and share the
    cores.

    `modules` maps a function's name to its module with ``handle(body: bytes, blobs: Blobs) -> bytes``. Workers print
    into ``<logs>/<n>.log``. Other pools share the machine's `cores`. By default the `workers` are processes of this
    machine, and the tasks of runs. Pools that share their resources get them by `resources`. A pool belongs to one
    thread.
    """

    def __init__(
        self,
        capacity: Capacity,
        modules: Mapping[str, str],
        logs: Path,
        workers: Workers | None = None,
        cores: CoreAccount | None = None,
        source: "CallSource | None" = None,
        resources: "Callable[[], ResourcePools] | None" = None,
    ) -> None:
        self.modules, self.logs = modules, logs
        self._workers = workers or local_workers(capacity.slots, modules.values(), logs)
        self.workers = self._workers.processes
        self.cores = cores or CoreAccount(capacity.cores)
        self.scheduler = Scheduler(capacity, self._workers, self.cores, source)
        self._serves_runs = source is None
        self.usual_cores, self.busy_s = self.scheduler.usual_cores, self.scheduler.busy_s
        """See `Scheduler`."""
        self.presumed_cores = 1.0
        """How many cores a task is expected to need while none of its kind has ended."""
        self.any_processor = self._workers.any_processor
        """See `Workers`."""
        self.resources: ResourcePools | None = None
        """The pools that answer its tasks. None until a lane has resources."""
        self._shared_resources = resources
        self.closed = False
        # The seconds of the last start of a worker or import of a module.
        self._start_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def lane(self, name: str, blobs_root: Path, weight: float = 1.0) -> Lane:
        """The invoker of a run with objects below `blobs_root`. `name` is unique among the open lanes."""
        lane = Lane(self, name, blobs_root, weight)
        self.open(lane)
        return lane

    def open(self, lane: Lane) -> None:
        """Lets a lane take part. Raises `ValueError` if there is one of its name."""
        self.scheduler.open(lane)

    def waits(self, lane: Lane) -> None:
        """A task arrives in the lane's empty queue."""
        self.scheduler.waits(lane)

    def fileno(self) -> int:
        """Readable when `wait` would not wait for a worker."""
        return self.workers.fileno()

    def weigh(self, lane: Lane, weight: float) -> None:
        """Changes a lane's share, of resources too."""
        self.scheduler.weigh(lane, weight)
        if self.resources is not None:
            self.resources.weigh(lane)

    def width(self, lane: Lane) -> int:
        """Return the lane's own slots while all lanes have tasks, at least one."""
        return self.scheduler.width(lane)

    @property
    def lanes(self) -> list[Lane]:
        """The lanes that are open."""
        return self.scheduler.lanes

    @property
    def capacity(self) -> Capacity:
        """Return the current capacity of its workers."""
        return self.scheduler.capacity

    def has_room(self) -> bool:
        """Return True if another lane finds a worker that it may share."""
        return True

    def serve(self, lane: Lane) -> None:
        """Lets the lane's tasks ask its `resources` from now on."""
        if self.resources is None:
            from marless.infra.local.resources.resource_pools import ResourcePools

            make_own = partial(ResourcePools, self.logs / "resources", self.cores, TaskPool, self.workers.memory_mb)
            self.resources = (self._shared_resources or make_own)()
            self.workers.watch(self.resources.fileno())
        self.resources.prewarm(lane)

    def news(self) -> list[str]:
        """Lines for the user since the last call: of workers, and of resources that ask to be left alone."""
        return [*self._workers.news(), *(self.resources.news() if self.resources is not None else ())]

    @property
    def connected(self) -> int:
        """Return how many tasks its workers serve at once, 0 while no worker is connected."""
        return self._workers.slots

    def prewarm(self, function: str) -> None:
        """Imports the function's module ahead of its first task, in an idle worker or a new one below the limit."""
        may_start = len(self.workers) < self.capacity.slots
        self.workers.prewarm(self.modules[function], self.scheduler.max_workers(), may_start)

    def wait(self, timeout_s: float, lane: Lane | None = None) -> list[Lane]:
        """The lanes with reports: at once if there are any, of `lane` alone if given, else after the first report or
        after `timeout_s`."""
        until = time.monotonic() + timeout_s

        def reported() -> list[Lane]:
            return [one for one in ((lane,) if lane else self.lanes) if one.reports]

        while True:
            due_at = min(self.due_at(), self.cores.dispatch_waiting())
            self.hear(0.0 if reported() else max(0.0, min(until, due_at) - time.monotonic()))
            if (lanes := reported()) or time.monotonic() >= until:
                return lanes

    def due_at(self) -> float:
        """Return when a task's time is over, by the monotonic clock. Then `wait` has something to do."""
        expires = min((worker.clock.expires for worker in self.workers if worker.task), default=inf)
        return min(expires, self._workers.due_at(), inf if self.resources is None else self.resources.due_at())

    def drop(self, lane: Lane) -> None:
        """Ends a lane: kills the workers that run its tasks and resource calls, except calls that finish alone, and
        forgets its reports. Idempotent."""
        if self.resources is not None:
            self.resources.drop(lane)
        if not self.scheduler.close(lane):
            return
        exclusive_workers = [worker for worker in self.workers if worker.serves and worker.serves[0] == lane.name]
        for worker in {*lane.running, *exclusive_workers} if not self.workers.finish_tasks else ():
            self.workers.remove(worker)
        lane.running.clear()
        lane.reports.clear()
        self.cores.dispatch()

    def close(self) -> None:
        """Kills and reaps all workers with their process groups, except workers that finish their tasks alone. Drops
        all lanes. Idempotent."""
        self.closed = True
        self.cores.leave(self.scheduler)
        for lane in self.lanes:
            lane.close()
        self.workers.close()
        if self.resources is not None and self._shared_resources is None:
            self.resources.close()

    def hear(self, timeout_s: float = 0.0) -> None:
        """Handles messages of workers for at most `timeout_s`, and ends overdue tasks."""
        self._hear_all(timeout_s)
        if any(worker.overdue() for worker in self.workers):
            # This process may have been stopped meanwhile, so answers already in the pipe still count.
            self._hear_all(0.0)
            for worker in [worker for worker in self.workers if worker.overdue()]:
                self._end_worker(worker, "timeout")

    def _hear_all(self, timeout_s: float) -> None:
        for worker in self.workers.exchange(timeout_s):
            self._receive(worker)
        if self.resources is not None:
            self.resources.listen()
        self._workers.listen(self.scheduler.have_waiting())
        if self.scheduler.count_slots():
            self.cores.dispatch()

    def _receive(self, worker: Worker) -> None:
        try:
            while worker.inbox.fill():
                for header, body in worker.inbox.frames():
                    self._handle_message(worker, checked_header(_decoder, header, body), body)
                    if worker not in self.workers:  # it was full, or is not as it was
                        self.cores.dispatch()
                        return
                if worker.inbox.partial:
                    worker.clock.extend(_TRANSFER_S)
        except BlockingIOError:
            self.cores.dispatch()
        except Undecodable as error:  # no later frame is reliable
            is_machine = isinstance(error, Damaged) and worker.place != ""
            reason = f"{worker.place} {error}" if is_machine else "it wrote into the pipe of its worker's answers"
            self._end_worker(worker, "crash", is_machine, reason)
        else:
            self._end_worker(worker, "crash", ended_by_itself=worker.has_exited())

    def _handle_message(self, worker: Worker, message: _Message, body: bytes) -> None:
        pending = worker.task
        if message.token != worker.token:
            raise Undecodable("a task wrote this")
        if isinstance(message, Ready | Loaded | Restart):
            self._handle_process_message(worker, message)
        elif isinstance(message, Ask):
            if self.resources is None:
                raise Undecodable("no run of this pool has resources")
            self.resources.ask(self.workers, worker, message, body)
        elif isinstance(message, Get | Put):
            self._workers.exchange_object(worker, message, body)
        elif pending is not None:
            self._end_task(worker, pending, message, body)

    def _handle_process_message(self, worker: Worker, message: Ready | Loaded | Restart) -> None:
        pending = worker.task
        if isinstance(message, Restart):
            if self._serves_runs:
                raise Undecodable("no task of a run waits for another")
            worker.clock.start(worker.clock.allowed_s)
        elif isinstance(message, Ready):
            if message.module not in self.modules.values():
                raise Undecodable("nobody asked for this module")
            self._start_s = message.init_ms / 1000
            worker.ready(message, pending.task.module if pending else None)
        elif pending is not None and (reason := pending.lane.refusal(message.code, worker.place)):
            self._end_worker(worker, "refused", worker.place != "", reason)

    def _end_task(self, worker: Worker, pending: Pending, message: TaskEnded, body: bytes) -> None:
        cores = worker.processor.mean(message.processor_ms / max(message.duration_ms, 1.0))
        if not self._workers.accept(worker, pending, message, body):
            self._release(worker, pending, cores)
            pending.lane.again(pending)
            self._look_at_process(worker, pending, message)
            return
        worker.log.take()
        unbilled = self.resources.unbilled(worker) if self.resources is not None and message.error else {}
        self._release(worker, pending, cores)
        worker.remember(pending.task.reads, outputs(body))
        pending.lane.reports.append(
            pending.report(
                "crash" if message.error else "answered",
                body=body,
                duration_ms=worker.metered(message.duration_ms),
                init_ms=worker.init_ms,
                # Memory of a process that other runs use too tells nothing of this one.
                peak_mb=message.peak_mb if worker.roots == {pending.lane.root} else 0.0,
                detail=message.error,
                **unbilled,
            )
        )
        self._look_at_process(worker, pending, message)
        memory_mb = self.workers.memory_mb
        if memory_mb and message.resident_mb > _FULL * memory_mb and worker in self.workers:
            self.workers.remove(worker)

    def _look_at_process(self, worker: Worker, pending: Pending, message: TaskEnded) -> None:
        """Third-party code keeps the worker for its lane and group of tasks. Changes to the process end the worker."""
        if self._serves_runs and message.third_party_code and worker.serves is None:
            worker.serves = pending.lane.name, pending.task.group
            pending.lane.third_party_groups.add(pending.task.group)
        if self._serves_runs and message.process_is_modified:
            self.workers.remove(worker)

    def _release(self, worker: Worker, pending: Pending, cores: float) -> None:
        """The worker's task has ended. `cores` is how many it kept busy."""
        if self.resources is not None:
            self.resources.forget(worker)
        self.scheduler.release(worker, pending, cores)

    def _end_worker(self, worker: Worker, failure: Failure, ended_by_itself: bool = False, reason: str = "") -> None:
        """`ended_by_itself`: this pool did not end it, or its machine is at fault. `reason`: why the pool ends it."""
        if not self._workers.fail(worker, failure, reason):
            return
        duration_ms = worker.metered(worker.clock.elapsed_s() * 1000 - worker.init_ms)
        times = {"duration_ms": duration_ms, "init_ms": min(worker.init_ms, worker.clock.allowed_s * 1000)}
        unbilled = {} if self.resources is None else self.resources.unbilled(worker)
        if (pending := worker.task) is not None:
            self._release(worker, pending, worker.processor.mean())
            # The lane pays for the start of the worker's successor.
            self.scheduler.charge(pending, self._start_s)
        end = self.workers.remove(worker)
        if pending is not None and not (ended_by_itself and self._tries_again(worker, pending, failure, reason or end)):
            if failure == "refused":  # nothing of the task counts
                pending.forget_output()
                report = pending.refused(reason, **times)
            else:
                why = f"no answer within {worker.clock.allowed_s:g} s" if failure == "timeout" else reason or end
                report = pending.report(failure, detail=f"{why}; {worker.log.last_words()}", **times, **unbilled)
            pending.lane.reports.append(report)
        self.cores.dispatch()

    def _tries_again(self, worker: Worker, pending: Pending, failure: Failure, end: str) -> bool:
        """Return True if the attempt does not count, because of its worker's `end`. Then it waits again."""
        retries = self.scheduler.retries
        if lost_machine(worker, end):
            # Its lane does not pay for the start of another process, as it does after one that it has ended.
            self.scheduler.charge(pending, -self._start_s)
            if failure == "refused":  # another machine may have the run's code
                pending.lane.again(pending)
                return True
            return retries.again_elsewhere(pending, end)
        has_calls_beside = self.resources is not None and self.resources.has_others(pending.lane)
        return retries.again_alone(pending, end, has_calls_beside)
