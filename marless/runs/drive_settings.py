"""How a command drives a run, and where a new one lives."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from marless.backends.base import TENANT, Backend
from marless.runs.view import View


@dataclass(frozen=True)
class DriveSettings:
    """How a command drives a run."""

    workers: int
    view: Callable[[], View]
    """Makes the view when the run is about to begin; imports of views wait until workers have started."""
    started: float
    """The monotonic clock when the command began."""
    detach: bool = False
    on_folder: Callable[[Path], None] = lambda path: None
    """Receives the run's folder as soon as there is one."""


@dataclass(frozen=True)
class RunLocation:
    """Where a new run lives."""

    backend: Backend
    tenant: str = TENANT
    region: str | None = None
