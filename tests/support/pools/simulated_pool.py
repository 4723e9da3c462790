"""A pool of workers in simulated time, which starts the choices of `marless.infra.local.dispatch.choose`."""

import heapq
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import chain

from marless.infra.local import dispatch
from marless.infra.local.dispatch import QueuedTask, TaskChoice, TaskQueue, WorkerSlot, choose, dominant_share
from marless.infra.local.scheduling.fair_shares import FairShares


@dataclass
class Arrival:
    at: float
    lane: str
    task: QueuedTask
    actual_s: float


@dataclass
class Worker:
    """The pool's data about a worker. `room` objects fit in its cache, and the one used longest ago goes first."""

    room: int
    modules: set = field(default_factory=set)
    cache: OrderedDict = field(default_factory=OrderedDict)
    task: QueuedTask | None = None
    since: float = 0.0
    free_at: float = 0.0

    def load(self, task):
        """Seconds until all that the task reads is in the cache."""
        missing = sum(size for sha256, size in task.reads.items() if sha256 not in self.cache)
        for sha256 in task.reads:
            self.cache[sha256] = True
            self.cache.move_to_end(sha256)
        while len(self.cache) > self.room:
            self.cache.popitem(last=False)
        return missing * dispatch.LOAD_S_PER_BYTE


@dataclass
class Started:
    at: float
    choice: TaskChoice
    ends: float
    tags: dict
    """Start tags of the lanes that had tasks waiting, before this one started."""


class SimulatedPool:
    """Serves arrivals. `choosing` replaces `choose`."""

    def __init__(self, capacity, weights, arrivals, cache=1000, choosing=choose, correct=False):
        self.capacity, self.cache, self.choosing, self.correct = capacity, cache, choosing, correct
        self.shares = FairShares()
        self.waiting = {lane: TaskQueue(capacity) for lane in weights}
        for lane, weight in weights.items():
            self.shares.open(lane, weight)
        self.workers = []
        self.events = [(arrival.at, 1, arrival.task.number, arrival) for arrival in arrivals]
        heapq.heapify(self.events)
        self.actual_s = {arrival.task.number: arrival.actual_s for arrival in arrivals}
        self.started = []
        self.now = 0.0

    def slots(self):
        """The workers in the form that `choose` gets from a pool."""
        return [
            WorkerSlot(
                number,
                worker.modules,
                False,
                worker.cache.keys(),
                None if worker.task else worker.since,
                worker.free_at,
            )
            for number, worker in enumerate(self.workers)
        ]

    @property
    def queues(self):
        return {lane: list(chain(*waiting._queues.values())) for lane, waiting in self.waiting.items()}

    def in_use(self):
        needs = [worker.task.need for worker in self.workers if worker.task]
        return {name: sum(need.get(name, 0.0) for need in needs) for name in ("cores", *self.capacity.others)}

    def run(self, after=lambda pool: None):
        """Until all is served. `after` looks at the pool whenever nothing more can be started. Returns the last end."""
        while self.events:
            self.now = self.events[0][0]
            while self.events and self.events[0][0] == self.now:
                self._happen(*heapq.heappop(self.events)[2:])
            self._start_what_fits()
            after(self)
        return self.now

    def _start_what_fits(self):
        while choice := self._choice():
            self._start(choice)

    def _choice(self):
        queues = {lane: waiting.first() for lane, waiting in self.waiting.items()}
        alike = {lane: waiting.alike() for lane, waiting in self.waiting.items()}
        machine = self.slots(), self.in_use(), self.capacity
        return self.choosing(self.shares, queues, *machine, self.now, alike)

    def _happen(self, _, event):
        if isinstance(event, Arrival):
            if not self.waiting[event.lane]:
                self.shares.waits(event.lane)
            self.waiting[event.lane].add(event.task)
        else:
            lane, worker, correction_s = event
            worker.task, worker.since = None, self.now
            if self.correct:
                self.shares.correct(lane, correction_s)

    def _start(self, choice):
        lane, task, slot = choice
        tags = {name: self.shares.start_tag(name) for name, waiting in self.waiting.items() if waiting}
        if slot is None:
            self.workers.append(Worker(self.cache))
        worker = self.workers[-1 if slot is None else slot]
        assert worker.task is None
        self.waiting[lane].remove(task)
        share = dominant_share(task, self.capacity)
        self.shares.started(lane, share * task.expected_s)
        load_s = worker.load(task)
        took_s = self.actual_s[task.number] + load_s
        worker.modules.add(task.module)
        worker.task, worker.free_at = task, self.now + task.expected_s + load_s
        ends = self.now + took_s
        heapq.heappush(self.events, (ends, 0, task.number, (lane, worker, share * (took_s - task.expected_s))))
        self.started.append(Started(self.now, choice, ends, tags))
