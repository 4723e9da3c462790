"""Which concrete back-end a run gets: the only place that picks classes."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from infra.aws.deployment_ref import DeploymentRef
from infra.local.files import FileStorage
from infra.local.processes import WorkerPool
from infra.local.sqlite import SqliteLedger

# Runs on this machine do not wait for the imports of the others.
if TYPE_CHECKING:
    from infra.aws.awslambda import LambdaInvoker
    from infra.aws.detached import Deployed
    from infra.aws.dynamodb import DynamoLedger
    from infra.aws.s3 import S3Storage

FUNCTION_MODULES = {
    "actor": "functions.actor.handler",
    "learner": "functions.learner.handler",
    "evaluator": "functions.evaluator.handler",
}


BackendName = Literal["local", "emulated", "aws"]
# The file of the ledger in the run's folder.
LEDGER = "ledger.sqlite"
# The emulated account of a folder of runs.
EMULATED = ".emulated"
# Whose deployment is meant where nobody says.
TENANT = "default"


@dataclass(frozen=True)
class Backend:
    """Storage, ledger and invoker of one run.

    `init_limit_ms`: start-up time that a time-out does not cover. `width`: functions that run at once. `fixed`:
    functions have the sizes they were deployed with. `grace_s`: how long events may be on their way. `cpu_scaling`:
    durations are measured on whole cores, whatever share of one a function's memory buys.
    """

    storage: "FileStorage | S3Storage"
    ledger: "SqliteLedger | DynamoLedger"
    invoker: "WorkerPool | LambdaInvoker"
    init_limit_ms: int
    width: int
    fixed: bool = False
    grace_s: float = 0.0
    cpu_scaling: bool = True

    def prewarm(self) -> None:
        """Lets worker processes import what the first tasks need while this process is still getting ready."""
        if isinstance(self.invoker, WorkerPool):
            self.invoker.prewarm("actor")
            self.invoker.prewarm("learner")

    def close(self) -> None:
        """Ends the functions, or forgets them, then lets go of the ledger."""
        self.invoker.close()
        self.ledger.close()


class Open(Protocol):
    """Opens the back-end of the run in `folder`; with `read_only` its ledger takes no commits and its folder stays as
    it is. `deployment_ref`: where a run lives that is not on this machine."""

    def __call__(
        self, folder: Path, workers: int, read_only: bool = False, deployment_ref: DeploymentRef | None = None
    ) -> Backend: ...


def local(folder: Path, workers: int, read_only: bool = False, deployment_ref: DeploymentRef | None = None) -> Backend:
    """Files, SQLite and warm worker processes below the run's folder."""
    objects = folder / "objects"
    return Backend(
        storage=FileStorage(objects),
        ledger=SqliteLedger(folder / LEDGER, read_only),
        invoker=WorkerPool(workers, objects, FUNCTION_MODULES),
        init_limit_ms=0,  # the pool's clock covers start-up
        width=workers,
    )


def emulated(
    folder: Path, workers: int, read_only: bool = False, deployment_ref: DeploymentRef | None = None
) -> Backend:
    """The emulated account beside the run's folder; durations are measured on this machine's cores."""
    from infra.aws.remote import emulated_cloud, remote

    assert deployment_ref is not None
    return remote(emulated_cloud(folder.parent / EMULATED), deployment_ref, grace_s=2.0, cpu_scaling=True)


def aws(folder: Path, workers: int, read_only: bool = False, deployment_ref: DeploymentRef | None = None) -> Backend:
    """The user's account; the platform itself measures.

    Events may wait for minutes where other runs, or other users of the account, take the room: Lambda keeps them.
    """
    from infra.aws.clients import Cloud
    from infra.aws.remote import remote

    assert deployment_ref is not None
    return remote(Cloud(deployment_ref.region), deployment_ref, grace_s=300.0, cpu_scaling=False)


def deployed(backend: BackendName, folder: Path, deployment_ref: DeploymentRef) -> "Deployed":
    """The deployment that the run in `folder` lives in."""
    from infra.aws.clients import Cloud
    from infra.aws.remote import emulated_cloud, settled

    there = emulated_cloud(folder.parent / EMULATED) if backend == "emulated" else Cloud(deployment_ref.region)
    return settled(there, deployment_ref)


BACKENDS: dict[BackendName, Open] = {"local": local, "emulated": emulated, "aws": aws}


def cores() -> int:
    """Cores this process may use: the default number of workers."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
