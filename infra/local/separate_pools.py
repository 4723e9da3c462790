"""A pool of one process for every run, for runs whose seconds and dollars are compared."""

import time
from collections.abc import Mapping
from math import inf
from multiprocessing import connection
from pathlib import Path
from typing import TYPE_CHECKING, Self

from infra.local.core_account import CoreAccount
from infra.local.lane import Lane
from infra.local.own_process import cores
from infra.local.single_run_pool import WorkerPool

if TYPE_CHECKING:
    from functions.resources.settings import Resource
    from infra.local.resources.resource_pools import ResourcePools


class SeparatePools:
    """In place of a `Pool`: each lane has one process of its own, as if its run were alone on this machine.

    So no run waits for a process that serves another one, and none finds imports or objects that another one paid for.
    Resources alone are shared: their slots and rates are those of all runs together. `modules` and where workers print
    are as in `WorkerPool`; resources print below the folder `logs`.
    """

    def __init__(self, modules: Mapping[str, str], logs: Path) -> None:
        self._modules, self._logs = modules, logs
        self._open: list[WorkerPool] = []
        self._resources: ResourcePools | None = None
        self._resource_cores = CoreAccount(cores())
        self.busy_s: dict[str, float] = {}
        """Empty: there is nothing to share, so nothing to account for."""

    def lane(self, name: str, blobs_root: Path) -> Lane:
        """The invoker of a run whose objects are below `blobs_root`; its process ends when it is closed."""
        lane = _Alone(self, blobs_root, self._modules)
        self._open.append(lane)
        return lane

    def resources(self) -> "ResourcePools":
        """What the tasks of all runs ask."""
        if self._resources is None:
            from infra.local.resources.resource_pools import ResourcePools

            self._resources = ResourcePools(self._logs, self._resource_cores)
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

    def wait(self, timeout_s: float) -> None:
        """Waits until a process says something, for at most `timeout_s`, and takes in what all of them said."""
        self._open = [lane for lane in self._open if not lane.own.closed]
        due_at = min((lane.own.due_at() for lane in self._open), default=inf)
        due_at = min(due_at, self._resource_cores.dispatch_waiting())
        connection.wait([lane.own.fileno() for lane in self._open], min(timeout_s, max(0.0, due_at - time.monotonic())))
        for lane in self._open:
            lane.own.wait(0.0)


class _Alone(WorkerPool):
    """One process for one run, whose tasks ask what those of all runs ask."""

    def __init__(self, pools: SeparatePools, blobs_root: Path, modules: Mapping[str, str]) -> None:
        super().__init__(1, blobs_root, modules)
        self._pools = pools

    def serve(self, resources: Mapping[str, "Resource"]) -> None:
        """Lets its tasks ask these resources."""
        if resources and self.own.resources is None:
            self.own.share_resources(self._pools.resources())
        super().serve(resources)
