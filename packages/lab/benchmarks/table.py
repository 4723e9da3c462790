"""The markdown table of a run of the benchmarks."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from marless.reports.statistics import FEWEST_SEEDS
from marless.reports.text import markdown_table

HEADER = ("measurement", "median", "min … max", "ratio", "min … max", "against", "asked for")


@dataclass(frozen=True)
class Row:
    """A measurement: one value per repetition and, if it is compared, one ratio per repetition.

    A value that was not reached is infinite. `fmt` formats a value. `least` and `most` bound the ratios, or the values
    if there are no ratios. A bound is not met if the row `guard` misses its own bound.
    """

    name: str
    values: Sequence[float]
    fmt: str = ",.0f"
    unit: str = ""
    ratios: Sequence[float] = ()
    against: str = ""
    least: float | None = None
    most: float | None = None
    guard: "Row | None" = None

    def cells(self) -> tuple[str, ...]:
        """The row's cells, in the order of `HEADER`."""
        unit = f" {self.unit}" if self.unit else ""
        return (
            self.name,
            typical(self.values, self.fmt, unit),
            spread(self.values, self.fmt),
            typical(self.ratios, ".3g"),
            spread(self.ratios, ".3g"),
            self.against,
            self._verdict(),
        )

    @property
    def is_missed(self) -> bool:
        """Return True if a measurement is beyond the row's bound."""
        bounded = self.ratios or self.values
        return kept(bounded, self.least, self.most) < len(bounded)

    def _verdict(self) -> str:
        bounded = self.ratios or self.values
        if (self.least is None and self.most is None) or not bounded:
            return ""
        bound = f"≥ {self.least:g}" if self.least is not None else f"≤ {self.most:g}"
        if self.guard is not None and self.guard.is_missed:
            return f"{bound}: not met: its guard missed"
        return f"{bound}: {verdict(bounded, self.least, self.most)}"


def verdict(values: Sequence[float], least: float | None = None, most: float | None = None) -> str:
    """Return whether measurements meet a bound: all of them keep it, and there are at least `FEWEST_SEEDS`."""
    count, number = kept(values, least, most), len(values)
    if count < number:
        return f"MISSED: kept in {count} of {number}"
    return "met" if number >= FEWEST_SEEDS else f"kept in {count} of {number}, {FEWEST_SEEDS} are needed"


def kept(values: Sequence[float], least: float | None = None, most: float | None = None) -> int:
    """Return the number of measurements within a bound."""
    low = -math.inf if least is None else least
    high = math.inf if most is None else most
    return sum(low <= value <= high and math.isfinite(value) for value in values)


def typical(values: Sequence[float], fmt: str, unit: str = "") -> str:
    """Return the median as text. A value that was not reached counts as the largest."""
    return _shown(statistics.median(values), fmt, unit) if values else ""


def spread(values: Sequence[float], fmt: str) -> str:
    """Return the noise as text: lowest and highest value, and the number of values."""
    return f"{_shown(min(values), fmt)} … {_shown(max(values), fmt)} ({len(values)})" if values else ""


def _shown(value: float, fmt: str, unit: str = "") -> str:
    return f"{value:{fmt}}{unit}" if math.isfinite(value) else "not reached"


def markdown(rows: Sequence[Row]) -> str:
    """The table, with aligned columns."""
    return markdown_table(HEADER, [row.cells() for row in rows])


def quotients(values: Sequence[float], base: Sequence[float]) -> list[float]:
    """Ratios within each repetition."""
    return [value / other for value, other in zip(values, base, strict=True)]


def share(value: float | None, base: float | None) -> float:
    """Return the ratio of two costs of one seed. Without a value it is infinite, and only without a base it is 0."""
    if value is None:
        return math.inf
    return 0.0 if base is None else value / base
