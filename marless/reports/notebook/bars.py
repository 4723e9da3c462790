"""A table of a result as bars: a panel for each column of numbers, a bar for each row."""

import re
from typing import TYPE_CHECKING

from marless.reports.plot_style import heading, look, quiet, sheet
from marless.reports.section import Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NUMBER = re.compile(r"-?\$?(\d[\d,]*\.?\d*(?:e[-+]?\d+)?)")
_MOST_PANELS = 4


def number_in(cell: str) -> float | None:
    """Return the number that begins a cell, for example of ``-57.8 (-59.1 to -56.2)`` and of ``$0.02``."""
    match = _NUMBER.match(cell)
    return float(f"{'-' * cell.startswith('-')}{match[1].replace(',', '')}") if match else None


def bars(table: Section, title: str) -> "Figure":
    """Return the figure. Raises `MissingExtra` without matplotlib."""
    columns = [(name, [number_in(row[at]) for row in table.rows]) for at, name in enumerate(table.header) if at]
    panels = [(name, values) for name, values in columns if any(value is not None for value in values)][:_MOST_PANELS]
    figure = sheet(2.2 + 2.6 * max(1, len(panels)), 1.6 + 0.3 * len(table.rows))
    panel_axes = figure.subplots(1, max(1, len(panels)), sharey=True, squeeze=False)[0]
    for axes, (name, values), index in zip(panel_axes, panels, range(_MOST_PANELS), strict=False):
        axes.barh(range(len(values)), [value or 0.0 for value in values], color=look(index + 1)[0], height=0.6)
        axes.set_title(name, fontsize=10, parse_math=False)
        quiet(axes)
    panel_axes[0].set_yticks(range(len(table.rows)), [row[0] for row in table.rows], parse_math=False)
    panel_axes[0].invert_yaxis()
    heading(figure, title, table.title)
    return figure
