"""The interface of loggers, which write the scalars of a run where users look at them, such as TensorBoard."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class LoggedRun:
    """The run that a logger writes down.

    `id` is the same for every command of the run and no other run has it. `created` is in seconds since 1970. `group`
    is the run's study, '' without one. `settings` is the whole configuration by dotted key.
    """

    name: str
    id: str
    folder: Path
    created: float
    group: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Point:
    """Scalars at one place of the x axis, which is environment steps.

    `number` ascends within a run, and a point has the same number whenever it is written. So a store that keeps its
    points can tell which ones it has. `seconds` is the training time of the run by then.
    """

    number: int
    env_steps: int
    seconds: float
    scalars: Mapping[str, float]


class Writer(Protocol):
    """An open log of one run. Every method may raise. The run then continues without this log.

    If its store refuses some names, it may have an attribute `renamed`, the store's names by ours, shown to the user
    once. `valid_names.Names` finds such names.
    """

    @property
    def where(self) -> str:
        """The place of the log for the user: a path or an address."""

    def write(self, point: Point) -> None:
        """Logs a point. Points arrive in the order of their numbers."""

    def finish(self, artefacts: Sequence[Path], status: str) -> None:
        """The command has written the run's files, including `artefacts`. `status` is from summary.json."""

    def close(self) -> None:
        """Returns once all is written. No call follows."""


class Logger(ABC):
    """A kind of log. Loggers of other packages inherit from it."""

    name: str
    summary: str
    """A description in half a line."""
    extra = ""
    """The extra of marless that brings its packages, or ''."""

    @abstractmethod
    def open(self, run: LoggedRun) -> Writer:
        """The log of a run, new or continued.

        All earlier points of the run are written to it again, from the first on, and then the new points. So the writer
        either begins afresh or leaves out the points that its store has.
        """
