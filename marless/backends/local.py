"""Files, SQLite and warm worker processes below the run's folder."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from marless.backends.base import FUNCTION_MODULES, Backend, Connection, Part, Readiness, WorkerListener
from marless.coordinator.drive.ports import Invoker
from marless.coordinator.platform import Platform
from marless.functions.errors import MissingExtra
from marless.infra.local.file_storage import FileStorage
from marless.infra.local.lane import Lane
from marless.infra.local.single_run_pool import OwnPool, WorkerPool
from marless.infra.local.sqlite_ledger import LEDGER_FILE, SqliteLedger

if TYPE_CHECKING:
    from marless.infra.aws.deployment_ref import DeploymentRef

OBJECTS = "objects"
"""The folder of a run's objects in the run's folder."""


class LocalBackend(Backend):
    """Functions are processes of this machine."""

    name = "local"
    summary = "worker processes on this machine"

    def open(
        self, folder: Path, workers: int, read_only: bool = False, deployment_ref: "DeploymentRef | None" = None
    ) -> Connection:
        """See `Backend.open`."""
        connection = _connection(folder, WorkerPool(workers, folder / OBJECTS, FUNCTION_MODULES), workers, read_only)
        return connection.for_reading() if read_only else connection

    def attach(self, folder: Path, lane: Lane, concurrency: int) -> Connection:
        """Connect to the run in `folder`. Its functions run in a lane of a pool. Raises `StorageFault`."""
        return _connection(folder, lane, concurrency)

    def has_run(self, folder: Path) -> bool:
        """See `Backend.has_run`."""
        return (folder / LEDGER_FILE).is_file()

    def readiness(self) -> Readiness:
        """See `Backend.readiness`."""
        return Readiness(ready=True, what=self.summary, parts=(_kernels(),))


def _kernels() -> Part:
    from marless.functions.native.kernels import kernels

    try:
        kernels()
    except MissingExtra as error:
        return Part(name="kernels", ready=False, text=str(error), needed=False)
    return Part(name="kernels", ready=True, text="algorithm.engine=native", needed=False)


class ListeningBackend(LocalBackend):
    """Functions are processes of machines that dial in."""

    workers_dial_in = True

    def __init__(self, listener: WorkerListener) -> None:
        self._listener = listener

    def open(
        self, folder: Path, workers: int, read_only: bool = False, deployment_ref: "DeploymentRef | None" = None
    ) -> Connection:
        """See `Backend.open`."""
        run = self._listener.run_pool(folder / OBJECTS, FUNCTION_MODULES)
        connection = _connection(folder, run, max(1, run.own.connected), read_only)
        return replace(connection, width=lambda: max(1, run.own.connected))


def _connection(folder: Path, invoker: Invoker, concurrency: int, read_only: bool = False) -> Connection:
    storage = FileStorage(folder / OBJECTS)
    connection = Connection(
        storage=storage,
        ledger=SqliteLedger(folder / LEDGER_FILE, read_only),
        invoker=invoker,
        platform=Platform(concurrency=concurrency),  # without a limit on start-ups: the pool's clock covers them
        printed=_below_here(invoker.logs) if isinstance(invoker, Lane) else "",
        any_processor=isinstance(invoker, Lane) and invoker.any_processor,
        settle=storage.settle,
        news=invoker.own.news if isinstance(invoker, OwnPool) else list,
    )
    offered = {name: getattr(invoker, name) for name in ("serve", "compare_code") if hasattr(invoker, name)}
    return replace(connection, **offered)


def _below_here(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


BACKEND = LocalBackend()
