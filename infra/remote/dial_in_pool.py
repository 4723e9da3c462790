"""A pool whose workers are on other machines and have dialled in."""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from math import inf
from pathlib import Path

from functions.encoding import Undecodable
from infra.local.core_account import CoreAccount
from infra.local.dispatch import Capacity, Task
from infra.local.file_storage import FileStorage
from infra.local.lane import Lane, Pending
from infra.local.own_process import cores
from infra.local.pipe_messages import Get, Put
from infra.local.pool import Pool
from infra.local.processes.remote_objects import answer_with
from infra.local.separate_pools import SeparatePools
from infra.local.single_run_pool import OwnPool, logs_beside
from infra.local.worker_handle import connection_lost
from infra.local.worker_processes import Worker
from infra.remote.listener import DialInStarter, Listener

# Workers of many machines may be on their way: so long it is no news that none is there.
_LONELY_S = 2.0
# How long a process of an agent may take to come back.
_RETURN_S = 1.0
# An object's request that has arrived is answered, and the task goes on.
_OBJECT_S = 10.0
# A task whose machine was lost so often is taken for the cause.
_LOST = 3


class DialInPool(Pool):
    """Its slots are the workers that are connected, at most `most`, which come and go; each has a core of its machine
    to itself. They read and store objects through the pool, so that one whose connection is lost stores none any more.

    `modules` and `logs` are as in `TaskPool`.
    """

    def __init__(
        self,
        listener: Listener,
        modules: Mapping[str, str],
        logs: Path,
        most: float = inf,
    ) -> None:
        super().__init__(Capacity(1, inf), modules, logs, cores=CoreAccount(cores()), starter=DialInStarter(listener))
        self.any_processor = listener.any_processor
        self._listener, self._most_slots, self._news = listener, most, list[str]()
        self._storages: dict[bytes, FileStorage] = {}
        self._woken, self._wake = os.pipe()
        for descriptor in (self._woken, self._wake):
            os.set_blocking(descriptor, False)
        self._workers.watch(self._woken)
        listener.watch(self._wake)
        # Since when tasks wait with nobody connected, and whether that was said.
        self._lonely_since, self._is_told = inf, False
        # Until when a process is expected back that has made room.
        self._returns_until = 0.0
        # How many slots there were since when, and slots times seconds before.
        self._counted_at, self._slot_s = time.monotonic(), 0.0
        self._count()

    @property
    def connected(self) -> int:
        """How many workers there are for this pool."""
        return int(min(len(self._workers) + self._listener.idle, self._most_slots))

    def news(self) -> list[str]:
        """Lines for the user since the last call: of workers that were refused, and of a run that waits for one."""
        lines, self._news = self._news, []
        return lines

    def limit_cores(self) -> None:
        """Resources have this machine's cores, and tasks have none of them."""

    def busy_share(self) -> float:
        """The part of the time for which workers were connected that they ran tasks that have ended."""
        self._count()
        return sum(self.busy_s.values()) / self._slot_s if self._slot_s else 0.0

    def due_at(self) -> float:
        """See `TaskPool`."""
        return min(super().due_at(), inf if self._is_told else self._lonely_since + _LONELY_S)

    def looks_at(self) -> float:
        """See `Sharer`."""
        return super().looks_at() if self.connected else inf

    def close(self) -> None:
        """Ends the connections of its workers, whose agents end the processes; drops all lanes. Idempotent."""
        if not self.closed:
            self._listener.forget(self._wake)
            super().close()
            os.close(self._woken)
            os.close(self._wake)

    def _may_begin(self) -> bool:
        return self.connected > 0 and time.monotonic() >= self._returns_until

    def _most(self) -> int:
        return self.capacity.slots

    def _cores_here(self, task: Task) -> float:
        return 0.0

    def _storage_of(self, lane: Lane) -> bytes:
        return b""

    def _hand_over(self, lane: Lane, task: Task, slot: int | None) -> None:
        if slot is None and not self._listener.idle:
            self._make_room()
        else:
            super()._hand_over(lane, task, slot)

    def _make_room(self) -> None:
        """A task needs a new process: the one that is idle longest ends, and its agent brings another one."""
        idle = [worker for worker in self._workers if worker.task is None]
        if idle:
            self._workers.remove(min(idle, key=lambda worker: worker.idle_since))
        self._returns_until = time.monotonic() + _RETURN_S

    def _exchange_object(self, worker: Worker, message: Get | Put, body: bytes) -> None:
        pending = worker.task
        if pending is None:
            raise Undecodable("it has no task, and so no objects")
        root = pending.lane.root
        if root not in self._storages:
            self._storages[root] = FileStorage(Path(os.fsdecode(root)))
        answer = answer_with(self._storages[root], message, body)
        worker.clock.extend(_OBJECT_S)
        self._workers.send(worker, answer)

    def _hear_all(self, timeout_s: float) -> None:
        super()._hear_all(timeout_s)
        with suppress(BlockingIOError):
            while os.read(self._woken, 1 << 10):
                self._returns_until = 0.0
        if self.connected != self._slots_counted:
            self._count()
            self.dispatch()
        self._news += self._listener.lines()
        self._tell_of_waiting()

    def _count(self) -> None:
        """Takes over how many workers are connected."""
        now = time.monotonic()
        if self._counted_at < now:
            self._slot_s += self._slots_counted * (now - self._counted_at)
        self._counted_at, self._slots_counted = now, self.connected
        self.capacity = replace(self.capacity, slots=max(1, self._slots_counted))

    _slots_counted = 0

    def _tell_of_waiting(self) -> None:
        if self.connected:
            if self._is_told:
                self._news.append("a worker is connected; the run goes on")
            self._lonely_since, self._is_told = inf, False
        elif self._lonely_since == inf:
            if any(lane.waiting for lane in self.lanes):
                self._lonely_since = time.monotonic()
        elif not self._is_told and time.monotonic() >= self._lonely_since + _LONELY_S:
            self._is_told = True
            self._news.append(f"no worker is connected to {self._listener.address}; the run waits for one")

    def _tries_again(self, worker: Worker, pending: Pending, end: str) -> bool:
        """A machine that is lost is no fault of its task, unless task after task of that work loses one."""
        if not worker.place or end != connection_lost(worker.place):
            return super()._tries_again(worker, pending, end)
        pending.lost += 1
        if pending.lost > _LOST:
            return False
        pending.remarks = (f"{end}; its task is served elsewhere",)
        pending.lane.again(pending)
        return True


class DialInRun(OwnPool):
    """A pool of one lane: a single run on the workers that are connected."""

    def __init__(self, listener: Listener, blobs_root: Path, modules: Mapping[str, str]) -> None:
        self._dial_in = DialInPool(listener, modules, logs_beside(blobs_root))
        super().__init__(self._dial_in, blobs_root)

    @property
    def connected(self) -> int:
        """See `DialInPool`."""
        return self._dial_in.connected


class SeparateDialInPools(SeparatePools):
    """A connected worker for every run, whose process ends with the run."""

    def __init__(self, listener: Listener, modules: Mapping[str, str], logs: Path) -> None:
        super().__init__(modules, logs)
        self._listener = listener

    def has_room(self) -> bool:
        """Whether there is a worker for another run; the first may wait for one."""
        waiting = sum(not len(lane.own.workers) for lane in self._open if not lane.own.closed)
        return not any(not lane.own.closed for lane in self._open) or waiting < self._listener.idle

    def _pool(self, blobs_root: Path) -> Pool:
        return DialInPool(self._listener, self._modules, logs_beside(blobs_root), most=1)
