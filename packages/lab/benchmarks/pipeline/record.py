"""The record of a measurement. This benchmark and the guide about waiting rounds print one table from it."""

import statistics

import msgspec

from benchmarks.comparisons.measurement_record import Record, RecordFile
from benchmarks.table import verdict

HEADER = ("a round", "ms", "against", "ratio", "lowest to highest", "predicted", "weights", "asked for")


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One way to train against another, repetition by repetition: ratios are seconds of the other's rounds to its own.

    `predicted` follows from the tasks' durations alone. `least` bounds the ratios. `same_weights`: all runs end with
    the same bytes.
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
            "" if self.least is None else f"≥ {self.least:.2f}: {verdict(self.ratios, self.least)}",
        )


FILE = RecordFile("pipeline", Record[Comparison], HEADER)
