"""A pool whose workers are on other machines and have dialled in."""

import os
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Literal
from weakref import WeakKeyDictionary

from marless.functions.encoding import Undecodable
from marless.functions.errors import CorruptObject, NoSuchObject, StorageFault
from marless.infra.local.available_cores import cores
from marless.infra.local.core_account import CoreAccount
from marless.infra.local.dispatch import Capacity, Slot, Task, dominant_share
from marless.infra.local.file_storage import FileStorage
from marless.infra.local.lane import Lane, Pending
from marless.infra.local.pipe_messages import Call, Ended, Get, Offer, Put, frame
from marless.infra.local.pool import Pool
from marless.infra.local.processes.remote_objects import answer_with, is_stored
from marless.infra.local.separate_pools import SeparatePools
from marless.infra.local.single_run_pool import OwnPool, logs_beside
from marless.infra.local.worker_processes import Worker
from marless.infra.remote.census import note
from marless.infra.remote.delivery import Delivery
from marless.infra.remote.listener import DialInStarter, Listener
from marless.infra.remote.pulse import BEAT_S, SILENT_BEATS

# Workers of many machines may be on their way: so long it is no news that none is there.
_LONELY_S = 2.0
# How long an agent may take to dial once more.
_RETURN_S = 1.0
# An object's request that has arrived is answered, and the task goes on.
_OBJECT_S = 10.0
# Bytes of objects that are sent with a task, at most; it asks for others, which its process may have kept.
_OFFERED = 4 << 20
# Seconds that a byte takes on its way to a worker: 1 Gbit/s, which is also about what the driver's thread serves.
_LOAD_S_PER_BYTE = 1e-8
# So long it takes until an agent that is late with a beat is lost.
_DOUBT_S = BEAT_S * SILENT_BEATS
# A task whose machine was lost so often is taken for the cause.
_LOST = 3


