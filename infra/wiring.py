"""Which concrete back-end a run gets: the only place that picks classes."""

import os
from dataclasses import dataclass
from pathlib import Path

from infra.files import FileStorage
from infra.processes import WorkerPool
from infra.sqlite import SqliteLedger

FUNCTION_MODULES = {
    "actor": "functions.actor.handler",
    "learner": "functions.learner.handler",
    "evaluator": "functions.evaluator.handler",
}


@dataclass(frozen=True)
class Backend:
    """Storage, ledger and invoker of one run. `init_limit_ms`: start-up time that a time-out does not cover."""

    storage: FileStorage
    ledger: SqliteLedger
    invoker: WorkerPool
    init_limit_ms: int

    def close(self) -> None:
        """Ends the functions, then lets go of the ledger."""
        self.invoker.close()
        self.ledger.close()


def local(folder: Path, workers: int) -> Backend:
    """Files, SQLite and warm worker processes below the run's folder."""
    objects = folder / "objects"
    return Backend(
        storage=FileStorage(objects),
        ledger=SqliteLedger(folder / "ledger.sqlite"),
        invoker=WorkerPool(workers, objects, FUNCTION_MODULES),
        init_limit_ms=0,  # the pool's clock covers start-up
    )


def cores() -> int:
    """Cores this process may use: the default number of workers."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
