"""The markdown table of a run of the benchmarks."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from marless.reports.text import markdown_table

HEADER = ("measurement", "median", "min … max", "ratio", "min … max", "against", "asked for")


@dataclass(frozen=True)
class Row:
    """A measurement: one value per repetition and, if it is compared, one ratio per repetition.

    `fmt` formats a value. `least` and `most` bound the ratios, or the values if there are no ratios.
    """

    name: str
    values: Sequence[float]
    fmt: str = ",.0f"
    unit: str = ""
    ratios: Sequence[float] = ()
    against: str = ""
    least: float | None = None
    most: float | None = None

    def cells(self) -> tuple[str, ...]:
        """The row's cells, in the order of `HEADER`."""
        unit = f" {self.unit}" if self.unit else ""
        return (
            self.name,
            f"{statistics.median(self.values):{self.fmt}}{unit}" if self.values else "not reached",
            spread(self.values, self.fmt),
            f"{statistics.median(self.ratios):.3g}" if self.ratios else "",
            spread(self.ratios, ".3g"),
            self.against,
            self._verdict(),
        )

    def _verdict(self) -> str:
        bounded = self.ratios or self.values
        if (self.least is None and self.most is None) or not bounded:
            return ""
        bound = f"≥ {self.least:g}" if self.least is not None else f"≤ {self.most:g}"
        return f"{bound}: {verdict(bounded, self.least, self.most)}"


def verdict(values: Sequence[float], least: float | None = None, most: float | None = None) -> str:
    """Return whether the measurements keep a bound: all of them, the only one, the median alone, or none of these."""
    low = -math.inf if least is None else least
    high = math.inf if most is None else most
    if not low <= statistics.median(values) <= high:
        return "MISSED"
    if len(values) == 1:
        return "met in the only measurement"
    return "met" if low <= min(values) and max(values) <= high else "met by the median alone"


def spread(values: Sequence[float], fmt: str) -> str:
    """The noise: lowest and highest value, and the number of values."""
    return f"{min(values):{fmt}} … {max(values):{fmt}} ({len(values)})" if values else ""


def markdown(rows: Sequence[Row]) -> str:
    """The table, with aligned columns."""
    return markdown_table(HEADER, [row.cells() for row in rows])


def quotients(values: Sequence[float], base: Sequence[float]) -> list[float]:
    """Ratios within each repetition."""
    return [value / other for value, other in zip(values, base, strict=True)]
