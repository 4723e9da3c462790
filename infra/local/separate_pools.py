"""A pool of one process for every run, for runs whose seconds and dollars are compared."""

from collections.abc import Mapping
from multiprocessing import connection
from pathlib import Path

from infra.local.lane import Lane
from infra.local.single_run_pool import WorkerPool


class SeparatePools:
    """In place of a `Pool`: each lane has one process of its own, as if its run were alone on this machine.

    So no run waits for a process that serves another one, and none finds imports or objects that another one paid for.
    `modules` and where workers print are as in `WorkerPool`.
    """

    def __init__(self, modules: Mapping[str, str]) -> None:
        self._modules = modules
        self._open: list[WorkerPool] = []
        self.busy_s: dict[str, float] = {}
        """Empty: there is nothing to share, so nothing to account for."""

    def lane(self, name: str, blobs_root: Path) -> Lane:
        """The invoker of a run whose objects are below `blobs_root`; its process ends when it is closed."""
        lane = WorkerPool(1, blobs_root, self._modules)
        self._open.append(lane)
        return lane

    def weigh(self, lane: Lane, weight: float) -> None:
        """Changes nothing: a lane has its process to itself."""

    def width(self, lane: Lane) -> int:
        """Every lane has one process, however many there are."""
        return 1

    def wait(self, timeout_s: float) -> None:
        """Waits until a process says something, for at most `timeout_s`, and takes in what all of them said."""
        self._open = [lane for lane in self._open if not lane.own.closed]
        connection.wait([lane.own.fileno() for lane in self._open], timeout_s)
        for lane in self._open:
            lane.own.wait(0.0)
