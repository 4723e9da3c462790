"""A pool of warm worker processes that run the functions of one run or of many on this machine."""

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

from functions.encoding import MessagePackDecoder, Undecodable
from functions.system_errors import explain
from infra.local.dispatch import CORES, Capacity, FairShares, Need, Slot, Task, choose, dominant_share
from infra.local.lane import Lane, Pending, outputs
from infra.local.pipe_messages import Call, Ended, Ready, frame
from infra.local.processes.process_starters import Forker, Spawner, worker_environment
from infra.local.worker_processes import Worker, Workers

# An answer that has begun to arrive was finished in time; this is the longest pause between two of its chunks.
_TRANSFER_S = 10.0
# How often it is looked at what tasks keep busy, while others wait for cores.
_LOOK_S = 0.05
# A process that holds more than this part of what it may allocate is replaced after its task.
_FULL = 0.5
# What a run is told, and how processes end that another process killed, or a system without memory.
_KILLED = "other processes killed workers, maybe those of another run; their tasks are tried again alone"
_FROM_OUTSIDE = [f"killed by SIG{name}" for name in ("KILL", "TERM", "INT", "HUP", "QUIT", "USR1", "USR2")]

_decoder = MessagePackDecoder[Ready | Ended](Ready | Ended)


class Pool:
    """Worker processes, of which `capacity.slots` work at once, started when needed and kept warm, shared by lanes.

    A process that has imported code which is not ours serves from then on the lane for which it did, and there either
    what plays or what learns: what such code does to its process reaches no other run, and what plays reaches nothing
    that learns. A process that is not as it was at its start serves nobody any more. The operating system holds nothing
    else apart: processes of one user may kill each other. A task whose worker was killed from outside, while other
    lanes had processes, is tried again once with none of them, and only this attempt counts.

    `modules` maps a function's name to the module whose ``handle(body: bytes, blobs: Blobs) -> bytes`` serves it;
    `threads` is the number of threads numerical libraries use in a worker. What workers print goes to
    ``<logs>/<n>.log``. With `memory_mb` every worker may allocate its part of so much memory; beyond, a task fails. A
    pool belongs to one thread.
    """

    def __init__(
        self,
        capacity: Capacity,
        modules: Mapping[str, str],
        logs: Path,
        threads: int = 1,
        memory_mb: float = 0.0,
    ) -> None:
        self.capacity, self.modules, self.logs = capacity, modules, logs
        environment, self._memory_mb = worker_environment(threads), memory_mb / capacity.slots
        forks = sys.platform == "linux"
        starter = Forker(environment, modules.values(), logs / "zygote.log") if forks else Spawner(environment)
        self._workers = Workers(starter, logs, self._memory_mb)
        self._lanes: dict[str, Lane] = {}
        self._weights = 0.0
        self._shares = FairShares()
        # Tasks that are to be served with none of another lane beside them.
        self._alone: list[Pending] = []
        # When it was measured how many cores tasks keep busy, and how many.
        self._measured = 0.0, 0.0
        self.usual_cores: dict[str, float] = {}
        """How many cores the last task of each kind kept busy: what is expected of a run that has run none."""
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

    def busy_share(self) -> float:
        """The part of the time since the pool was made for which its slots ran tasks that have ended."""
        return sum(self.busy_s.values()) / (self.capacity.slots * (time.monotonic() - self._began))

    def prewarm(self, function: str) -> None:
        """Imports the function's module ahead of its first task, in an idle worker or a new one below the limit."""
        module = self.modules[function]
        idle = [worker for worker in self._workers if worker.task is None and not worker.serves]
        free = [worker for worker in idle if not worker.warming and worker.alive()]
        if any(worker.has(module) for worker in free):
            return
        try:
            worker = (
                free[0]
                if free
                else self._workers.start(self._most())
                if len(self._workers) < self.capacity.slots
                else None
            )
        except OSError:  # the first task will report the same error
            return
        if worker is not None:
            worker.warming = module
            self._workers.send(worker, frame(Call(module, warm=True, token=worker.token)))

    def wait(self, timeout_s: float, lane: Lane | None = None) -> list[Lane]:
        """The lanes with reports: at once if there are any, of `lane` alone if given, else after the first report or
        after `timeout_s`."""
        until = time.monotonic() + timeout_s
        while True:
            expires = min((worker.expires for worker in self._workers if worker.task), default=until)
            if self._waits_for_cores():
                expires = min(expires, time.monotonic() + _LOOK_S)
                self.dispatch()
            lanes = self._reported(lane)
            self._pump(0.0 if lanes else max(0.0, min(until, expires) - time.monotonic()))
            if (lanes := self._reported(lane)) or time.monotonic() >= until:
                return lanes

    def drop(self, lane: Lane) -> None:
        """Ends a lane: kills the workers that run its tasks, and forgets its reports. Idempotent."""
        if self._lanes.pop(lane.name, None) is None:
            return
        self._weights = sum(other.weight for other in self._lanes.values())
        exclusive_workers = [worker for worker in self._workers if worker.serves and worker.serves[0] == lane.name]
        for worker in {*lane.running, *exclusive_workers}:
            self._workers.remove(worker)
        lane.running.clear()
        lane.reports.clear()
        self._shares.close(lane.name)
        self.dispatch()

    def close(self) -> None:
        """Kills and reaps all workers with their process groups; drops all lanes. Idempotent."""
        self.closed = True
        for lane in list(self._lanes.values()):
            lane.close()
        self._workers.close()

    def waits(self, lane: Lane) -> None:
        """A task comes to the lane's empty queue."""
        if lane.name in self._lanes:
            self._shares.waits(lane.name)

    def dispatch(self) -> None:
        """Hands waiting tasks to workers, as long as there is room."""
        while not self.closed and not self._serve_alone():
            lanes = [lane for lane in self._lanes.values() if lane.waiting and self._may_start(lane)]
            if not lanes:
                return
            slots = self._workers.slots(self.capacity.load_s_per_byte)
            queues = {lane.name: self._startable(lane, slots) for lane in lanes}
            alike = {lane.name: lane.waiting.alike() for lane in lanes}
            now = time.monotonic()
            choice = choose(self._shares, queues, slots, self._in_use(), self.capacity, now, alike)
            if choice is None:
                return
            self._hand_over(self._lanes[choice.lane], choice.task, choice.slot)

    def _serve_alone(self) -> bool:
        """Whether a task is served alone, or waits for that; it begins when the others have ended."""
        working = [worker.task for worker in self._workers if worker.task is not None]
        if any(pending.alone for pending in working):
            return True
        self._alone = [pending for pending in self._alone if self._lanes.get(pending.lane.name) is pending.lane]
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

    def _startable(self, lane: Lane, slots: list[Slot]) -> list[Task]:
        """The lane's next tasks. For a slot beyond its own no process ends, and none starts where each slot has two: an
        import costs more than it gains."""
        tasks = lane.waiting.first()
        if len(lane.running) < self.width(lane) or len(slots) < min(self._most(), 2 * self.capacity.slots):
            return tasks
        free = [slot for slot in slots if slot.idle_since is not None]
        return [task for task in tasks if any(slot.suits(lane.name, task) for slot in free)]

    def _most(self) -> int:
        """So many processes are kept, because idle ones with code that is not ours serve nobody else: for each slot one
        that plays and one that learns, and one for each lane."""
        slots = self.capacity.slots
        return slots if self._memory_mb else slots + max(slots, len(self._lanes))

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
        worker.begin(pending, task.module, lane.root, pending.timeout_s)
        pending.queued_ms = (worker.since - pending.asked_at) * 1000
        lane.running.add(worker)
        self._measured = self._measured[0], self._measured[1] + task.need[CORES]
        self._shares.started(lane.name, task.expected_s * dominant_share(task, self.capacity))
        self._workers.send(worker, frame(Call(task.module, lane.root, token=worker.token), pending.body))

    def _in_use(self) -> Need:
        """How much of each resource but slots the running tasks occupy: as measured of cores, else as they need."""
        running = [worker.task.task.need for worker in self._workers if worker.task is not None]
        others = {name: sum(need.get(name, 0.0) for need in running) for name in self.capacity.others}
        return {CORES: self._busy_cores(), **others}

    def _busy_cores(self) -> float:
        """What the running tasks keep busy: as predicted at first, as measured later. Up to `_LOOK_S` old.

        It does not matter where every slot has a core: 0.
        """
        if self.capacity.cores >= self.capacity.slots:
            return 0.0
        now = time.monotonic()
        if now < self._measured[0] + _LOOK_S:
            return self._measured[1]
        busy = sum(
            worker.busy_cores(worker.task.task.need[CORES]) for worker in self._workers if worker.task is not None
        )
        self._measured = now, busy
        return busy

    def _waits_for_cores(self) -> bool:
        idle = sum(worker.task is not None for worker in self._workers) < self.capacity.slots
        return idle and any(lane.waiting for lane in self._lanes.values())

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
                    self._hear(worker, _decoder.decode(header), body)
                    if worker not in self._workers:  # it was full, or spoilt
                        self.dispatch()
                        return
                if worker.inbox.partial:
                    worker.await_rest(_TRANSFER_S)
        except BlockingIOError:
            self.dispatch()
        except Undecodable:  # a task wrote into the pipe, so no later frame is reliable
            self._bury(worker, "crash", reason="it wrote into the pipe of its worker's answers")
        else:
            self._bury(worker, "crash", ended_by_itself=worker.has_exited())

    def _hear(self, worker: Worker, message: Ready | Ended, body: bytes) -> None:
        pending = worker.task
        if message.token != worker.token:
            raise Undecodable("a task wrote this")
        if isinstance(message, Ready):
            self._start_s = message.init_ms / 1000
            worker.ready(message, pending.task.module if pending else None)
        elif pending is not None:
            worker.log.take()
            self._release(worker, pending, message.processor_ms / max(message.duration_ms, 1.0))
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
                )
            )
            if message.foreign and worker.serves is None:
                worker.serves = pending.lane.name, pending.task.group
                pending.lane.foreign.add(pending.task.group)
            if message.spoilt or (self._memory_mb and message.resident_mb > _FULL * self._memory_mb):
                self._workers.remove(worker)

    def _release(self, worker: Worker, pending: Pending, cores: float, besides_s: float = 0.0) -> None:
        """The worker's task has ended; `cores` is how many it kept busy, `besides_s` what its end costs."""
        seconds = time.monotonic() - worker.since
        loading_s = self.capacity.load_s_per_byte * worker.missing(pending.task.reads)
        worker.end()
        lane, task = pending.lane, pending.task
        self._measured = self._measured[0], max(0.0, self._measured[1] - task.need[CORES])
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
        """`ended_by_itself`: nobody here has ended it; `reason`: why it is ended here."""
        duration_ms = worker.metered((time.monotonic() - worker.since) * 1000 - worker.init_ms)
        if (pending := worker.task) is not None:
            # The lane pays for the start of the worker's successor.
            self._release(worker, pending, worker.busy_cores(pending.task.need[CORES]), self._start_s)
        end = self._workers.remove(worker)
        if pending is not None and ended_by_itself and end in _FROM_OUTSIDE and self._has_neighbours(pending):
            pending.remarks = (_KILLED,)
            pending.lane.again(pending)
            self._alone.append(pending)
        elif pending is not None:
            why = f"no answer within {worker.allowed_s:g} s" if outcome == "timeout" else reason or end
            detail = f"{why}; last line of {worker.log.path}: {worker.log.last_words()}"
            report = pending.report(outcome, duration_ms=duration_ms, init_ms=worker.init_ms, detail=detail)
            pending.lane.reports.append(report)
        self.dispatch()

    def _has_neighbours(self, pending: Pending) -> bool:
        """Whether the task's worker may have been killed by a process of another lane."""
        others = (worker.task.lane.name if worker.task else (worker.serves or ("",))[0] for worker in self._workers)
        return not pending.alone and any(name not in ("", pending.lane.name) for name in others)
