"""External resources on a virtual clock: tasks compute, ask, and wait for the slots that all of them share."""

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import takewhile
from math import ceil

import numpy as np

from marless.estimation.recorded_calls import Ask
from marless.functions.messages.usage import ActionUse
from marless.infra.aws import backoff


@dataclass(frozen=True)
class ResourceTimes:
    """A resource: its slots, what a call takes beside the work, and the start-up of each slot. With `polls` whoever
    finds no free slot tries again after a pause, as on Lambda; else waits in a queue."""

    slots: int
    hand_over_ms: float = 0.0
    init_ms: float = 0.0
    polls: bool = False


class VirtualClockwork:
    """What happens when, in the order of time."""

    def __init__(self, now_ms: float = 0.0) -> None:
        self.now_ms = now_ms
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, ms: float, happen: Callable[[], None]) -> None:
        """Calls `happen` at that time, or now if it is past."""
        self._count += 1
        heappush(self._events, (max(ms, self.now_ms), self._count, happen))

    def run(self) -> None:
        """Until nothing is left to happen."""
        while self._events:
            self.now_ms, _, happen = heappop(self._events)
            happen()


class VirtualResources:
    """The resources of a forecast, which keep their slots warm from wave to wave."""

    def __init__(self, times: Mapping[str, ResourceTimes], rng: np.random.Generator) -> None:
        self._times, self._rng = times, rng
        self._busy: dict[str, int] = defaultdict(int)
        self._warm: dict[str, int] = defaultdict(int)
        self._queues: dict[str, deque[Callable[[], None]]] = defaultdict(deque)

    def ask(self, clock: VirtualClockwork, ask: Ask, answered: Callable[[ActionUse], None]) -> None:
        """Has all questions of `ask` answered, as many side by side as there are slots, then calls `answered`."""
        times, left = self._times[ask.resource], deque(ask.work_ms)
        threads = min(times.slots, len(left))
        uses: list[ActionUse] = []

        def one_more() -> None:
            """The next question of a thread, or its end."""
            if left:
                self._serve(clock, ask.resource, left.popleft(), one_answer)

        def one_answer(use: ActionUse) -> None:
            uses.append(use)
            one_more()
            if len(uses) == len(ask.work_ms):
                answered(sum(uses, ActionUse()))

        for _ in range(threads):
            one_more()

    def _serve(self, clock: VirtualClockwork, name: str, work_ms: float, answered: Callable[[ActionUse], None]) -> None:
        times = self._times[name]
        growing = takewhile(lambda each: each < backoff.SLOT_PAUSE_S, backoff.ceilings(backoff.SLOT_PAUSE_S))
        pauses = growing if times.polls else iter(())

        def attempt() -> None:
            if self._busy[name] < times.slots:
                self._begin(clock, name, work_ms, answered)
            elif (pause_s := next(pauses, None)) is not None:
                clock.at(clock.now_ms + 1000 * self._rng.uniform(0.0, pause_s), attempt)
            else:
                self._queues[name].append(attempt)

        attempt()

    def _begin(self, clock: VirtualClockwork, name: str, work_ms: float, answered: Callable[[ActionUse], None]) -> None:
        times = self._times[name]
        self._busy[name] += 1
        is_cold = self._busy[name] > self._warm[name]
        self._warm[name] += is_cold
        billed_ms = work_ms + (times.init_ms if is_cold else 0.0)

        def end() -> None:
            self._busy[name] -= 1
            self._wake(clock, name)
            answered(ActionUse(count=1, ms=ceil(billed_ms)))

        clock.at(clock.now_ms + billed_ms + times.hand_over_ms, end)

    def _wake(self, clock: VirtualClockwork, name: str) -> None:
        """Has somebody take a slot that became free: at once, or, of those whose pauses do not grow any more, the first
        who tries again."""
        queue = self._queues[name]
        if not queue:
            return
        first = 1 - self._rng.random() ** (1 / len(queue)) if self._times[name].polls else 0.0
        clock.at(clock.now_ms + 1000 * backoff.SLOT_PAUSE_S * first, queue.popleft())


@dataclass(frozen=True)
class Course:
    """A task's course from its start: what passes before it works, what it asks, and all of its own work."""

    before_ms: float
    asks: Sequence[Ask]
    work_ms: float

    @property
    def after_ms(self) -> float:
        """Its work after the last answer."""
        return max(0.0, self.work_ms - sum(ask.compute_ms for ask in self.asks))


def play(
    clock: VirtualClockwork,
    resources: VirtualResources,
    course: Course,
    finish: Callable[[dict[str, ActionUse]], None],
) -> None:
    """Has a task take its course from now on; `finish` gets what it used of resources."""
    uses: dict[str, ActionUse] = {}

    def step(number: int) -> None:
        if number == len(course.asks):
            clock.at(clock.now_ms + course.after_ms, lambda: finish(uses))
            return
        ask = course.asks[number]

        def answered(use: ActionUse) -> None:
            uses[ask.resource] = uses.get(ask.resource, ActionUse()) + use
            step(number + 1)

        clock.at(clock.now_ms + ask.compute_ms, lambda: resources.ask(clock, ask, answered))

    clock.at(clock.now_ms + course.before_ms, lambda: step(0))
