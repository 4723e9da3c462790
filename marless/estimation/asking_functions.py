"""Functions on a virtual clock whose tasks ask external resources, and so wait for one another.

How long a task waits depends on those that run beside it, so a wave is played event by event once all of it was
invoked.
"""

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from heapq import heappop, heappush
from typing import Any

from msgspec.structs import replace

from marless.estimation.virtual_functions import Invocation, VirtualFunctions
from marless.estimation.virtual_resources import Course, ResourceTimes, VirtualClockwork, VirtualResources, play
from marless.functions.messages.order import Attempt
from marless.functions.messages.report import Report
from marless.functions.messages.usage import ActionUse, Usage

# The end of an attempt that holds its environment.
_RUNNING = float("inf")


class AskingFunctions(VirtualFunctions):
    """See `VirtualFunctions`; `resources` by name."""

    def __init__(self, *arguments: Any, resources: Mapping[str, ResourceTimes]) -> None:
        super().__init__(*arguments)
        self._resources = VirtualResources(resources, self._rng)
        self._unplayed: list[Invocation] = []

    def invoke(self, attempt: Attempt) -> None:
        """See `Invoker`; the attempt is played with its wave."""
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
        """Plays all that was invoked since the last call, to its end."""
        clock, queue = VirtualClockwork(1000 * self._clock.now), deque(self._unplayed)
        self._unplayed.clear()

        def next_task() -> None:
            """Begins the task that has waited longest, on the slot that is free first."""
            if queue:
                free_ms = 1000 * heappop(self._free)
                clock.at(free_ms, partial(self._begin, clock, queue.popleft(), next_task))

        for _ in range(len(self._free)):
            next_task()
        clock.run()

    def _begin(self, clock: VirtualClockwork, invocation: Invocation, next_task: Callable[[], None]) -> None:
        start_ms, environments = clock.now_ms, self._held[invocation.attempt.function]
        service = self._service(invocation.attempt, start_ms / 1000)
        if service is None:
            self._reject(invocation, start_ms / 1000)
            self._release(start_ms / 1000, next_task)
            return
        heappush(environments, _RUNNING)
        before_ms = 1000 * service.cold_s + service.init_ms

        def finish(uses: dict[str, ActionUse]) -> None:
            environments.remove(_RUNNING)
            duration_ms = clock.now_ms - start_ms - before_ms
            whole_service = service._replace(duration_ms=duration_ms, usage=_with_actions(service.usage, uses))
            self._release(self._end(invocation, start_ms / 1000, whole_service), next_task)

        play(clock, self._resources, Course(before_ms, service.asks, service.duration_ms), finish)

    def _release(self, free: float, next_task: Callable[[], None]) -> None:
        heappush(self._free, free)
        next_task()


def _with_actions(usage: Usage, uses: Mapping[str, ActionUse]) -> Usage:
    """The usage with what the attempt took of resources; hits and requests are the record's."""
    actions = {
        name: replace(usage.actions.get(name, ActionUse()), count=use.count, ms=use.ms) for name, use in uses.items()
    }
    return replace(usage, actions={**usage.actions, **actions})
