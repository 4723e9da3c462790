"""Published numbers, and the values that are measured again."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from benchmarks.records import json_lines
from marless.reports.text import counted
from marless.signals import Signals


class Published(NamedTuple):
    """A number of README and its interval. `samples`: the interval is of the mean of so many runs, or 0 if it is of
    single measurements."""

    value: float
    low: float
    high: float
    samples: int = 0

    def verdict(self, value: float, count: int) -> str:
        """Compare with the mean of `count` new runs.

        The mean of few further runs scatters more than the published mean. All runs are assumed to have one normal
        distribution. Then half of the interval grows by the square root of 1 + `samples` / `count`. Source: Hahn and
        Meeker, "Statistical Intervals", 1991.
        """
        if self.low <= value <= self.high:
            return "inside"
        half = (self.high - self.low) / 2 * math.sqrt(1 + self.samples / count)
        if self.samples and abs(value - self.value) <= half:
            return f"inside, for {counted(count, 'new run')}"
        return "OUTSIDE"


class Cell(NamedTuple):
    """The smallest piece of work. `seconds` it took when the published numbers were measured, 0 if no record has them.

    It measures a value for each of the `numbers`."""

    name: str
    seconds: float
    numbers: tuple[str, ...]


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The values that a cell measured, by the number's name, and the program that measured them."""

    cell: str
    values: dict[str, float]
    seconds: float
    commit: str | None


OnValues = Callable[[Cell, Mapping[str, float], float], None]
"""Is told the values of a cell and the seconds that it took."""


class Table(Protocol):
    """Numbers of README with one source. `is_parallel`: cells may be measured side by side."""

    is_parallel: bool

    def published(self) -> Mapping[str, Published]:
        """Return the numbers by name, from the stored records."""

    def cells(self) -> Sequence[Cell]:
        """Return all cells, the cheapest first."""

    def measure(self, cells: Sequence[Cell], folder: Path, jobs: int, signals: Signals, on_values: OnValues) -> None:
        """Measure the cells, at most `jobs` at once, until `signals` stop it. Unfinished work stays in the folder."""


@dataclass(frozen=True)
class Store:
    """The values that were measured, one line for each cell."""

    path: Path

    def read(self) -> dict[str, Value]:
        """Return the values by the cell's name. Raises `UnreadableFile`."""
        return {value.cell: value for value in json_lines.read(self.path, Value)}

    def put(self, value: Value) -> None:
        """Keep a value durably."""
        json_lines.write(self.path, (self.read() | {value.cell: value}).values())
