"""A pool of one run."""

from collections.abc import Mapping
from pathlib import Path

from marless.functions.resources.settings import Resource
from marless.infra.local.dispatch import Capacity
from marless.infra.local.lane import Lane
from marless.infra.local.task_pool import TaskPool
from marless.infra.local.workers import local_workers


class OwnPool(Lane):
    """The one lane of a pool, which ends with it."""

    def __init__(self, pool: TaskPool, blobs_root: Path) -> None:
        self.own = pool
        super().__init__(pool, "", blobs_root, 1.0)
        pool.open(self)

    def serve(self, resources: Mapping[str, Resource]) -> None:
        """Lets its tasks ask these resources. Resources that compute then share the machine's cores with the tasks."""
        if resources:
            self.own.scheduler.limit_cores()
        super().serve(resources)

    def close(self) -> None:
        """Kills and reaps all workers with their process groups, and drops running tasks. Idempotent."""
        super().close()
        self.own.close()


def logs_beside(blobs_root: Path) -> Path:
    """Return the folder for the workers' output of a run with objects there."""
    return blobs_root.absolute().parent / "workers"


class WorkerPool(OwnPool):
    """A pool of one lane: at most `workers` processes for one run, each with `threads` for numerical libraries.

    See `TaskPool` for `modules` and `logs`. The default for `logs` is a folder next to the objects' folder.
    """

    def __init__(
        self, workers: int, blobs_root: Path, modules: Mapping[str, str], threads: int = 1, logs: Path | None = None
    ) -> None:
        logs = logs or logs_beside(blobs_root)
        processes = local_workers(workers, modules.values(), logs, threads=threads)
        super().__init__(TaskPool(Capacity(workers, workers), modules, logs, processes), blobs_root)
