"""The cores of this machine, which the pools of one process share."""

import time
from collections.abc import Iterable
from math import inf
from typing import Any, Protocol

from marless.infra.local.worker_handle import WorkerProcess

# The interval for measuring tasks' busy cores, while others wait for cores.
_LOOK_S = 0.05


class Sharer(Protocol):
    """A pool as the account sees it."""

    @property
    def slots(self) -> int:
        """So many of its workers may run."""

    @property
    def workers(self) -> Iterable[WorkerProcess[Any]]: ...

    def start_waiting(self, held_cores: float) -> float:
        """Starts waiting tasks while there is room next to `held_cores`. Returns how many cores the next task lacks."""

    def urgency(self) -> float:
        """The pool with the least starts its waiting tasks first."""

    def next_check_at(self) -> float:
        """Return when to call `start_waiting` again although all tasks run, by the monotonic clock, or `inf`."""


class CoreAccount:
    """The cores, of `total`, that the tasks of all pools that `join` keep busy.

    It is predicted when a task begins and measured later. A task that waits for an answer keeps none. It counts only if
    slots outnumber cores, or with `is_counted`.
    """

    def __init__(self, total: float) -> None:
        self.total, self.is_counted = total, False
        self._pools: list[Sharer] = []
        # The time of the measurement, and the current number.
        self._measured_at = self._busy = 0.0

    def join(self, pool: Sharer) -> None:
        """The pool's tasks count from now on."""
        self._pools.append(pool)

    def leave(self, pool: Sharer) -> None:
        """The pool has no tasks any more. Idempotent."""
        if pool in self._pools:
            self._pools.remove(pool)

    def busy(self) -> float:
        """Cores that are busy, up to `_LOOK_S` old."""
        if not self.is_counted and self.total >= sum(pool.slots for pool in self._pools):
            return 0.0
        at_work = [worker for pool in self._pools for worker in pool.workers if worker.computes]
        if not at_work:
            self._busy = 0.0
        elif (now := time.monotonic()) >= self._measured_at + _LOOK_S:
            self._measured_at, self._busy = now, sum(worker.processor.cores() for worker in at_work)
        return self._busy

    def change(self, cores: float) -> None:
        """So many more are busy from now on, or fewer if negative."""
        self._busy = max(0.0, self._busy + cores)

    def dispatch(self) -> None:
        """Lets every pool start its waiting tasks. Cores that a pool lacks are held back from less urgent pools, so
        that these do not overtake it for ever."""
        held_cores = 0.0
        for pool in sorted(self._pools, key=lambda pool: pool.urgency()):
            held_cores += pool.start_waiting(held_cores)

    def dispatch_waiting(self) -> float:
        """Call `dispatch` if a pool wants it although no task has ended. Returns when it is due again, by the monotonic
        clock, or `inf`."""
        next_check_at = min((pool.next_check_at() for pool in self._pools), default=inf)
        if next_check_at < inf:
            self.dispatch()
        return next_check_at


def soon() -> float:
    """Return when to measure the tasks' busy cores again."""
    return time.monotonic() + _LOOK_S
