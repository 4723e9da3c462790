"""A resource's pool in simulated time: the dispatcher, cores by a measured speed-up, and a limited rate."""

import heapq
from dataclasses import replace
from itertools import count

from simulated_pool import Arrival, SimulatedPool

from marless.infra.local.dispatch import CORES
from marless.infra.local.resources.rate_limit import RateLimit


class SimulatedResource(SimulatedPool):
    """`seconds_on(number, cores)`: how long the action of that number takes on so many cores."""

    def __init__(self, capacity, weights, arrivals, seconds_on, elastic, per_s=0.0):
        super().__init__(capacity, weights, arrivals)
        self.seconds_on, self.elastic, self.per_s = seconds_on, elastic, per_s
        self.rate, self.wakes = RateLimit(per_s), count()
        self.widths = {}
        """The cores of each action, by its number."""

    def idle_cores(self):
        return round(self.capacity.cores - self.in_use()["cores"])

    def free_slots(self):
        return self.capacity.slots - sum(worker.task is not None for worker in self.workers)

    def _start_what_fits(self):
        while self.rate.wait_s(self.now) == 0.0:
            waiting = sum(len(queue) for queue in self.queues.values())
            slots = min(self.free_slots(), 1) if self.per_s else self.free_slots()
            plan = self.elastic.begin(waiting, slots, round(self.capacity.cores), self.in_use()["cores"], self.now)
            for cores in plan:
                self._begin(cores)
            if not plan:
                return
        if any(self.queues.values()):
            heapq.heappush(self.events, (self.now + self.rate.wait_s(self.now), 2, next(self.wakes), None))

    def _begin(self, cores):
        choice = self._choice()
        lane, task, _ = choice
        self.waiting[lane].remove(task)
        wide = replace(task, need={**task.need, CORES: float(cores)})
        self.waiting[lane].add(wide)
        self.widths[task.number] = cores
        self.actual_s[task.number] = self.seconds_on(task.number, cores)
        self._start(choice._replace(task=wide))
        self.rate.begin(self.now)

    def _happen(self, _, event):
        if event is None:  # the next action may begin
            return
        if not isinstance(event, Arrival):
            number = event[1].task.number
            self.elastic.add(self.widths[number], self.actual_s[number])
        super()._happen(_, event)
