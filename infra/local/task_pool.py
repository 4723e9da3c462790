"""Warm worker processes of this machine that serve the tasks of lanes."""

import time
from collections.abc import Collection, Mapping
from math import inf
from pathlib import Path
from typing import Any, Literal, Self

from marless.functions.encoding import MessagePackDecoder, Undecodable
from marless.functions.system_errors import explain
from marless.infra.local.core_account import CoreAccount, soon
from marless.infra.local.dispatch import CORES, GPUS, Capacity, FairShares, Need, Slot, Task, choose, dominant_share
from marless.infra.local.lane import Lane, Pending, outputs
from marless.infra.local.pipe_messages import (
    Ask,
    Call,
    Damaged,
    Ended,
    Get,
    Loaded,
    Put,
    Ready,
    Restart,
    checked_header,
    frame,
)
from marless.infra.local.processes.process_starters import Starter, local_starter, worker_environment
from marless.infra.local.worker_processes import Worker, Workers

# An answer that has begun to arrive was finished in time; this is the longest pause between two of its chunks.
_TRANSFER_S = 10.0
# A process that holds more than this part of what it may allocate is replaced after its task.
_FULL = 0.5
# What a run is told, and how processes end that another process killed, or a system without memory.
_KILLED = "other processes killed workers, maybe those of another run; their tasks are tried again alone"
_FROM_OUTSIDE = [f"killed by SIG{name}" for name in ("KILL", "TERM", "INT", "HUP", "QUIT", "USR1", "USR2")]

_Message = Ready | Loaded | Ended | Ask | Restart | Get | Put
_decoder = MessagePackDecoder[_Message](_Message)


