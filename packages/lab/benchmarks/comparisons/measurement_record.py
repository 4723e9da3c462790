"""Records of measurements in docs/results. Benchmarks and guides print the same tables from them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import msgspec

from benchmarks.comparisons.conditions import Conditions
from marless.reports.text import markdown_table

_RESULTS = Path(__file__).resolve().parents[4] / "docs" / "results"


class Comparable(Protocol):
    """A comparison of two ways to do something."""

    def cells(self) -> tuple[str, ...]:
        """The row of a table."""
        ...


Comparison = TypeVar("Comparison", bound=Comparable)


class Record(Conditions, Generic[Comparison], frozen=True, kw_only=True):
    """All comparisons of a measurement, and its conditions."""

    comparisons: list[Comparison]


class RecordFile(Generic[Comparison]):
    """docs/results/NAME.json, with the last measurement of ``make bench ARGS=NAME``. `header` heads the rows."""

    def __init__(self, name: str, kind: type[Record[Comparison]], header: Sequence[str]) -> None:
        self.name, self.header = name, header
        self._kind, self._path = kind, _RESULTS / f"{name}.json"

    def text(self, record: Record[Comparison]) -> str:
        """The comparisons as a table in markdown, and the conditions."""
        return f"{markdown_table(self.header, [each.cells() for each in record.comparisons])}\n\n{record.sentence()}"

    def write(self, record: Record[Comparison]) -> None:
        """Stores the record."""
        self._path.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")

    def stored(self) -> Record[Comparison] | None:
        """The record that was stored last. None before the first."""
        return msgspec.json.decode(self._path.read_bytes(), type=self._kind) if self._path.is_file() else None
