"""Results that Python shows as one line, and notebooks as tables."""

import textwrap
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from marless.functions.text.redaction import redact
from marless.reports.section import Section
from marless.user_errors import short_errors

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

_LONGEST = 900
# More rows make a cell that is slow to draw.
_MOST_ROWS = 100
_CELL = "text-align:left;padding:2px 14px 2px 0"


class ShownResult:
    """A result with a headline and tables, which subclasses define."""

    __slots__ = ()

    @property
    def headline(self) -> str:
        """The result in one line."""
        raise NotImplementedError

    @property
    def sections(self) -> Sequence[Section]:
        """The tables, the most important first."""
        raise NotImplementedError

    @property
    def sentences(self) -> Sequence[str]:
        """The conclusions from all tables."""
        return ()

    @property
    def records(self) -> Sequence[Mapping[str, Any]]:
        """Return the rows of `frame`, by default the rows of the first table."""
        from marless.reports.notebook.bars import number_in

        table, rows = self.sections[0], [dict[str, Any]() for _ in self.sections[0].rows]
        for row, cells in zip(rows, table.rows, strict=True):
            for name, cell in zip(table.header, cells, strict=True):
                row[name or ("note" if row else "name")] = cell if (value := number_in(cell)) is None else value
        return rows

    @short_errors()
    def frame(self) -> "DataFrame":
        """Return the numbers as a frame of pandas, or of polars. Raises `UserError` without both packages."""
        from marless.reports.notebook.data_frame import data_frame

        return data_frame(self.records, "frame()")

    @short_errors()
    def plot(self) -> "Figure":
        """Return the first table as a figure of matplotlib, which a notebook shows. Raises `MissingExtra` without
        matplotlib.

        Examples:
            >>> marless.crossplay("chase", "random").plot().savefig("crossplay.png")
        """
        from marless.reports.notebook.bars import bars

        return bars(self.sections[0], self.headline)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {textwrap.shorten(self.headline, _LONGEST, placeholder='...')}>"

    def _repr_html_(self) -> str:
        sentences = "".join(f"<li>{_text(sentence)}</li>" for sentence in self.sentences)
        tables = "".join(map(_html, self.sections))
        return f"<div><b>{_text(self.headline)}</b>{sentences and f'<ul>{sentences}</ul>'}{tables}</div>"


def _html(section: Section) -> str:
    header = _row("th", section.header)
    rows = "".join(_row("td", row) for row in section.rows[:_MOST_ROWS])
    table = f"<table><thead>{header}</thead><tbody>{rows}</tbody></table>"
    hidden = len(section.rows) - _MOST_ROWS
    more = f"and {hidden:,} more rows" if hidden > 0 else ""
    lines = (more, *(sentence.replace("**", "") for sentence in section.conclusions), section.footnote)
    notes = "".join(f"<div><small>{_text(line)}</small></div>" for line in lines if line)
    title = f"<p>{_text(section.title)}</p>" if section.title else ""
    return f'<div style="overflow-x:auto;margin-top:8px">{title}{table}{notes}</div>'


def _row(tag: str, cells: Sequence[str]) -> str:
    row = "".join(f'<{tag} style="{_CELL}">{_text(cell)}</{tag}>' for cell in cells)
    return f"<tr>{row}</tr>"


def _text(text: str) -> str:
    return escape(redact(text))
