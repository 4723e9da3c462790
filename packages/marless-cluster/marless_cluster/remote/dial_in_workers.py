"""Workers of other machines, which have dialled in, for a pool."""

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from marless.functions.encoding import Undecodable
from marless.functions.errors import CorruptObject, NoSuchObject, StorageFault
from marless.infra.local.available_cores import cores
from marless.infra.local.core_account import CoreAccount
from marless.infra.local.dispatch import Capacity
from marless.infra.local.file_storage import FileStorage
from marless.infra.local.lane import Lane, Pending
from marless.infra.local.pipe_messages import Get, Offer, Put, TaskCall, TaskEnded, frame
from marless.infra.local.processes.process_starters import Pipes
from marless.infra.local.separate_pools import SeparatePools
from marless.infra.local.single_run_pool import OwnPool, logs_beside
from marless.infra.local.task_pool import TaskPool
from marless.infra.local.worker_processes import Worker, WorkerProcesses
from marless.infra.local.workers import Failure
from marless_cluster.remote.answered_objects import answer_with, is_stored
from marless_cluster.remote.census import note
from marless_cluster.remote.connection import RemoteChild
from marless_cluster.remote.delivery import Delivery
from marless_cluster.remote.listener import Listener
from marless_cluster.remote.pulse import BEAT_S, SILENT_BEATS

if TYPE_CHECKING:
    from marless.infra.local.resources.resource_pools import ResourcePools

# Workers of many machines may be on their way, so their absence is no news for so long.
_LONELY_S = 2.0
# An object's request that has arrived is answered, and the task continues.
_OBJECT_S = 10.0
# Bytes of objects that are sent with a task, at most. It asks for others, which its process may have kept.
_OFFERED = 4 << 20
# Seconds for a byte on its way to a worker: 1 Gbit/s, about the capacity of the driver's thread.
_LOAD_S_PER_BYTE = 1e-8
# So long it takes until an agent that is late with a beat is lost.
_DOUBT_S = BEAT_S * SILENT_BEATS


class SlotLease:
    """A slot of one agent for a pool. The pool moves on when this agent leaves or becomes the last choice.

    `leases` counts the slots of each agent that pools have.
    """

    def __init__(self, leases: Counter[str]) -> None:
        self._leases, self._agent = leases, ""

    def slots(self, slots: Mapping[str, int], is_last_choice: Callable[[str], bool]) -> Mapping[str, int]:
        """The part of the agents' `slots` that is leased."""
        is_there = self._agent in slots
        if not is_there or is_last_choice(self._agent):
            free = (name for name, count in slots.items() if self._leases[name] < count)
            other = min(free, key=is_last_choice, default="")
            if not is_there or (other and not is_last_choice(other)):
                self.move(other)
        return {self._agent: 1} if self._agent else {}

    def move(self, agent: str = "") -> None:
        """Leases a slot of this agent in place of the one before, '' for none."""
        for name, change in ((self._agent, -1), (agent, 1)):
            if name:
                self._leases[name] += change
        self._agent = agent


