"""The settings by which a command drives a run, and the place of a new run."""

from collections.abc import Callable
from dataclasses import dataclass, field

from marless.backends.base import TENANT, Backend, WorkerListener
from marless.backends.local import ListeningBackend, LocalBackend
from marless.coordinator.errors import UserError
from marless.runs.folder import RunFolder
from marless.runs.run_store import RUNS, RunStore
from marless.runs.view import View
from marless.signals import Signals


@dataclass(frozen=True)
class DriveSettings:
    """The way that a command drives a run."""

    workers: int
    view: Callable[[], View]
    """Makes the view when the run is about to begin; imports of views wait until workers have started."""
    started: float
    """The monotonic clock when the command began."""
    detach: bool = False
    on_folder: Callable[[RunFolder], None] = lambda folder: None
    """Receives the run's folder as soon as there is one."""
    listener: WorkerListener | None = None
    """Workers of other machines dial in there, and serve instead of processes of this machine."""
    signals: Signals = field(default_factory=Signals)
    """They stop the run."""

    def backend(self, backend: Backend) -> Backend:
        """Return the back-end of the run with these workers. Raises `UserError` if they cannot serve it."""
        if self.listener is None:
            return backend
        if type(backend) is not LocalBackend:
            raise UserError(f"--machines is for runs of the back-end {LocalBackend.name}, not {backend.name}")
        return ListeningBackend(self.listener)


@dataclass(frozen=True)
class RunLocation:
    """The place of a new run."""

    backend: Backend
    tenant: str = TENANT
    region: str | None = None
    store: RunStore = RUNS
