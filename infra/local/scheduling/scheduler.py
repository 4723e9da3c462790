"""Choose the next task of a pool and its worker, and account for the time of slots and lanes."""

import time
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from marless.functions.system_errors import explain
from marless.infra.local import dispatch
from marless.infra.local.available_cores import cores as cores_here
from marless.infra.local.core_account import CoreAccount, soon
from marless.infra.local.lane import Lane, Pending
from marless.infra.local.scheduling.fair_shares import FairShares
from marless.infra.local.scheduling.retries import Retries
from marless.infra.local.worker_processes import Worker
from marless.infra.local.workers import Workers

if TYPE_CHECKING:
    from marless.infra.local.resources.resource_pool import CallSource


class Scheduler:
    """Lets lanes share a pool by their weights. Shares the `cores` with the schedulers of other pools, see `Sharer`.

    A `source` gives the pool its tasks if not runs do. The same code serves all tasks of a source.
    """

    def __init__(
        self, capacity: dispatch.Capacity, available: Workers, cores: CoreAccount, source: "CallSource | None" = None
    ) -> None:
        self.capacity, self.cores, self.workers = capacity, cores, available.processes
        self._available, self._source = available, source
        self.usual_cores: dict[str, float] = {}
        """The cores that the last task of each kind kept busy, the expectation for a new run."""
        self.busy_s: dict[str, float] = {}
        """Seconds of tasks in slots, by lane, start-up included."""
        self._lanes: dict[str, Lane] = {}
        self._weights = 0.0
        self._shares = FairShares()
        self.retries = Retries(self.workers)
        # How many slots there are since when, and slots times seconds before.
        self._slots, self._counted_at, self._slot_s = 0, time.monotonic(), 0.0
        self.count_slots()
        cores.join(self)

    @property
    def lanes(self) -> list[Lane]:
        """The lanes that are open."""
        return list(self._lanes.values())

    def open(self, lane: Lane) -> None:
        """Lets a lane take part. Raises `ValueError` if there is one of its name."""
        if lane.name in self._lanes:
            raise ValueError(f"the pool has a lane {lane.name} already")
        self._lanes[lane.name] = lane
        self._weights += lane.weight
        self._shares.open(lane.name, lane.weight)

    def close(self, lane: Lane) -> bool:
        """The lane takes part no more. Returns False if it did not before."""
        if self._lanes.pop(lane.name, None) is None:
            return False
        self._weights = sum(other.weight for other in self._lanes.values())
        self._shares.close(lane.name)
        return True

    def weigh(self, lane: Lane, weight: float) -> None:
        """Changes a lane's share."""
        self._weights += weight - lane.weight
        lane.weight = weight
        self._shares.weigh(lane.name, weight)

    def width(self, lane: Lane) -> int:
        """Return the lane's own slots while all lanes have tasks, at least one."""
        return max(1, round(self.capacity.slots * lane.weight / self._weights))

    def waits(self, lane: Lane) -> None:
        """A task arrives in the lane's empty queue."""
        if lane.name in self._lanes:
            self._shares.waits(lane.name)

    def have_waiting(self) -> bool:
        """Return True if a task waits."""
        return any(lane.waiting for lane in self._lanes.values())

    @property
    def slots(self) -> int:
        """See `Sharer`."""
        return self.capacity.slots

    def urgency(self) -> float:
        """See `Sharer`."""
        return inf if self._source is None else self._source.urgency()

    def next_check_at(self) -> float:
        """See `Sharer`."""
        has_idle = sum(worker.task is not None for worker in self.workers) < self._available.slots
        if not has_idle or not self.have_waiting():
            return inf
        return soon() if self._source is None else self._source.next_at(soon())

    def start_waiting(self, held_cores: float) -> float:
        """See `Sharer`."""
        limit, lacking_cores = (inf, 0.0) if self._source is None else self._source.plan(held_cores)
        while limit > 0 and self._available.slots and not self._serve_alone():
            limit -= 1
            if not (lanes := self._startable()):
                return 0.0
            choice, lacking_cores = self._choose(lanes, held_cores)
            if choice is None or not self._hand_over(self._lanes[choice.lane], choice.task, choice.slot):
                break
        return lacking_cores

    def max_workers(self) -> int:
        """Upper bound on worker processes. Idle ones with third-party code stay reserved: for each slot one that plays
        and one that learns, and one for each lane."""
        slots = self.capacity.slots
        few = self._source is not None or self.workers.memory_mb
        return slots if few else slots + max(slots, len(self._lanes))

    def limit_cores(self) -> None:
        """For tasks that begin from now on there are no more cores than the machine has, also where slots were taken
        for cores before."""
        if self._available.use_local_cores:
            self.cores.total = min(self.cores.total, cores_here())
            self.capacity = replace(self.capacity, cores=self.cores.total)

    def count_slots(self) -> bool:
        """Takes over the number of slots. Returns True if it has changed."""
        now, before = time.monotonic(), self._slots
        self._slot_s += before * (now - self._counted_at)
        self._counted_at, self._slots = now, self._available.slots
        if self._slots != before:
            self.capacity = replace(self.capacity, slots=max(1, self._slots))
        return self._slots != before

    def busy_share(self) -> float:
        """The busy part of the slots' time since the pool was made, for tasks that have ended."""
        self.count_slots()
        return min(1.0, sum(self.busy_s.values()) / self._slot_s) if self._slot_s else 0.0

    def release(self, worker: Worker, pending: Pending, cores: float) -> None:
        """The worker's task has ended. `cores` is how many it kept busy."""
        seconds = worker.clock.elapsed_s()
        loading_s = self.capacity.load_s_per_byte * worker.missing(pending.task.reads)
        if worker.computes:
            self.cores.change(-worker.processor.expected)
        worker.end()
        lane, task, kind = pending.lane, pending.task, pending.kind
        lane.running.discard(worker)
        lane.measured(pending, seconds - loading_s, cores)
        if kind not in self.usual_cores:
            for other in self._lanes.values():
                other.expect(kind, cores)
        self.usual_cores[kind] = cores
        self.busy_s[lane.name] = self.busy_s.get(lane.name, 0.0) + seconds
        self.charge(pending, seconds - task.expected_s)

    def charge(self, pending: Pending, seconds: float) -> None:
        """The task has cost its lane so much more than was expected (negative: less)."""
        self._shares.correct(pending.lane.name, seconds * dispatch.dominant_share(pending.task, self.capacity))

    def _startable(self) -> list[Lane]:
        """The lanes with tasks that may have one more slot. Only tasks that are known to end soon get others' slots,
        because a slot that was lent returns only at the end of its task."""
        lanes = (lane for lane in self._lanes.values() if lane.waiting)
        return [lane for lane in lanes if len(lane.running) < self.width(lane) or lane.may_borrow()]

    def _choose(self, lanes: list[Lane], held_cores: float) -> tuple[dispatch.TaskChoice | None, float]:
        """The next task of one of the `lanes`, or else how many cores the first task lacks."""
        capacity = self.capacity
        slots = self.workers.slots(capacity.load_s_per_byte, self._available.free_agents())
        # An import costs more than a slot that is not the lane's own gains, where each slot has two processes.
        may_start = len(self.workers) < min(self.max_workers(), 2 * capacity.slots)
        queues = {lane.name: _first(lane, slots, may_start or len(lane.running) < self.width(lane)) for lane in lanes}
        alike = {lane.name: lane.waiting.alike() for lane in lanes}
        now, in_use = time.monotonic(), self._in_use(held_cores)
        choice = dispatch.choose(self._shares, queues, slots, in_use, capacity, now, alike)
        if choice is not None or sum(slot.idle_since is None for slot in slots) >= capacity.slots:
            return choice, 0.0
        return None, min((queue[0].need[dispatch.CORES] for queue in queues.values() if queue), default=0.0)

    def _serve_alone(self) -> bool:
        """Return True if a task is served alone, or waits for that. It begins when the others have ended."""
        if not self.retries.hold_others_back():
            return False
        if (alone := self.retries.next_alone()) is not None:
            pending, number = alone
            self._hand_over(pending.lane, pending.task, number)
        return True

    def _hand_over(self, lane: Lane, task: dispatch.QueuedTask, slot: int | None) -> bool:
        """Let a worker begin the task. Returns False if no worker can be started now."""
        if slot is None and not self._available.can_start():
            return False
        try:
            worker = self.workers.start(self.max_workers()) if slot is None else self.workers.numbered(slot)
        except OSError as error:
            lane.reports.append(lane.pop(task).report("throttled", detail=f"cannot start a worker: {explain(error)}"))
            return True
        if not worker.alive():
            self.workers.remove(worker)
            return True
        pending = lane.pop(task)
        cores = task.need[dispatch.CORES] if self._available.use_local_cores else 0.0
        worker.begin(pending, task.module, lane.root, pending.attempt.timeout_s, cores)
        pending.queued_ms = (worker.clock.since - pending.asked_at) * 1000
        lane.running.add(worker)
        if dispatch.GPUS in task.need:
            worker.modules.add(dispatch.GPUS)
        body = pending.attempt.body() if self._source is None else self._source.body(worker, pending)
        order = self._available.order(worker, pending, body)
        self.cores.change(worker.processor.expected)
        self._shares.started(lane.name, task.expected_s * dispatch.dominant_share(task, self.capacity))
        self.workers.send(worker, order)
        return True

    def _in_use(self, held_cores: float) -> dispatch.Need:
        """Return the part of each resource except slots that running tasks occupy: cores as measured, others by
        need."""
        running = [worker.task.task.need for worker in self.workers if worker.task is not None]
        others = {name: sum(need.get(name, 0.0) for need in running) for name in self.capacity.others}
        return {dispatch.CORES: self.cores.busy() + held_cores, **others}


def _first(lane: Lane, slots: list[dispatch.WorkerSlot], may_start: bool) -> list[dispatch.QueuedTask]:
    """The next tasks of the lane. Unless a process `may_start`, a free process must be able to serve them."""
    tasks = lane.waiting.first()
    if may_start:
        return tasks
    free = [slot for slot in slots if slot.idle_since is not None]
    return [task for task in tasks if any(slot.suits(lane.name, task) for slot in free)]