class DialInWorkers:
    """The workers of the agents that are connected, at most `most` tasks at once: the `Workers` of one pool.

    Agents come and go. Each task has a core of its machine to itself. No agent has more tasks at once than slots. Idle
    processes it may have. Workers read and store objects through the pool, so a worker without a connection stores no
    more objects. With a `lease` they belong to one slot. `logs` is the folder of the pool.
    """

    use_local_cores = False

    def __init__(self, listener: Listener, logs: Path, most: float = inf, lease: SlotLease | None = None) -> None:
        self._listener, self._logs, self._most, self._lease = listener, logs, most, lease
        self.any_processor = listener.any_processor
        self._news, self._noted = list[str](), Counter[str]()
        self._storages: dict[bytes, FileStorage] = {}
        self._deliveries = WeakKeyDictionary[Worker, Delivery]()
        self._woken, self._wake = os.pipe()
        for descriptor in (self._woken, self._wake):
            os.set_blocking(descriptor, False)
        listener.watch(self._wake)
        self.processes = WorkerProcesses(self, logs)
        self.processes.watch(self._woken)
        self._closed = False
        # The time since when tasks wait without any agent, and whether that was said.
        self._lonely_since, self._is_told = inf, False

    @property
    def slots(self) -> int:
        """See `Workers`."""
        return int(min(sum(self._agents().values()), self._most))

    def can_start(self) -> bool:
        """See `Workers`. An agent dials again as soon as its last connection is in use."""
        agents = self._listener.agents()
        return any(agents[name].idle for name in self._hosts() if name in agents)

    def start(self, pipes: Pipes, log: int, memory_mb: int) -> RemoteChild:
        """Takes a worker that has dialled in. How much memory it may allocate is up to its machine. Raises `OSError`
        when none is connected."""
        return self._listener.take(self._hosts(), pipes, log)

    def free_agents(self) -> Collection[str]:
        """See `Workers`."""
        return self._free_slots()

    def order(self, worker: Worker, pending: Pending, body: bytes) -> bytes:
        """Add objects that the task reads and the worker probably lacks, so that it does not ask for them."""
        pending.stores_ahead = not pending.has_unstored
        call = TaskCall(pending.task.module, token=worker.token, ahead=pending.stores_ahead)
        offers, left, storage = list[bytes](), _OFFERED, self._storage(pending.lane)
        for ref in pending.attempt.request.reads_from_storage():
            if ref.sha256 in worker.at_hand or (left := left - ref.size) < 0:
                continue
            with suppress(CorruptObject, NoSuchObject, StorageFault):  # the task hears of it when it asks
                offers.append(frame(Offer(ref.key), storage.get(ref.key, ref.size)))
                worker.remember({ref.sha256: ref.size})
        self._deliveries[worker] = Delivery(storage, pending)
        return b"".join((*offers, frame(call, body)))

    def exchange_object(self, worker: Worker, message: Get | Put, body: bytes) -> None:
        """See `Workers`."""
        pending = worker.task
        if pending is None:
            raise Undecodable("it has no task, and so no objects")
        delivery = self._deliveries[worker]
        worker.clock.extend(_OBJECT_S)
        if isinstance(message, Put):
            delivery.require_own(message.key)
        if isinstance(message, Put) and message.ahead:
            pending.has_unstored |= not is_stored(delivery, message, body)
        else:
            self.processes.send(worker, answer_with(delivery, message, body))

    def accept(self, worker: Worker, pending: Pending, message: TaskEnded, body: bytes) -> bool:
        """See `Workers`. A task is repeated if it ran ahead of its objects and an object could not be stored. The
        repeated task waits for its objects, because only the task can react if an object cannot be stored."""
        is_again = not message.error and pending.has_unstored and pending.stores_ahead
        delivery = self._deliveries[worker]
        if message.error or is_again:
            delivery.drop()
        else:
            delivery.check(body)
        del self._deliveries[worker]
        if agent := self._listener.agents().get(worker.agent):
            agent.succeeds()
        return not is_again

    def fail(self, worker: Worker, failure: Failure, reason: str) -> bool:
        """See `Workers`. A machine with other code is asked no more."""
        if failure == "refused":
            self._listener.refuse(worker.agent, reason)
        elif agent := self._listener.agents().get(worker.agent):
            if failure == "timeout" and agent.is_in_doubt():  # soon it is either lost, or heard again
                worker.clock.extend(_DOUBT_S)
                return False
            if failure == "timeout" or reason:
                agent.fails(is_wrong=reason != "")
        if delivery := self._deliveries.pop(worker, None):
            delivery.drop()
        return True

    def listen(self, has_waiting: bool) -> None:
        """See `Workers`."""
        with suppress(BlockingIOError):
            while os.read(self._woken, 1 << 10):
                pass
        self._news += self._listener.lines()
        if (slots := self._listener.slots_by_host()) != self._noted:
            self._noted = slots
            note(self._logs, slots)
        self._tell_of_waiting(has_waiting)

    def due_at(self) -> float:
        """See `Workers`."""
        return inf if self._is_told else self._lonely_since + _LONELY_S

    def news(self) -> list[str]:
        """Reports workers that were refused, and a run that waits for a worker."""
        lines, self._news = self._news, []
        return lines

    def close(self) -> None:
        """Ends the use of its workers. The listener continues for other pools. Idempotent."""
        if not self._closed:
            self._closed = True
            self._listener.forget(self._wake)
            note(self._logs, Counter())
            os.close(self._woken)
            os.close(self._wake)
            if self._lease is not None:
                self._lease.move()

    def _storage(self, lane: Lane) -> FileStorage:
        if lane.root not in self._storages:
            self._storages[lane.root] = FileStorage(Path(os.fsdecode(lane.root)))
        return self._storages[lane.root]

    def _agents(self) -> Mapping[str, int]:
        """Return how many tasks of this pool each agent may serve at once."""
        slots = {name: agent.slots for name, agent in self._listener.agents().items()}
        if self._closed:
            return {}
        return slots if self._lease is None else self._lease.slots(slots, self._is_last_choice)

    def _free_slots(self) -> Mapping[str, int]:
        """Of the agents that may begin a task. Agents of last choice are among them only if no other agent is free, and
        agents that rest only if all do."""
        at_work = Counter(worker.agent for worker in self.processes if worker.task is not None)
        slots, agents = self._agents(), self._listener.agents()
        awake = {name: count for name, count in slots.items() if name in agents and not agents[name].rests()} or slots
        free = {name: free for name, count in awake.items() if (free := count - at_work[name]) > 0}
        return {name: count for name, count in free.items() if not self._is_last_choice(name)} or free

    def _is_last_choice(self, name: str) -> bool:
        agent = self._listener.agents().get(name)
        return agent is not None and agent.is_last_choice

    def _hosts(self) -> list[str]:
        """The agents where a process may start, those first that have the fewest for each free slot."""
        processes = Counter(worker.agent for worker in self.processes)
        free = self._free_slots()
        return sorted(free, key=lambda name: processes[name] / free[name])

    def _tell_of_waiting(self, has_waiting: bool) -> None:
        if self.slots:
            if self._is_told:
                self._news.append("a worker is connected; the run goes on")
            self._lonely_since, self._is_told = inf, False
        elif self._lonely_since == inf:
            if has_waiting:
                self._lonely_since = time.monotonic()
        elif not self._is_told and time.monotonic() >= self._lonely_since + _LONELY_S:
            self._is_told = True
            self._news.append(f"no worker is connected to {self._listener.address}; the run waits for one")


