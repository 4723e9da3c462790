"""Chooses the next task of a pool and its worker, and accounts for the time of its slots."""

import time
from dataclasses import replace
from math import inf
from typing import Protocol

from marless.functions.system_errors import explain
from marless.infra.local.available_cores import cores as cores_here
from marless.infra.local.core_account import CoreAccount, soon
from marless.infra.local.dispatch import CORES, GPUS, Capacity, Need, Task
from marless.infra.local.lane import Lane, Pending
from marless.infra.local.scheduling.lanes import Lanes
from marless.infra.local.scheduling.retries import Retries
from marless.infra.local.worker_processes import Worker
from marless.infra.local.workers import Workers


class TaskSource(Protocol):
    """What gives a pool its tasks if not runs: all of them are served by the same code."""

    def plan(self, held_cores: float) -> tuple[float, float]:
        """Return how many tasks may begin beside `held_cores`, and how many cores the next one lacks."""
        ...

    def next_at(self, earliest: float) -> float:
        """Return when a task may begin, at the `earliest`; both by the monotonic clock."""
        ...

    def urgency(self) -> float:
        """See `Sharer`."""
        ...

    def body(self, worker: Worker, pending: Pending) -> bytes:
        """Return the request of the task, which the worker begins."""
        ...


class Scheduler:
    """Shares the `cores` with the schedulers of other pools, see `Sharer`."""

    def __init__(
        self, capacity: Capacity, available: Workers, cores: CoreAccount, source: TaskSource | None = None
    ) -> None:
        self.capacity, self.cores, self.workers = capacity, cores, available.processes
        self._available, self._source = available, source
        self.lanes = Lanes()
        self.retries = Retries(self.workers)
        # How many slots there are since when, and slots times seconds before.
        self._slots, self._counted_at, self._slot_s = 0, time.monotonic(), 0.0
        self.count_slots()
        cores.join(self)

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
        if not has_idle or not self.lanes.have_waiting():
            return inf
        return soon() if self._source is None else self._source.next_at(soon())

    def start_waiting(self, held_cores: float) -> float:
        """See `Sharer`."""
        limit, lacking_cores = (inf, 0.0) if self._source is None else self._source.plan(held_cores)
        while limit > 0 and self._available.slots and not self._serve_alone():
            limit -= 1
            lanes = self.lanes.startable(self.capacity.slots)
            if not lanes:
                return 0.0
            slots = self.workers.slots(self.capacity.load_s_per_byte, self._available.free_agents())
            # An import costs more than a slot that is not the lane's own gains, where each slot has two processes.
            may_start = len(self.workers) < min(self.max_workers(), 2 * self.capacity.slots)
            now, in_use = time.monotonic(), self._in_use(held_cores)
            choice, lacking_cores = self.lanes.choose(lanes, slots, in_use, self.capacity, now, may_start)
            if choice is None or not self._hand_over(self.lanes[choice.lane], choice.task, choice.slot):
                break
        return lacking_cores

    def max_workers(self) -> int:
        """Upper bound on worker processes. Idle ones with third-party code serve nobody else: for each slot one that
        plays and one that learns, and one for each lane."""
        slots = self.capacity.slots
        few = self._source is not None or self.workers.memory_mb
        return slots if few else slots + max(slots, len(self.lanes))

    def limit_cores(self) -> None:
        """For tasks that begin from now on there are no more cores than the machine has, also where slots were taken
        for cores before."""
        if self._available.use_local_cores:
            self.cores.total = min(self.cores.total, cores_here())
            self.capacity = replace(self.capacity, cores=self.cores.total)

    def count_slots(self) -> bool:
        """Takes over how many slots there are; whether the number has changed."""
        now, before = time.monotonic(), self._slots
        self._slot_s += before * (now - self._counted_at)
        self._counted_at, self._slots = now, self._available.slots
        if self._slots != before:
            self.capacity = replace(self.capacity, slots=max(1, self._slots))
        return self._slots != before

    def busy_share(self) -> float:
        """The part of the time since the pool was made for which its slots ran tasks that have ended."""
        self.count_slots()
        return min(1.0, sum(self.lanes.busy_s.values()) / self._slot_s) if self._slot_s else 0.0

    def release(self, worker: Worker, pending: Pending, cores: float) -> None:
        """The worker's task has ended; `cores` is how many it kept busy."""
        seconds = worker.clock.elapsed_s()
        loading_s = self.capacity.load_s_per_byte * worker.missing(pending.task.reads)
        if worker.computes:
            self.cores.change(-worker.processor.expected)
        worker.end()
        pending.lane.running.discard(worker)
        self.lanes.task_ended(pending, seconds, loading_s, cores, self.capacity)

    def _serve_alone(self) -> bool:
        """Whether a task is served alone, or waits for that; it begins when the others have ended."""
        if not self.retries.hold_others_back():
            return False
        if (alone := self.retries.next_alone()) is not None:
            pending, number = alone
            self._hand_over(pending.lane, pending.task, number)
        return True

    def _hand_over(self, lane: Lane, task: Task, slot: int | None) -> bool:
        """Has a worker begin the task; False if no worker can be started now."""
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
        cores = task.need[CORES] if self._available.use_local_cores else 0.0
        worker.begin(pending, task.module, lane.root, pending.attempt.timeout_s, cores)
        pending.queued_ms = (worker.clock.since - pending.asked_at) * 1000
        lane.running.add(worker)
        if GPUS in task.need:
            worker.modules.add(GPUS)
        body = pending.attempt.body() if self._source is None else self._source.body(worker, pending)
        order = self._available.order(worker, pending, body)
        self.cores.change(worker.processor.expected)
        self.lanes.task_started(lane, task, self.capacity)
        self.workers.send(worker, order)
        return True

    def _in_use(self, held_cores: float) -> Need:
        """How much of each resource but slots the running tasks occupy: as measured of cores, else as they need."""
        running = [worker.task.task.need for worker in self.workers if worker.task is not None]
        others = {name: sum(need.get(name, 0.0) for need in running) for name in self.capacity.others}
        return {CORES: self.cores.busy() + held_cores, **others}