class DialInPool(Pool):
    """Its slots are those of the agents that are connected, at most `most`, which come and go; each has a core of its
    machine to itself. No agent has more tasks at once than slots; idle processes it may have. They read and store
    objects through the pool, so that one whose connection is lost stores none any more.

    `modules` and `logs` are as in `TaskPool`.
    """

    def __init__(
        self,
        listener: Listener,
        modules: Mapping[str, str],
        logs: Path,
        most: float = inf,
    ) -> None:
        self._listener, self._most_slots = listener, most
        starter = DialInStarter(listener, self._hosts)
        super().__init__(Capacity(1, inf, _LOAD_S_PER_BYTE), modules, logs, cores=CoreAccount(cores()), starter=starter)
        self.any_processor = listener.any_processor
        self._news, self._noted = list[str](), Counter[str]()
        self._storages: dict[bytes, FileStorage] = {}
        self._deliveries = WeakKeyDictionary[Worker, Delivery]()
        self._woken, self._wake = os.pipe()
        for descriptor in (self._woken, self._wake):
            os.set_blocking(descriptor, False)
        self._workers.watch(self._woken)
        listener.watch(self._wake)
        # Since when tasks wait with nobody connected, and whether that was said.
        self._lonely_since, self._is_told = inf, False
        # Until when a connection is expected for a process that is to start.
        self._returns_until = 0.0
        # How many slots there were since when, and slots times seconds before.
        self._counted_at, self._slot_s = time.monotonic(), 0.0
        self._count()

    @property
    def connected(self) -> int:
        """How many tasks its agents serve at once."""
        return int(min(sum(self._agents().values()), self._most_slots))

    def news(self) -> list[str]:
        """See `Pool`. Also reports workers that were refused, and a run that waits for a worker."""
        lines, self._news = [*self._news, *super().news()], []
        return lines

    def limit_cores(self) -> None:
        """Resources have this machine's cores, and tasks have none of them."""

    def busy_share(self) -> float:
        """The part of the time for which workers were connected that they ran tasks that have ended."""
        self._count()
        return min(1.0, sum(self.busy_s.values()) / self._slot_s) if self._slot_s else 0.0

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
            note(self.logs, Counter())
            os.close(self._woken)
            os.close(self._wake)

    def _may_begin(self) -> bool:
        return self.connected > 0 and time.monotonic() >= self._returns_until

    def _cores_here(self, task: Task) -> float:
        return 0.0

    def _order(self, worker: Worker, pending: Pending) -> bytes:
        """With objects that the task reads and the worker is not taken to have, so that it need not ask for them."""
        pending.stores_ahead = not pending.has_unstored
        call = Call(pending.task.module, token=worker.token, ahead=pending.stores_ahead)
        offers, left = list[bytes](), _OFFERED
        for ref in pending.attempt.request.reads_from_storage():
            if ref.sha256 in worker.at_hand or (left := left - ref.size) < 0:
                continue
            with suppress(CorruptObject, NoSuchObject, StorageFault):  # the task hears of it when it asks
                offers.append(frame(Offer(ref.key), self._storage(pending.lane).get(ref.key, ref.size)))
                worker.remember({ref.sha256: ref.size})
        self._deliveries[worker] = Delivery(self._storage(pending.lane), pending)
        return b"".join((*offers, frame(call, self._body(worker, pending))))

    def _storage(self, lane: Lane) -> FileStorage:
        if lane.root not in self._storages:
            self._storages[lane.root] = FileStorage(Path(os.fsdecode(lane.root)))
        return self._storages[lane.root]

    def _hand_over(self, lane: Lane, task: Task, slot: int | None) -> None:
        agents = self._listener.agents()
        if slot is None and not any(agents[name].idle for name in self._hosts() if name in agents):
            self._returns_until = time.monotonic() + _RETURN_S  # an agent dials as soon as its last one is in use
        else:
            super()._hand_over(lane, task, slot)

    def _agents(self) -> Mapping[str, int]:
        """How many tasks each agent may serve of this pool at once."""
        return {name: agent.slots for name, agent in self._listener.agents().items()}

    def _free_slots(self) -> Mapping[str, int]:
        """Of the agents that may begin a task. Agents of last choice are among them only if no other agent is free, and
        agents that rest only if all do."""
        at_work = Counter(worker.agent for worker in self._workers if worker.task is not None)
        slots, agents = self._agents(), self._listener.agents()
        awake = {name: count for name, count in slots.items() if name in agents and not agents[name].rests()} or slots
        free = {name: free for name, count in awake.items() if (free := count - at_work[name]) > 0}
        return {name: count for name, count in free.items() if not self._is_last_choice(name)} or free

    def _is_last_choice(self, name: str) -> bool:
        agent = self._listener.agents().get(name)
        return agent is not None and agent.is_last_choice

    def _hosts(self) -> list[str]:
        """The agents where a process may start, those first that have the fewest for each free slot."""
        processes = Counter(worker.agent for worker in self._workers)
        free = self._free_slots()
        return sorted(free, key=lambda name: processes[name] / free[name])

    def _slots(self) -> list[Slot]:
        """Without the idle processes of agents that may begin no task."""
        free = self._free_slots()
        both = zip(self._workers, super()._slots(), strict=True)
        return [slot for worker, slot in both if slot.idle_since is None or worker.agent in free]

    def _exchange_object(self, worker: Worker, message: Get | Put, body: bytes) -> None:
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
            self._workers.send(worker, answer_with(delivery, message, body))

    def _end(self, worker: Worker, pending: Pending, message: Ended, body: bytes) -> None:
        is_again = not message.error and pending.has_unstored and pending.stores_ahead
        delivery = self._deliveries[worker]
        if message.error or is_again:
            delivery.drop()
        else:
            delivery.check(body)
        del self._deliveries[worker]
        if agent := self._listener.agents().get(worker.agent):
            agent.succeeds()
        if not is_again:
            super()._end(worker, pending, message, body)
            return
        # It is done again, and waits for its objects: it alone knows what follows where one is there or cannot be.
        self._release(worker, pending, message.processor_ms / max(message.duration_ms, 1.0))
        pending.lane.again(pending)
        self._look_at_process(worker, pending, message)

    def _hear_all(self, timeout_s: float) -> None:
        super()._hear_all(timeout_s)
        with suppress(BlockingIOError):
            while os.read(self._woken, 1 << 10):
                self._returns_until = 0.0
        if self.connected != self._slots_counted:
            self._count()
            self.dispatch()
        self._news += self._listener.lines()
        if (slots := self._listener.slots_by_host()) != self._noted and not self.closed:
            self._noted = slots
            note(self.logs, slots)
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

    def _bury(
        self, worker: Worker, outcome: Literal["timeout", "crash"], ended_by_itself: bool = False, reason: str = ""
    ) -> None:
        if agent := self._listener.agents().get(worker.agent):
            if outcome == "timeout" and agent.is_in_doubt():  # soon it is either lost, or heard again
                worker.clock.extend(_DOUBT_S)
                return
            if outcome == "timeout" or reason:
                agent.fails(is_wrong=reason != "")
        if delivery := self._deliveries.pop(worker, None):
            delivery.drop()
        super()._bury(worker, outcome, ended_by_itself, reason)

    def _refuse(self, worker: Worker, pending: Pending, reason: str) -> None:
        """A machine with other code is asked no more, and its task is served elsewhere."""
        if not worker.place:
            super()._refuse(worker, pending, reason)
            return
        self._listener.refuse(worker.agent, reason)
        self._deliveries.pop(worker).drop()
        self._release(worker, pending, worker.processor.mean())
        self._workers.remove(worker)
        pending.lane.again(pending)

    def _tries_again(self, worker: Worker, pending: Pending, end: str) -> bool:
        """A lost or faulty machine costs a task an attempt only if this happens to the task again and again."""
        if not worker.place or end.startswith(("exit status", "killed by")):
            return super()._tries_again(worker, pending, end)
        # Nor does its lane pay for the start of another process, as it does for that of one which it has ended.
        self._shares.correct(pending.lane.name, -self._start_s * dominant_share(pending.task, self.capacity))
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