def dial_in_pool(
    listener: Listener,
    modules: Mapping[str, str],
    logs: Path,
    most: float = inf,
    lease: SlotLease | None = None,
    resources: "Callable[[], ResourcePools] | None" = None,
) -> TaskPool:
    """A pool of workers that dial in. See `TaskPool` for `modules`, `logs` and `resources`, `DialInWorkers` for `most`
    and `lease`. Resources have this machine's cores, and tasks have none of them."""
    capacity = Capacity(1, inf, _LOAD_S_PER_BYTE)
    workers = DialInWorkers(listener, logs, most, lease)
    return TaskPool(capacity, modules, logs, workers, cores=CoreAccount(cores()), resources=resources)


def dial_in_run(listener: Listener, blobs_root: Path, modules: Mapping[str, str]) -> OwnPool:
    """A pool of one lane: a single run on the workers that are connected."""
    return OwnPool(dial_in_pool(listener, modules, logs_beside(blobs_root)), blobs_root)


def separate_dial_in_pools(listener: Listener, modules: Mapping[str, str], logs: Path) -> SeparatePools:
    """A slot of an agent for every run. Its processes end with the run."""
    leases = Counter[str]()

    def make_pool(modules: Mapping[str, str], logs: Path, resources: "Callable[[], ResourcePools]") -> TaskPool:
        return dial_in_pool(listener, modules, logs, lease=SlotLease(leases), resources=resources)

    return SeparatePools(modules, logs, make_pool, lambda: sum(listener.slots_by_host().values()))


class PoolListener(Listener):
    """Makes pools of the workers that it takes in, see `WorkerListener`."""

    def run_pool(self, blobs_root: Path, modules: Mapping[str, str]) -> OwnPool:
        """Return a pool of one run."""
        return dial_in_run(self, blobs_root, modules)

    def pool(self, modules: Mapping[str, str], logs: Path, most: float) -> TaskPool:
        """Return a pool for many runs, with at most so many tasks at once."""
        return dial_in_pool(self, modules, logs, most)

    def separate_pools(self, modules: Mapping[str, str], logs: Path) -> SeparatePools:
        """Return pools of one slot for each run."""
        return separate_dial_in_pools(self, modules, logs)
