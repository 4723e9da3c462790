"""Results that Python shows as one line, and notebooks as tables."""

from collections.abc import Sequence
from html import escape

from marless.functions.text.redaction import redact
from marless.reports.section import Section

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

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.headline}>"

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
    return f'<div style="overflow-x:auto">{title}{table}{notes}</div>'


def _row(tag: str, cells: Sequence[str]) -> str:
    row = "".join(f'<{tag} style="{_CELL}">{_text(cell)}</{tag}>' for cell in cells)
    return f"<tr>{row}</tr>"


def _text(text: str) -> str:
    return escape(redact(text))
