"""Functions on a virtual clock with tasks that ask external resources, and so wait for one another.

A task's wait depends on the tasks that run next to it. So a wave is played event by event once all of it was invoked.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import count, takewhile
from math import ceil
from typing import Any

import numpy as np
from msgspec.structs import replace

from marless.estimation.recorded_calls import RecordedAsk
from marless.estimation.service_times import ResourceTimes
from marless.estimation.virtual_functions import VirtualFunctions, VirtualInvocation
from marless.functions.messages.exchange import Report
from marless.functions.messages.order import Attempt
from marless.functions.messages.usage import CallUse, Usage
from marless.infra.aws import backoff

# The end of an attempt that holds its environment.
_RUNNING = float("inf")


class AskingFunctions(VirtualFunctions):
    """See `VirtualFunctions`. `resources` are by name."""

    def __init__(self, *arguments: Any, resources: Mapping[str, ResourceTimes]) -> None:
        super().__init__(*arguments)
        self._resources = VirtualResources(resources, self._rng)
        self._unplayed: list[VirtualInvocation] = []

    def invoke(self, attempt: Attempt) -> None:
        """See `Invoker`. The attempt is played with its wave."""
        body = attempt.body()
        self._clock.enter()
        self._unplayed.append(self._counted(attempt, body))
        self._clock.leave()

    def wait(self, timeout_s: float) -> list[Report]:
        """See `Invoker`."""
        self._play()
        return super().wait(timeout_s)

    def close(self) -> None:
        """See `Invoker`."""
        self._unplayed.clear()
        super().close()

    def _play(self) -> None:
        queue, self._unplayed = deque(self._unplayed), []
        self._resources.now_ms = 1000 * self._clock.now

        def next_task() -> None:
            """Begins the task that has waited longest, on the slot that is free first."""
            if queue:
                free_ms = 1000 * heappop(self._free)
                self._resources.at(free_ms, partial(self._begin, queue.popleft(), next_task))

        for _ in range(len(self._free)):
            next_task()
        self._resources.run()

    def _begin(self, invocation: VirtualInvocation, next_task: Callable[[], None]) -> None:
        start_ms, environments = self._resources.now_ms, self._held[invocation.attempt.function]
        if (service := self._service(invocation.attempt, start_ms / 1000)) is None:
            self._reject(invocation, start_ms / 1000)
            self._release(start_ms / 1000, next_task)
            return
        heappush(environments, _RUNNING)
        before_ms = 1000 * service.cold_s + service.init_ms

        def finish(uses: dict[str, CallUse]) -> None:
            environments.remove(_RUNNING)
            duration_ms = self._resources.now_ms - start_ms - before_ms
            whole_service = service._replace(duration_ms=duration_ms, usage=_with_calls(service.usage, uses))
            self._release(self._end(invocation, start_ms / 1000, whole_service), next_task)

        self._resources.play(before_ms, service.asks, service.duration_ms, finish)

    def _release(self, free: float, next_task: Callable[[], None]) -> None:
        heappush(self._free, free)
        next_task()


def _with_calls(usage: Usage, uses: Mapping[str, CallUse]) -> Usage:
    """The usage with the attempt's use of resources. Hits and requests are the record's."""
    calls = {name: replace(usage.calls.get(name, CallUse()), count=use.count, ms=use.ms) for name, use in uses.items()}
    return replace(usage, calls={**usage.calls, **calls})


class VirtualResources:
    """Resources with slots that all tasks share and that stay warm from wave to wave, and the queue of events."""

    def __init__(self, times: Mapping[str, ResourceTimes], rng: np.random.Generator) -> None:
        self._times, self._rng = times, rng
        self._busy: dict[str, int] = defaultdict(int)
        self._warm: dict[str, int] = defaultdict(int)
        self._queues: dict[str, deque[Callable[[], None]]] = defaultdict(deque)
        self.now_ms, self._events = 0.0, list[tuple[float, int, Callable[[], None]]]()
        self._numbers = count()

    def at(self, ms: float, happen: Callable[[], None]) -> None:
        """Calls `happen` at that time, or now if it is past."""
        heappush(self._events, (max(ms, self.now_ms), next(self._numbers), happen))

    def run(self) -> None:
        """Until nothing is left to happen."""
        while self._events:
            self.now_ms, _, happen = heappop(self._events)
            happen()

    def play(
        self,
        before_ms: float,
        asks: Sequence[RecordedAsk],
        work_ms: float,
        finish: Callable[[dict[str, CallUse]], None],
    ) -> None:
        """Begins a task now, which works for `work_ms` after `before_ms`, and waits for its answers. `finish` gets its
        use of resources."""
        uses, left, rest_ms = dict[str, CallUse](), deque(asks), work_ms - sum(ask.compute_ms for ask in asks)

        def step() -> None:
            if left:
                ask = left.popleft()
                self.at(self.now_ms + ask.compute_ms, lambda: self._ask(ask, partial(answered, ask.resource)))
            else:
                self.at(self.now_ms + max(0.0, rest_ms), lambda: finish(uses))

        def answered(resource: str, use: CallUse) -> None:
            uses[resource] = uses.get(resource, CallUse()) + use
            step()

        self.at(self.now_ms + before_ms, step)

    def _ask(self, ask: RecordedAsk, answered: Callable[[CallUse], None]) -> None:
        left, uses = deque(ask.work_ms), list[CallUse]()

        def one_more() -> None:
            """The next question of a thread, or its end."""
            if left:
                self._serve(ask.resource, left.popleft(), one_answer)

        def one_answer(use: CallUse) -> None:
            uses.append(use)
            one_more()
            if len(uses) == len(ask.work_ms):
                answered(sum(uses, CallUse()))

        for _ in range(min(self._times[ask.resource].slots, len(left))):
            one_more()

    def _serve(self, name: str, work_ms: float, answered: Callable[[CallUse], None]) -> None:
        times = self._times[name]
        growing = takewhile(lambda each: each < backoff.SLOT_PAUSE_S, backoff.ceilings(backoff.SLOT_PAUSE_S))
        pauses = growing if times.polls else iter(())

        def attempt() -> None:
            if self._busy[name] < times.slots:
                self._take_slot(name, work_ms, answered)
            elif (pause_s := next(pauses, None)) is not None:
                self.at(self.now_ms + 1000 * self._rng.uniform(0.0, pause_s), attempt)
            else:
                self._queues[name].append(attempt)

        attempt()

    def _take_slot(self, name: str, work_ms: float, answered: Callable[[CallUse], None]) -> None:
        times = self._times[name]
        self._busy[name] += 1
        is_cold = self._busy[name] > self._warm[name]
        self._warm[name] += is_cold
        billed_ms = work_ms + (times.init_ms if is_cold else 0.0)

        def end() -> None:
            self._busy[name] -= 1
            self._wake(name)
            answered(CallUse(count=1, ms=ceil(billed_ms)))

        self.at(self.now_ms + billed_ms + times.hand_over_ms, end)

    def _wake(self, name: str) -> None:
        """Lets a waiting task take a free slot: at once, or, of tasks with pauses that no longer grow, the first that
        tries again."""
        if queue := self._queues[name]:
            first = 1 - self._rng.random() ** (1 / len(queue)) if self._times[name].polls else 0.0
            self.at(self.now_ms + 1000 * backoff.SLOT_PAUSE_S * first, queue.popleft())
