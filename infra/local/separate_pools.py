"""A pool of one process for every run, to compare runs' seconds and dollars."""

import time
from collections.abc import Callable, Mapping
from math import inf
from multiprocessing import connection
from pathlib import Path
from typing import TYPE_CHECKING, Self

from marless.infra.local.available_cores import cores
from marless.infra.local.core_account import CoreAccount
from marless.infra.local.dispatch import Capacity
from marless.infra.local.lane import Lane
from marless.infra.local.single_run_pool import OwnPool, logs_beside
from marless.infra.local.task_pool import TaskPool

if TYPE_CHECKING:
    from marless.infra.local.resources.resource_pools import ResourcePools


MakePool = Callable[[Mapping[str, str], Path, "Callable[[], ResourcePools]"], TaskPool]
"""Makes the pool of a run from its `modules`, `logs` and `resources`, see `TaskPool`."""


def one_process(modules: Mapping[str, str], logs: Path, resources: "Callable[[], ResourcePools]") -> TaskPool:
    """A pool of one process of this machine."""
    return TaskPool(Capacity(1, 1), modules, logs, resources=resources)


class SeparatePools:
    """Gives each lane its own process, as if its run were alone on this machine.

    So a run never waits for another run's process, or profits from its imports or objects. Only resources are shared:
    their slots and rates cover all runs together. See `WorkerPool` for `modules` and the workers' output. Resources
    print below the folder `logs`. `make_pool` makes a run's pool, for as many runs as there are `slots`.
    """

    def __init__(
        self,
        modules: Mapping[str, str],
        logs: Path,
        make_pool: MakePool = one_process,
        slots: Callable[[], float] = lambda: inf,
    ) -> None:
        self._modules, self._logs, self._make_pool, self._slots = modules, logs, make_pool, slots
        self._open: list[OwnPool] = []
        self._resources: ResourcePools | None = None
        self._resource_cores = CoreAccount(cores())
        self.busy_s: dict[str, float] = {}
        """Empty, because separate pools need no accounts."""

    def lane(self, name: str, blobs_root: Path) -> Lane:
        """The invoker of a run with objects below `blobs_root`. Its process ends when it is closed."""
        lane = OwnPool(self._make_pool(self._modules, logs_beside(blobs_root), self.resources), blobs_root)
        self._open.append(lane)
        return lane

    def resources(self) -> "ResourcePools":
        """Return the resources of all runs' tasks."""
        if self._resources is None:
            from marless.infra.local.resources.resource_pools import ResourcePools

            self._resources = ResourcePools(self._logs, self._resource_cores, TaskPool)
        return self._resources

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for lane in self._open:
            lane.close()
        if self._resources is not None:
            self._resources.close()

    def weigh(self, lane: Lane, weight: float) -> None:
        """Changes nothing: a lane has its process to itself."""

    def width(self, lane: Lane) -> int:
        """Every lane has one process, however many there are."""
        return 1

    def has_room(self) -> bool:
        """Return True if there is a slot for another run. The first may wait for one."""
        return sum(not lane.own.closed for lane in self._open) < max(1, self._slots())

    def news(self) -> list[str]:
        """See `TaskPool`. Equal lines of several pools appear once."""
        return list(dict.fromkeys(line for lane in self._open for line in lane.own.news()))

    def wait(self, timeout_s: float) -> None:
        """Waits for a process's message, at most `timeout_s`, and takes in all messages."""
        self._open = [lane for lane in self._open if not lane.own.closed]
        due_at = min((lane.own.due_at() for lane in self._open), default=inf)
        due_at = min(due_at, self._resource_cores.dispatch_waiting())
        connection.wait([lane.own.fileno() for lane in self._open], min(timeout_s, max(0.0, due_at - time.monotonic())))
        for lane in self._open:
            lane.own.wait(0.0)
