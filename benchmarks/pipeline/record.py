"""The record of a measurement, from which this benchmark and the guide about waiting rounds print one table."""

import statistics
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.conditions import Conditions
from marless.reports.text import markdown_table

FILE = Path(__file__).resolve().parents[2] / "docs" / "results" / "pipeline.json"
HEADER = ("a round", "ms", "against", "ratio", "lowest to highest", "predicted", "weights", "asked for")


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One way to train against another, repetition by repetition: ratios are seconds of the other's rounds to its own.

    `predicted` is that of the tasks' durations alone; `least` bounds the median of the ratios. `same_weights`: all runs
    end with the same bytes.
    """

    name: str
    against: str
    ms: list[float]
    ratios: list[float]
    same_weights: bool
    predicted: float | None = None
    least: float | None = None

    @property
    def ratio(self) -> float:
        """The median over repetitions."""
        return statistics.median(self.ratios)

    def cells(self) -> tuple[str, ...]:
        """The row of the table, in the order of `HEADER`."""
        return (
            self.name,
            f"{statistics.median(self.ms):,.0f}",
            self.against,
            f"{self.ratio:.2f}",
            f"{min(self.ratios):.2f} to {max(self.ratios):.2f} ({len(self.ratios)})",
            "" if self.predicted is None else f"{self.predicted:.2f}",
            "the same" if self.same_weights else "others",
            "" if self.least is None else f"≥ {self.least:.2f}: {'met' if self.ratio >= self.least else 'MISSED'}",
        )


class Record(Conditions, frozen=True, kw_only=True):
    """All comparisons of a measurement."""

    comparisons: list[Comparison]


def table(comparisons: Sequence[Comparison]) -> str:
    """The comparisons as markdown."""
    return markdown_table(HEADER, [comparison.cells() for comparison in comparisons])


def write(record: Record) -> None:
    """Stores the record."""
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")


def stored() -> Record | None:
    """The record that was stored last; None before the first."""
    return msgspec.json.decode(FILE.read_bytes(), type=Record) if FILE.is_file() else None