class _OneSlotPool(DialInPool):
    """A pool that has a slot of one agent to itself. It moves on when this agent leaves or becomes the last choice.

    `leases` counts the slots of each agent that such pools have.
    """

    def __init__(self, listener: Listener, modules: Mapping[str, str], logs: Path, leases: Counter[str]) -> None:
        self._leases, self._agent = leases, ""
        super().__init__(listener, modules, logs)

    def close(self) -> None:
        """See `DialInPool`."""
        super().close()
        self._leave()

    def _agents(self) -> Mapping[str, int]:
        agents = super()._agents()
        is_there = self._agent in agents
        if not self.closed and not (is_there and not self._is_last_choice(self._agent)):
            free = (name for name, slots in agents.items() if self._leases[name] < slots)
            other = min(free, key=self._is_last_choice, default="")
            if not is_there or (other and not self._is_last_choice(other)):
                self._move(other)
        return {self._agent: 1} if self._agent else {}

    def _move(self, agent: str) -> None:
        self._leave()
        self._agent = agent
        if agent:
            self._leases[agent] += 1

    def _leave(self) -> None:
        if self._agent:
            self._leases[self._agent] -= 1
            self._agent = ""


class SeparateDialInPools(SeparatePools):
    """A slot of an agent for every run, whose processes end with the run."""

    def __init__(self, listener: Listener, modules: Mapping[str, str], logs: Path) -> None:
        super().__init__(modules, logs)
        self._listener, self._leases = listener, Counter[str]()

    def has_room(self) -> bool:
        """Whether there is a slot for another run; the first may wait for one."""
        runs = sum(not lane.own.closed for lane in self._open)
        return runs < max(1, sum(agent.slots for agent in self._listener.agents().values()))

    def _pool(self, blobs_root: Path) -> Pool:
        return _OneSlotPool(self._listener, self._modules, logs_beside(blobs_root), self._leases)