class TaskPool:
    """Worker processes, of which `capacity.slots` work at once, started when needed and kept warm, shared by lanes.

    A process that has imported code which is not ours serves from then on the lane for which it did, and there either
    what plays or what learns: what such code does to its process reaches no other run, and what plays reaches nothing
    that learns. A process that is not as it was at its start serves nobody any more. The operating system holds nothing
    else apart: processes of one user may kill each other. A task whose worker was killed from outside, while other
    lanes had processes, is tried again once with none of them, and only this attempt counts.

    `modules` maps a function's name to the module whose ``handle(body: bytes, blobs: Blobs) -> bytes`` serves it;
    `threads` is the number of threads numerical libraries use in a worker. What workers print goes to
    ``<logs>/<n>.log``. With `memory_mb` every worker may allocate its part of so much memory; beyond, a task fails.
    `cores` are those of the machine, which it shares with other pools. With `outlives_s` a task that has begun is not
    interrupted with its lane or its pool, and has so many seconds to end without them. Of the tokens of services its
    processes have the one in the variable `token`. A pool belongs to one thread.
    """

    any_processor = False
    """Whether its workers' processors may round otherwise than this one's."""

    def __init__(
        self,
        capacity: Capacity,
        modules: Mapping[str, str],
        logs: Path,
        threads: int = 1,
        memory_mb: float = 0.0,
        cores: CoreAccount | None = None,
        outlives_s: float = 0.0,
        token: str = "",
        starter: Starter | None = None,
    ) -> None:
        self.capacity, self.modules, self.logs = capacity, modules, logs
        self.memory_mb = memory_mb / capacity.slots
        if starter is None:
            environment = worker_environment(threads, token)
            starter = local_starter(environment, modules.values(), logs / "zygote.log", outlives_s)
        self._outlives = outlives_s > 0
        self._workers = Workers(starter, logs, self.memory_mb)
        self.cores = cores or CoreAccount(capacity.cores)
        self.cores.join(self)
        self._lanes: dict[str, Lane] = {}
        self._weights = 0.0
        self._shares = FairShares()
        # Tasks that are to be served with none of another lane beside them.
        self._alone: list[Pending] = []
        self.usual_cores: dict[str, float] = {}
        """How many cores the last task of each kind kept busy: what is expected of a run that has run none."""
        self.presumed_cores = 1.0
        """What is expected of a task while none of its kind has ended."""
        self.closed = False
        # What the last start of a worker or import of a module took.
        self._start_s = 0.0
        self._began = time.monotonic()
        self.busy_s: dict[str, float] = {}
        """Seconds for which slots ran tasks, by lane, start-up included."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def lane(self, name: str, blobs_root: Path, weight: float = 1.0) -> Lane:
        """The invoker of a run whose objects are below `blobs_root`; `name` is unique among the open lanes."""
        lane = Lane(self, name, blobs_root, weight)
        self.open(lane)
        return lane

    def fileno(self) -> int:
        """Readable when `wait` would not wait for a worker."""
        return self._workers.fileno()

    def open(self, lane: Lane) -> None:
        """Lets a lane take part; raises `ValueError` when there is one of its name."""
        if lane.name in self._lanes:
            raise ValueError(f"the pool has a lane {lane.name} already")
        self._lanes[lane.name] = lane
        self._weights += lane.weight
        self._shares.open(lane.name, lane.weight)

    def weigh(self, lane: Lane, weight: float) -> None:
        """Changes a lane's share."""
        self._weights += weight - lane.weight
        lane.weight = weight
        self._shares.weigh(lane.name, weight)

    def width(self, lane: Lane) -> int:
        """How many slots are the lane's own while all lanes have tasks; at least one."""
        return max(1, round(self.capacity.slots * lane.weight / self._weights))

    def serve(self, lane: Lane) -> None:
        """Lets the lane's tasks ask its `resources`; raises `NotImplementedError` in a pool whose tasks ask nothing."""
        raise NotImplementedError

    def busy_share(self) -> float:
        """The part of the time since the pool was made for which its slots ran tasks that have ended."""
        return sum(self.busy_s.values()) / (self.capacity.slots * (time.monotonic() - self._began))

    def prewarm(self, function: str) -> None:
        """Imports the function's module ahead of its first task, in an idle worker or a new one below the limit."""
        self._workers.prewarm(self.modules[function], self._most(), may_start=len(self._workers) < self.capacity.slots)

    def wait(self, timeout_s: float, lane: Lane | None = None) -> list[Lane]:
        """The lanes with reports: at once if there are any, of `lane` alone if given, else after the first report or
        after `timeout_s`."""
        until = time.monotonic() + timeout_s
        while True:
            expires, looks_at = self.due_at(), self.cores.dispatch_waiting()
            lanes = self._reported(lane)
            self._pump(0.0 if lanes else max(0.0, min(until, expires, looks_at) - time.monotonic()))
            if (lanes := self._reported(lane)) or time.monotonic() >= until:
                return lanes

    def due_at(self) -> float:
        """When a task's time is over, by the monotonic clock: then `wait` has something to do."""
        return min((worker.clock.expires for worker in self._workers if worker.task), default=inf)

    def drop(self, lane: Lane) -> None:
        """Ends a lane: kills the workers that run its tasks, unless these outlive it, and forgets its reports.
        Idempotent."""
        if self._lanes.pop(lane.name, None) is None:
            return
        self._weights = sum(other.weight for other in self._lanes.values())
        exclusive_workers = [worker for worker in self._workers if worker.serves and worker.serves[0] == lane.name]
        for worker in {*lane.running, *exclusive_workers} if not self._outlives else ():
            self._workers.remove(worker)
        lane.running.clear()
        lane.reports.clear()
        self._shares.close(lane.name)
        self.dispatch()

    def close(self) -> None:
        """Kills and reaps all workers with their process groups, unless their tasks outlive it; drops all lanes.
        Idempotent."""
        self.closed = True
        for lane in list(self._lanes.values()):
            lane.close()
        self._workers.close(self._outlives)
        self.cores.leave(self)

    def waits(self, lane: Lane) -> None:
        """A task comes to the lane's empty queue."""
        if lane.name in self._lanes:
            self._shares.waits(lane.name)

    def dispatch(self) -> None:
        """Hands waiting tasks to workers, as long as there is room, in all pools that share the cores."""
        self.cores.dispatch()

    def start_waiting(self, held_cores: float) -> float:
        """See `Sharer`."""
        while not self.closed and self._may_begin() and not self._serve_alone():
            lanes = [lane for lane in self._lanes.values() if lane.waiting and self._may_start(lane)]
            if not lanes:
                return 0.0
            slots = self._slots()
            queues = {lane.name: self._startable(lane, slots) for lane in lanes}
            alike = {lane.name: lane.waiting.alike() for lane in lanes}
            now = time.monotonic()
            choice = choose(self._shares, queues, slots, self._in_use(held_cores), self.capacity, now, alike)
            if choice is None:
                has_slot = sum(slot.idle_since is None for slot in slots) < self.capacity.slots
                first = (queue[0].need[CORES] for queue in queues.values() if queue)
                return min(first, default=0.0) if has_slot else 0.0
            self._hand_over(self._lanes[choice.lane], choice.task, choice.slot)
        return 0.0

    @property
    def lanes(self) -> Collection[Lane]:
        """Those that are open."""
        return self._lanes.values()

    @property
    def slots(self) -> int:
        """See `Sharer`."""
        return self.capacity.slots

    @property
    def workers(self) -> Workers:
        """See `Sharer`."""
        return self._workers

    def urgency(self) -> float:
        """See `Sharer`: the monotonic time since which the first of its tasks waits, if another task waits for it."""
        return inf

    def looks_at(self) -> float:
        """See `Sharer`."""
        idle = sum(worker.task is not None for worker in self._workers) < self.capacity.slots
        return soon() if idle and any(lane.waiting for lane in self._lanes.values()) else inf

    def _may_begin(self) -> bool:
        """Whether a task may begin for all that the pool's own rules say."""
        return True

    def _serve_alone(self) -> bool:
        """Whether a task is served alone, or waits for that; it begins when the others have ended."""
        working = [worker.task for worker in self._workers if worker.task is not None]
        if any(pending.alone for pending in working):
            return True
        self._alone = [pending for pending in self._alone if pending in pending.lane.pending_tasks()]
        if self._alone and not working:
            pending = self._alone.pop(0)
            task, serves = pending.task, (pending.lane.name, pending.task.group)
            for worker in [worker for worker in self._workers if worker.serves and worker.serves[0] != serves[0]]:
                self._workers.remove(worker)
            idle = (worker.number for worker in self._workers if worker.serves in (None, serves) and worker.alive())
            self._hand_over(pending.lane, task, next(idle, None))
            return True
        return bool(self._alone)

    def _may_start(self, lane: Lane) -> bool:
        """Whether the lane may have one more slot: beyond its own only for tasks that are known to end soon, because a
        slot that was lent comes back at the end of its task alone."""
        return len(lane.running) < self.width(lane) or lane.may_borrow()

    def _slots(self) -> list[Slot]:
        """The processes as the dispatcher sees them."""
        return self._workers.slots(self.capacity.load_s_per_byte)

    def _startable(self, lane: Lane, slots: list[Slot]) -> list[Task]:
        """The lane's next tasks. For a slot beyond its own no process ends, and none starts where each slot has two: an
        import costs more than it gains."""
        tasks = lane.waiting.first()
        if len(lane.running) < self.width(lane) or len(self._workers) < min(self._most(), 2 * self.capacity.slots):
            return tasks
        free = [slot for slot in slots if slot.idle_since is not None]
        return [task for task in tasks if any(slot.suits(lane.name, task) for slot in free)]

    def _most(self) -> int:
        """So many processes are kept, because idle ones with code that is not ours serve nobody else: for each slot one
        that plays and one that learns, and one for each lane."""
        slots = self.capacity.slots
        return slots if self.memory_mb else slots + max(slots, len(self._lanes))

    def _hand_over(self, lane: Lane, task: Task, slot: int | None) -> None:
        try:
            worker = self._workers.start(self._most()) if slot is None else self._workers.numbered(slot)
        except OSError as error:
            lane.reports.append(lane.pop(task).report("throttled", detail=f"cannot start a worker: {explain(error)}"))
            return
        if not worker.alive():
            self._workers.remove(worker)
            return
        pending = lane.pop(task)
        worker.begin(pending, task.module, lane.root, pending.attempt.timeout_s, self._cores_here(task))
        pending.queued_ms = (worker.clock.since - pending.asked_at) * 1000
        lane.running.add(worker)
        if GPUS in task.need:
            worker.modules.add(GPUS)
        order = self._order(worker, pending)
        self.cores.change(worker.processor.expected)
        self._shares.started(lane.name, task.expected_s * dominant_share(task, self.capacity))
        self._workers.send(worker, order)

    def _cores_here(self, task: Task) -> float:
        """How many of this machine's cores the task is expected to keep busy."""
        return task.need[CORES]

    def _order(self, worker: Worker, pending: Pending) -> bytes:
        """The frames by which the worker begins."""
        call = Call(pending.task.module, pending.lane.root, token=worker.token)
        return frame(call, self._body(worker, pending))

    def _body(self, worker: Worker, pending: Pending) -> bytes:
        """What the worker is told of the task, which is its own from now on."""
        return pending.attempt.body()

    def _in_use(self, held_cores: float) -> Need:
        """How much of each resource but slots the running tasks occupy: as measured of cores, else as they need."""
        running = [worker.task.task.need for worker in self._workers if worker.task is not None]
        others = {name: sum(need.get(name, 0.0) for need in running) for name in self.capacity.others}
        return {CORES: self.cores.busy() + held_cores, **others}

    def hear(self) -> None:
        """Takes in what workers say, and ends the tasks whose time is over; waits for nothing."""
        self._pump(0.0)

    def _reported(self, lane: Lane | None) -> list[Lane]:
        return [one for one in ((lane,) if lane else self._lanes.values()) if one.reports]

    def _pump(self, timeout_s: float) -> None:
        self._hear_all(timeout_s)
        if any(worker.overdue() for worker in self._workers):
            # This process may have been stopped meanwhile, so answers already in the pipe still count.
            self._hear_all(0.0)
            for worker in [worker for worker in self._workers if worker.overdue()]:
                self._bury(worker, "timeout")

    def _hear_all(self, timeout_s: float) -> None:
        for worker in self._workers.exchange(timeout_s):
            self._receive(worker)

    def _receive(self, worker: Worker) -> None:
        try:
            while worker.inbox.fill():
                for header, body in worker.inbox.frames():
                    self._hear(worker, checked_header(_decoder, header, body), body)
                    if worker not in self._workers:  # it was full, or spoilt
                        self.dispatch()
                        return
                if worker.inbox.partial:
                    worker.clock.extend(_TRANSFER_S)
        except BlockingIOError:
            self.dispatch()
        except Undecodable as error:  # no later frame is reliable
            is_machine = isinstance(error, Damaged) and worker.place != ""
            reason = f"{worker.place} {error}" if is_machine else "it wrote into the pipe of its worker's answers"
            self._bury(worker, "crash", is_machine, reason)
        else:
            self._bury(worker, "crash", ended_by_itself=worker.has_exited())

    def _hear(self, worker: Worker, message: _Message, body: bytes) -> None:
        pending = worker.task
        if message.token != worker.token:
            raise Undecodable("a task wrote this")
        if isinstance(message, Ready | Loaded):
            self._hear_of_process(worker, message)
        elif isinstance(message, Ask):
            self._ask(worker, message, body)
        elif isinstance(message, Restart):
            self._restart_clock(worker)
        elif isinstance(message, Get | Put):
            self._exchange_object(worker, message, body)
        elif pending is not None:
            self._end(worker, pending, message, body)

    def _hear_of_process(self, worker: Worker, message: Ready | Loaded) -> None:
        pending = worker.task
        if isinstance(message, Ready):
            if message.module not in self.modules.values():
                raise Undecodable("nobody asked for this module")
            self._start_s = message.init_ms / 1000
            worker.ready(message, pending.task.module if pending else None)
        elif pending is not None and (reason := pending.lane.refusal(message.code, worker.place)):
            self._refuse(worker, pending, reason)

    def _refuse(self, worker: Worker, pending: Pending, reason: str) -> None:
        """The process has other code than its run: it ends, and nothing of its task counts."""
        duration_ms = worker.metered(worker.clock.elapsed_s() * 1000 - worker.init_ms)
        self._release(worker, pending, worker.processor.mean(), self._start_s)
        self._workers.remove(worker)
        pending.forget_output()
        pending.lane.reports.append(pending.refused(reason, duration_ms=duration_ms, init_ms=worker.init_ms))

    def _ask(self, worker: Worker, message: Ask, question: bytes) -> None:
        """A task asks; raises `Undecodable` where none can."""
        raise Undecodable("no task of this pool asks")

    def _exchange_object(self, worker: Worker, message: Get | Put, body: bytes) -> None:
        """A task reads or stores an object; raises `Undecodable` where it does so by itself."""
        raise Undecodable("workers of this pool have the storage")

    def _restart_clock(self, worker: Worker) -> None:
        """A task has only waited so far; raises `Undecodable` where none can."""
        raise Undecodable("no task of this pool waits for another")

    def _end(self, worker: Worker, pending: Pending, message: Ended, body: bytes) -> None:
        worker.log.take()
        unbilled = self._unbilled(worker) if message.error else {}
        cores = worker.processor.mean(message.processor_ms / max(message.duration_ms, 1.0))
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
        if self.memory_mb and message.resident_mb > _FULL * self.memory_mb and worker in self._workers:
            self._workers.remove(worker)

    def _look_at_process(self, worker: Worker, pending: Pending, message: Ended) -> None:
        """Code that is not ours keeps the worker for its lane and what plays or learns there; changes end it."""
        if message.foreign and worker.serves is None:
            worker.serves = pending.lane.name, pending.task.group
            pending.lane.foreign.add(pending.task.group)
        if message.spoilt:
            self._workers.remove(worker)

    def _unbilled(self, worker: Worker) -> dict[str, Any]:
        """What the report says of a task that gives no answer, beside how long it took."""
        return {}

    def _release(self, worker: Worker, pending: Pending, cores: float, besides_s: float = 0.0) -> None:
        """The worker's task has ended; `cores` is how many it kept busy, `besides_s` what its end costs."""
        seconds = worker.clock.elapsed_s()
        loading_s = self.capacity.load_s_per_byte * worker.missing(pending.task.reads)
        if worker.computes:
            self.cores.change(-worker.processor.expected)
        worker.end()
        lane, task = pending.lane, pending.task
        lane.running.discard(worker)
        lane.measured(pending, seconds - loading_s, cores)
        if pending.kind not in self.usual_cores:
            for other in self._lanes.values():
                other.expect(pending.kind, cores)
        self.usual_cores[pending.kind] = cores
        self.busy_s[lane.name] = self.busy_s.get(lane.name, 0.0) + seconds
        self._shares.correct(lane.name, (seconds + besides_s - task.expected_s) * dominant_share(task, self.capacity))

    def _bury(
        self, worker: Worker, outcome: Literal["timeout", "crash"], ended_by_itself: bool = False, reason: str = ""
    ) -> None:
        """`ended_by_itself`: this pool did not end it, or its machine is at fault. `reason`: why the pool ends it."""
        duration_ms = worker.metered(worker.clock.elapsed_s() * 1000 - worker.init_ms)
        unbilled = self._unbilled(worker)
        if (pending := worker.task) is not None:
            # The lane pays for the start of the worker's successor.
            self._release(worker, pending, worker.processor.mean(), self._start_s)
        end = self._workers.remove(worker)
        if pending is not None and not (ended_by_itself and self._tries_again(worker, pending, reason or end)):
            why = f"no answer within {worker.clock.allowed_s:g} s" if outcome == "timeout" else reason or end
            detail = f"{why}; {worker.log.last_words()}"
            report = pending.report(outcome, duration_ms=duration_ms, init_ms=worker.init_ms, detail=detail, **unbilled)
            pending.lane.reports.append(report)
        self.dispatch()

    def _tries_again(self, worker: Worker, pending: Pending, end: str) -> bool:
        """Whether the attempt does not count, because of how its worker has come to its `end`: then it waits again."""
        if end not in _FROM_OUTSIDE or not self._has_neighbours(pending):
            return False
        pending.remarks, pending.alone = (_KILLED,), True
        pending.lane.again(pending)
        self._alone.append(pending)
        return True

    def _has_neighbours(self, pending: Pending) -> bool:
        """Whether the task's worker may have been killed by a process of another lane."""
        others = (worker.task.lane.name if worker.task else (worker.serves or ("",))[0] for worker in self._workers)
        return not pending.alone and any(name not in ("", pending.lane.name) for name in others)
