"""A run of a campaign: a setting with a seed, and its status and results."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from marless.coordinator.config.schema import RunConfig

Status = Literal["new", "running", "paused", "stopped", "finished", "failed", "interrupted"]
"""Of a run. `paused`: it waits for a decision about its setting; `stopped`: that decision was against it."""
# A run in one of these is not continued by the study.
OVER: tuple[Status, ...] = ("stopped", "finished", "failed")
# Statuses for readers, first the statuses that need attention.
ORDER: tuple[Status, ...] = ("running", "failed", "interrupted", "paused", "new", "finished", "stopped")


@dataclass
class StudyRun:
    """One setting with one seed."""

    name: str
    setting: str
    seed: int
    owner: str
    config: RunConfig = field(repr=False)
    status: Status = "new"
    round: int = 0
    score: float | None = None
    """The mean return of its last evaluation."""
    dollars: float = 0.0
    seconds: float = 0.0
    served_s: float = 0.0
    """For how long slots of the pool ran its tasks."""
    reason: str = ""
    unlogged: Sequence[str] = ()
    """The loggers that failed."""
    limits: Sequence[str] = ()
    """Limits that a run gets when it goes on, such as ``stop.env_steps=200``."""
    registration: str = ""
    """The registration under which it began."""


def summary(runs: Iterable[StudyRun]) -> str:
    """Count the runs by status: ``30 runs: 2 running, 28 new``."""
    counts = Counter[str](run.status for run in runs)
    return f"{counts.total()} runs: " + ", ".join(f"{counts[status]} {status}" for status in ORDER if counts[status])
