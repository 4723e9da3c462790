"""Choose the next task of a pool of worker processes, among all runs' waiting tasks, and its worker.

Lanes come by their start tags (`scheduling.fair_shares`).

Starvation. Small tasks would for ever take the resources that a larger one waits for. So only lanes with a start tag
below its own finish tag overtake it. From there on its need is reserved. Other tasks are backfilled only if they need
so little that a pool full of them would leave it its need, such as sleeping tasks. It fits at the latest when only
these run, so even a task that needs more than there is is served, alone. Until then, lanes of such small tasks get the
rest of the pool beyond their fair share. Within a lane tasks overtake one another: a run waits for all tasks of its
round, so they are finite.

Affinity. A worker continues with the data that it holds before it loads others. A task with data of a busy worker waits
for it, if that is sooner than loading the data elsewhere. A worker that has to load takes the data with the most
waiting tasks for each worker that holds them.

If `choose` finds nothing, all workers are busy and the pool is full, or no task may start. Each of the first `WINDOW`
tasks of every lane then needs more of a resource than is free, waits for the worker with its data, or is behind a
reservation.
"""

from bisect import insort
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from heapq import merge, nsmallest
from itertools import islice
from math import inf
from typing import NamedTuple

from marless.infra.local.scheduling.fair_shares import FairShares

LOAD_S_PER_BYTE = 1.0e-9
"""Seconds to read, check (SHA-256) and decode a byte of an object with its file in memory. One core of a cloud server
takes 0.7 to 1.6 ns (2026-11-24, medians of nine, objects of 0.1 to 50 MB)."""

SLOTS, CORES, GPUS = "slots", "cores", "gpus"
Need = Mapping[str, float]
"""The part of each resource that a task occupies, by the resource's name. Missing resources count as 0."""

Reads = frozenset[str]
"""The hashes of a task's inputs."""

WINDOW = 64
"""How many tasks of a lane are looked at, so that a choice costs the same however many wait."""

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class QueuedTask:
    """A task that waits for a worker.

    Attributes:
        number: unique in its lane, in the order of arrival
        module: the module that serves it
        expected_s: predicted duration, above 0. A lane with tasks of no cost would always come first
        need: a slot, the cores that it keeps busy, and other resources. A task that sleeps needs nearly 0 cores. An
            unknown task needs 1
        reads: bytes of the objects that it reads, by their SHA-256
        group: tasks of a lane and group may share a worker despite their side effects
        apart: whether it runs code of others. A worker that serves it serves nothing else from then on
    """

    number: int
    module: str
    expected_s: float
    need: Need
    reads: Mapping[str, int]
    group: str = ""
    apart: bool = False


@dataclass(frozen=True, slots=True)
class WorkerSlot:
    """A worker process.

    Attributes:
        number: the number of the worker
        modules: modules that are imported or being imported, and `GPUS` after it has computed on a GPU
        importing: whether it is free, but an import keeps it busy
        holds: SHA-256 of the objects in its cache
        idle_since: None while it is busy
        free_at: expected end of its task, if it is busy
        serves: the lane, and the group of the lane's tasks, that it serves alone. None: it serves all
    """

    number: int
    modules: Set[str]
    importing: bool
    holds: Set[str]
    idle_since: float | None
    free_at: float
    serves: tuple[str, str] | None = None

    def suits(self, lane: str, task: QueuedTask) -> bool:
        """Return True if it may serve the lane's task."""
        return not task.apart if self.serves is None else self.serves == (lane, task.group)


@dataclass(frozen=True, slots=True)
class Capacity:
    """The slots, cores and other resources that workers share."""

    slots: int
    """The most workers that run at once."""
    cores: float
    """So many may be busy at once."""
    load_s_per_byte: float = LOAD_S_PER_BYTE
    """The seconds per byte for a worker to load an object that it does not hold."""
    others: Need = field(default_factory=dict)
    """How much there is of each other resource, above 0."""

    def of(self, resource: str) -> float:
        """The amount of the resource. Raises `KeyError` for one that the machine does not have."""
        return self.slots if resource == SLOTS else self.cores if resource == CORES else self.others[resource]


class TaskChoice(NamedTuple):
    """The task that begins next, and its worker."""

    lane: str
    task: QueuedTask
    slot: int | None
    """None: start a new worker."""


