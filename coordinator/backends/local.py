"""Files, SQLite and warm worker processes below the run's folder."""

from pathlib import Path
from typing import TYPE_CHECKING

from coordinator.backends.base import FUNCTION_MODULES, Backend, Connection
from functions.contract import Platform
from infra.local.files import FileStorage
from infra.local.processes import WorkerPool
from infra.local.sqlite import LEDGER_FILE, SqliteLedger

if TYPE_CHECKING:
    from infra.aws.deployment_ref import DeploymentRef


class LocalBackend(Backend):
    """Functions are processes of this machine."""

    name = "local"
    summary = "worker processes on this machine"

    def open(
        self, folder: Path, workers: int, read_only: bool = False, deployment_ref: "DeploymentRef | None" = None
    ) -> Connection:
        """See `Backend.open`."""
        objects = folder / "objects"
        made = Connection(
            storage=FileStorage(objects),
            ledger=SqliteLedger(folder / LEDGER_FILE, read_only),
            invoker=WorkerPool(workers, objects, FUNCTION_MODULES),
            platform=Platform(concurrency=workers),  # without a limit on start-ups: the pool's clock covers them
        )
        return made.for_reading() if read_only else made

    def has_run(self, folder: Path) -> bool:
        """See `Backend.has_run`."""
        return (folder / LEDGER_FILE).is_file()


BACKEND = LocalBackend()
