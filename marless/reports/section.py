"""A table of a report with notes, and estimates as its cells."""

from collections.abc import Callable
from dataclasses import dataclass

from marless.reports.digits import Digits
from marless.reports.statistics import Estimate, Interval
from marless.reports.text import markdown_table, table

NONE = "-"
"""The cell of what there is none of."""


@dataclass(frozen=True)
class Section:
    """A table with its title. Rows have as many cells as the header.

    `conclusions` are sentences, one for each row. `footnote` explains the asterisk of some cells.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    conclusions: tuple[str, ...] = ()
    footnote: str = ""

    @property
    def text(self) -> str:
        """The title, the table in aligned columns, the conclusions and the footnote, without the note."""
        conclusions = (sentence.replace("**", "") for sentence in self.conclusions)
        return "\n".join(filter(None, (self.title, table(self.header, self.rows), *conclusions, self.footnote)))

    @property
    def markdown(self) -> list[str]:
        """The section's paragraphs."""
        bullets = "\n".join(f"* {sentence}" for sentence in self.conclusions)
        footnote = self.footnote.replace("*", r"\*", 1)
        parts = (f"## {self.title}", markdown_table(self.header, self.rows), footnote, bullets, self.note)
        return [part for part in parts if part]


def estimate_cell(estimate: Estimate | None, digits: Digits, sign: bool = False) -> str:
    """``-57.8 (-59.1 to -56.2)``."""
    if estimate is None:
        return NONE
    return interval_cell(estimate.value, estimate.ci95, lambda value: digits.text(value, sign))


def interval_cell(value: float, interval: Interval | None, text: Callable[[float], str]) -> str:
    """The value with its interval in brackets, where there is one."""
    return f"{text(value)} ({' to '.join(map(text, interval))})" if interval else text(value)
