"""The style of all plots: colours, lines with their name at the end, a quiet frame, and the file that is written.

matplotlib comes with the extra 'report' and is imported when a picture is drawn.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from marless.functions.errors import MissingExtra
from marless.reports.atomic_files import replace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito, "Color Universal Design", 2008, without its yellow, which is too pale for lines on white.
COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_STYLES = ("-", "--", ":", "-.")
_GRID = "#e6e6e6"
_LABEL_PT = 9
_LINE_HEIGHT = 1.35

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class PlotLine:
    """A line of a picture with its band, which equals the line where there is none."""

    x: FloatArray
    y: FloatArray
    low: FloatArray
    high: FloatArray

    def same(self, other: "PlotLine") -> bool:
        """Return whether the two lines coincide."""
        return self.x.shape == other.x.shape and bool(np.allclose(self.x, other.x) and np.allclose(self.y, other.y))


def sheet(width: float, height: float) -> "Figure":
    """Return an empty picture of so many inches at 100 dots. Raises `MissingExtra` if matplotlib is missing."""
    try:
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        from marless.reports.notebook.shown_figure import ShownFigure
    except ImportError as error:
        from marless.extras import install

        raise MissingExtra(f"pictures need matplotlib: {install('report')}") from error
    return ShownFigure(figsize=(width, height), dpi=100, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1))


def draw_if_possible(draw: Callable[[], list[str]]) -> list[str]:
    """Return the names of the pictures that `draw` draws, or an empty list if matplotlib is missing."""
    try:
        return draw()
    except MissingExtra:
        return []


def save(figure: "Figure", path: Path) -> None:
    """Writes the picture as PNG, whole or not at all."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", metadata={"Software": None})
    replace(path, picture.getvalue())


def draw_lines(
    axes: "Axes", lines: Mapping[str, PlotLine], among: Sequence[str] = (), whole_bands: bool = False
) -> None:
    """Draw every line with its name right of the axes. Lines that coincide are drawn once, with all their names.

    The scale of the axes must be set before. Colour and style follow the position in `among`, which several axes share.
    Bands that dwarf the lines are cut, unless all of them are to be seen (`whole_bands`).
    """
    order = list(among or lines)
    styled_lines = [(names, lines[names[0]], *look(order.index(names[0]))) for names in _together(lines)]
    for _, line, colour, style in styled_lines:
        axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.1, linewidth=0)
        # A line through one point is invisible, a dot is not.
        axes.plot(line.x, line.y, style if len(line.x) > 1 else "o", color=colour, linewidth=1.8)
    bottom, top = _limits([line for _, line, *_ in styled_lines], whole_bands)
    axes.set_ylim(bottom, top)
    texts = [",\n".join(names) for names, *_ in styled_lines]
    ends = [(float(line.y[-1]) - bottom) / (top - bottom) for _, line, *_ in styled_lines]
    positions = spread(ends, [_height(axes, text) for text in texts])
    for (_, line, colour, style), text, position in zip(styled_lines, texts, positions, strict=True):
        axes.annotate(
            text,
            (float(line.x[-1]), float(line.y[-1])),
            (1.03, position),
            textcoords="axes fraction",
            va="center",
            color=colour,
            fontsize=_LABEL_PT,
            parse_math=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linestyle": style,
                "linewidth": 0.6,
                "alpha": 0.6,
                "relpos": (0, 0.5),
            },
            annotation_clip=False,
        )


def look(index: int) -> tuple[str, str]:
    """Return colour and style of the index-th line. The style changes when the colours are used up."""
    round_, colour = divmod(index, len(COLOURS))
    return COLOURS[colour], _STYLES[round_ % len(_STYLES)]


def finish(axes: "Axes", title: str, subtitle: str, x: str, y: str) -> None:
    """Set titles, axis labels and a quiet frame. The texts may contain dollar signs."""
    axes.set_title(title, parse_math=False, loc="left", fontsize=11, fontweight="bold", pad=24)
    axes.annotate(
        subtitle, (0, 1), (0, 8), textcoords="offset points", xycoords="axes fraction", fontsize=9, color="#505050"
    )
    axes.set_xlabel(x, parse_math=False)
    axes.set_ylabel(y, parse_math=False)
    quiet(axes)


def heading(figure: "Figure", title: str, subtitle: str) -> None:
    """Titles above several axes."""
    figure.suptitle(f"{title}\n{subtitle}", x=0.012, ha="left", fontsize=11, fontweight="bold", parse_math=False)


def quiet(axes: "Axes") -> None:
    """A faint grid and no frame but the two axes."""
    axes.grid(color=_GRID)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def spread(ideal: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Positions in [0, 1] near the `ideal` ones for labels of these heights, in the same order, without overlap.

    Labels that do not fit are spaced evenly and overlap.
    """
    order = sorted(range(len(ideal)), key=lambda index: (ideal[index], index))
    positions = [0.0] * len(ideal)
    free = 0.0
    for index in order:
        positions[index] = max(ideal[index], free + heights[index] / 2)
        free = positions[index] + heights[index] / 2
    ceiling = 1.0
    for index in reversed(order):
        positions[index] = min(positions[index], ceiling - heights[index] / 2)
        ceiling = positions[index] - heights[index] / 2
    return positions


def _limits(lines: Sequence[PlotLine], whole_bands: bool = False) -> tuple[float, float]:
    """Limits that include all lines, and their bands, or as much of these as does not dwarf the lines."""
    low, high = min(float(line.y.min()) for line in lines), max(float(line.y.max()) for line in lines)
    room = np.inf if whole_bands else 0.15 * (high - low) or max(1.0, 0.1 * abs(high))
    bottom = max(low - room, min(float(line.low.min()) for line in lines))
    top = min(high + room, max(float(line.high.max()) for line in lines))
    margin = 0.04 * (top - bottom) or max(1.0, 0.1 * abs(top))
    return bottom - margin, top + margin


def _together(lines: Mapping[str, PlotLine]) -> list[list[str]]:
    groups: list[list[str]] = []
    for name, line in lines.items():
        home = next((group for group in groups if line.same(lines[group[0]])), None)
        if home is None:
            groups.append([name])
        else:
            home.append(name)
    return groups


def _height(axes: "Axes", text: str) -> float:
    figure = axes.get_figure(root=True)
    assert figure is not None
    points = 72 * axes.get_position().height * figure.get_figheight()
    return (text.count("\n") + 1) * _LABEL_PT * _LINE_HEIGHT / points