def order(task: QueuedTask, capacity: Capacity) -> tuple[float, int]:
    """The sort key of a lane's queue: first the task that keeps most of the machine busy for longest.

    For equal needs this is longest first, which ends within 4/3 of the best possible time (Graham 1969, "Bounds on
    Multiprocessing Timing Anomalies"). If learners take cores and samplers only wait, learners come first: otherwise
    cores would be idle until no task waits any more.
    """
    return -task.expected_s * dominant_share(task, capacity), task.number


class TaskQueue:
    """The waiting tasks of a lane, by their inputs, each list in the `order`."""

    def __init__(self, capacity: Capacity) -> None:
        self._queues: dict[Reads, list[QueuedTask]] = {}
        self._order = partial(order, capacity=capacity)

    def __bool__(self) -> bool:
        return bool(self._queues)

    def add(self, task: QueuedTask) -> None:
        """A task comes."""
        insort(self._queues.setdefault(frozenset(task.reads), []), task, key=self._order)

    def remove(self, task: QueuedTask) -> None:
        """A task of `first` goes."""
        reads = frozenset(task.reads)
        queue = self._queues[reads]
        queue.remove(task)
        if not queue:
            del self._queues[reads]

    def first(self) -> list[QueuedTask]:
        """At most `WINDOW` in the `order`: some of all that read the same, so that none hides the others."""
        share = max(1, WINDOW // max(1, len(self._queues)))
        largest = nsmallest(WINDOW, self._queues.values(), key=lambda queue: self._order(queue[0]))
        return list(merge(*(queue[:share] for queue in largest), key=self._order))

    def alike(self) -> dict[Reads, int]:
        """Count the waiting tasks with equal inputs."""
        return {reads: len(queue) for reads, queue in self._queues.items()}

    def change(self, update: Callable[[QueuedTask], QueuedTask]) -> None:
        """Update the data on the tasks, except their inputs."""
        for queue in self._queues.values():
            queue[:] = sorted(map(update, queue), key=self._order)


def dominant_share(task: QueuedTask, capacity: Capacity) -> float:
    """The largest part of any resource that the task occupies, above 0 and at most 1."""
    return min(1.0, max(amount / capacity.of(resource) for resource, amount in task.need.items()))


def _fits(task: QueuedTask, limits: Need) -> bool:
    return all(task.need.get(resource, 0.0) <= limit for resource, limit in limits.items())


def choose(
    shares: FairShares,
    queues: Mapping[str, Collection[QueuedTask]],
    slots: Sequence[WorkerSlot],
    in_use: Need,
    capacity: Capacity,
    now: float,
    alike: Mapping[str, Mapping[Reads, int]] | None = None,
) -> TaskChoice | None:
    """The next task to start, or None until something ends or arrives. Every queue is sorted by `order`.

    `in_use`: how much running tasks occupy of each resource but slots. A task starts if its need of each is free.
    `alike`: how many waiting tasks of a lane have equal inputs, for lanes with incomplete queues.

    Lanes come by their start tags, ties by name. The worker is the free one that holds most of the task's bytes. If
    none holds any, it is one that has imported its module, else a new one, else the one that has been idle longest. A
    worker that serves one lane's group alone is used only there, before others, the last used first.
    """
    if sum(slot.idle_since is None for slot in slots) >= capacity.slots:
        return None
    reservation = _Reservation(capacity)
    for start, lane in sorted((shares.start_tag(lane), lane) for lane, queue in queues.items() if queue):
        too_large = None
        limits = reservation.backfill_limit if start >= reservation.reserved_from else {}
        pool = _Pool(lane, slots, in_use, capacity, now)
        for task in pool.by_net_duration(list(islice(queues[lane], WINDOW)), (alike or {}).get(lane)):
            # Tasks of a kind need the same, so one look answers for all.
            if (too_large and task.need is too_large.need) or not _fits(task, pool.free):
                too_large = too_large or task
            elif _fits(task, limits) and not pool.waits_for_data(task):
                return TaskChoice(lane, task, pool.slot_for(task))
        if too_large:
            share_s = dominant_share(too_large, capacity) * too_large.expected_s
            reservation.add(too_large, shares.finish_tag(lane, share_s))
    return None


class _Reservation:
    """The reservation for tasks that did not fit: from the start tag `reserved_from` on, a backfilled task needs at
    most `backfill_limit` of each resource."""

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self.reserved_from, self.backfill_limit = inf, dict[str, float]()

    def add(self, task: QueuedTask, finish_tag: float) -> None:
        """Reserves the task's need, except for a slot: the next that is free serves it."""
        self.reserved_from = min(self.reserved_from, finish_tag)
        for resource in task.need.keys() - {SLOTS}:
            limit = (self._capacity.of(resource) - task.need[resource]) / self._capacity.slots
            self.backfill_limit[resource] = min(self.backfill_limit.get(resource, inf), limit)


class _Pool:
    def __init__(self, lane: str, slots: Sequence[WorkerSlot], in_use: Need, capacity: Capacity, now: float) -> None:
        self._lane = lane
        self._busy = [slot for slot in slots if slot.idle_since is None]
        self._free = [slot for slot in slots if slot.idle_since is not None]
        # Idle workers of other lanes make room.
        self._room = sum(slot.serves is None or slot.idle_since is None for slot in slots) < capacity.slots
        # A task that needs more than there is runs alone. Tasks of other pools use cores, too.
        self.free = (
            {resource: capacity.of(resource) - amount + _ROUNDING for resource, amount in in_use.items()}
            if self._busy or any(in_use.values())
            else {}
        )
        self._capacity, self._load_s_per_byte = capacity, capacity.load_s_per_byte
        # A task that is overdue by x is expected to take another x, so that a wrong prediction costs little waiting.
        self._waits_s = {slot.number: abs(slot.free_at - now) for slot in self._busy}

    def by_net_duration(self, tasks: list[QueuedTask], alike: Mapping[Reads, int] | None = None) -> list[QueuedTask]:
        """The tasks in order, except tasks that would have to load. A worker continues with its data, unless another
        task is larger by more than its part of the loading. Tasks with equal inputs share the loading. Only tasks that
        are left to this worker count, if all holders of the data take as many."""
        if not any(task.reads for task in tasks):
            return tasks
        counts = alike or Counter(frozenset(task.reads) for task in tasks)
        parts_s = {
            reads: self._loading_s(task) * (1 + self._holders(task)) / counts[reads]
            for reads, task in {frozenset(task.reads): task for task in tasks}.items()
        }

        def net_s(task: QueuedTask) -> float:
            """Seconds of the whole machine."""
            return (task.expected_s - parts_s[frozenset(task.reads)]) * dominant_share(task, self._capacity)

        return sorted(tasks, key=lambda task: (-net_s(task), task.number))

    def _loading_s(self, task: QueuedTask) -> float:
        """Return the time for the free worker that holds most of it to load the rest, in seconds."""
        return self._load_s_per_byte * (sum(task.reads.values()) - self._held_by_free(task))

    def waits_for_data(self, task: QueuedTask) -> bool:
        """Return True if a busy worker serves the task sooner than a free one would have loaded its data."""
        held_bytes = self._held_by_free(task)
        for slot in self._busy if task.reads else ():
            if slot.suits(self._lane, task) and self._waits_s[slot.number] < self._load_s_per_byte * (
                _held_bytes(task, slot) - held_bytes
            ):
                self._waits_s[slot.number] += task.expected_s  # the next that wants its data comes after this one
                return True
        return False

    def slot_for(self, task: QueuedTask) -> int | None:
        """The worker that takes the task, or None for a new one."""

        def worth(slot: WorkerSlot) -> tuple[bool, bool, int, bool, bool, float, int]:
            """Larger is better: the lane's own, then by the GPU, data, imports and idle time. The first wins on
            ties."""
            assert slot.idle_since is not None
            is_exclusive = slot.serves is not None
            return (
                is_exclusive,
                GPUS in task.need and GPUS in slot.modules,
                _held_bytes(task, slot),
                task.module in slot.modules,
                not slot.importing,
                slot.idle_since if is_exclusive else -slot.idle_since,
                -slot.number,
            )

        best = max((slot for slot in self._free if slot.suits(self._lane, task)), key=worth, default=None)
        if best is None or (self._room and best.importing and task.module not in best.modules):
            return None
        return best.number

    def _holders(self, task: QueuedTask) -> int:
        reads = task.reads.keys()
        return sum(slot.suits(self._lane, task) and reads <= slot.holds for slot in self._busy)

    def _held_by_free(self, task: QueuedTask) -> int:
        return max((_held_bytes(task, slot) for slot in self._free if slot.suits(self._lane, task)), default=0)


def _held_bytes(task: QueuedTask, slot: WorkerSlot) -> int:
    return sum(size for sha256, size in task.reads.items() if sha256 in slot.holds)
