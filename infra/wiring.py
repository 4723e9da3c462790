"""Which concrete back-end a run gets: the only place that picks classes."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from infra.files import FileStorage
from infra.processes import WorkerPool
from infra.sqlite import SqliteLedger

FUNCTION_MODULES = {
    "actor": "functions.actor.handler",
    "learner": "functions.learner.handler",
    "evaluator": "functions.evaluator.handler",
}


BackendName = Literal["local"]
# The file of the ledger in the run's folder.
LEDGER = "ledger.sqlite"


@dataclass(frozen=True)
class Backend:
    """Storage, ledger and invoker of one run.

    `init_limit_ms`: start-up time that a time-out does not cover. `width`: functions that run at once.
    """

    storage: FileStorage
    ledger: SqliteLedger
    invoker: WorkerPool
    init_limit_ms: int
    width: int

    def close(self) -> None:
        """Ends the functions, then lets go of the ledger."""
        self.invoker.close()
        self.ledger.close()


class Open(Protocol):
    """Opens the back-end of the run in `folder`; with `read_only` its ledger takes no commits and its folder stays as
    it is."""

    def __call__(self, folder: Path, workers: int, read_only: bool = False) -> Backend: ...


def local(folder: Path, workers: int, read_only: bool = False) -> Backend:
    """Files, SQLite and warm worker processes below the run's folder."""
    objects = folder / "objects"
    return Backend(
        storage=FileStorage(objects),
        ledger=SqliteLedger(folder / LEDGER, read_only),
        invoker=WorkerPool(workers, objects, FUNCTION_MODULES),
        init_limit_ms=0,  # the pool's clock covers start-up
        width=workers,
    )


BACKENDS: dict[BackendName, Open] = {"local": local}


def cores() -> int:
    """Cores this process may use: the default number of workers."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
