"""A pool of one run."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from infra.local.dispatch import Capacity
from infra.local.lane import Lane
from infra.local.pool import Pool

if TYPE_CHECKING:
    from functions.resources.settings import Resource


class WorkerPool(Lane):
    """A pool of one lane: at most `workers` processes for one run.

    `modules`, `threads` and `logs` are as in `Pool`; the default for `logs` is a folder beside that of the objects.
    """

    def __init__(
        self, workers: int, blobs_root: Path, modules: Mapping[str, str], threads: int = 1, logs: Path | None = None
    ) -> None:
        self.own = Pool(Capacity(workers, workers), modules, logs or blobs_root.absolute().parent / "workers", threads)
        super().__init__(self.own, "", blobs_root, 1.0)
        self.own.open(self)

    def serve(self, resources: Mapping[str, "Resource"]) -> None:
        """Lets its tasks ask these resources. Those that compute then share the machine's cores with the tasks."""
        if resources:
            self.own.limit_cores()
        super().serve(resources)

    def close(self) -> None:
        """Kills and reaps all workers with their process groups; drops running tasks. Idempotent."""
        super().close()
        self.own.close()
