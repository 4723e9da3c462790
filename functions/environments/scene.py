"""Shapes that an environment's `render(index)` may return instead of a picture, described without a library.

Coordinates are units of the environment, x from the left, y from the top. Later shapes cover earlier ones.
"""

from typing import NamedTuple

# Red, green and blue, each from 0 to 1.
Colour = tuple[float, float, float]

BLACK: Colour = (0.0, 0.0, 0.0)
# Two colours that colour-blind people tell apart (Okabe and Ito, "Color Universal Design", 2008).
ORANGE: Colour = (0.90, 0.62, 0.0)
SKY_BLUE: Colour = (0.34, 0.71, 0.91)


class Disc(NamedTuple):
    """A disc with an outline around the point (x, y), with a text at its centre."""

    x: float
    y: float
    radius: float
    colour: Colour
    label: str = ""
    outline: Colour = BLACK


class Box(NamedTuple):
    """A rectangle with its upper left corner at (x, y), and a text at its centre."""

    x: float
    y: float
    width: float
    height: float
    colour: Colour
    label: str = ""


class Line(NamedTuple):
    """A thin line from (x, y) to (to_x, to_y)."""

    x: float
    y: float
    to_x: float
    to_y: float
    colour: Colour = BLACK


Shape = Disc | Box | Line


class Scene(NamedTuple):
    """A white field of `width` by `height` with shapes, and texts in its lower left corner from the bottom up.

    `agent_colours` are by agent, or empty. Without `walls`, shapes may leave the
    field: the pictures of an episode then all show as much around it as its shapes need.
    """

    width: float
    height: float
    shapes: tuple[Shape, ...]
    texts: tuple[str, ...] = ()
    agent_colours: tuple[Colour, ...] = ()
    walls: bool = True


def fade(colour: Colour) -> Colour:
    """The colour of dead agents: three quarters of the way to white."""
    red, green, blue = (0.25 * part + 0.75 for part in colour)
    return red, green, blue


def grid(rows: int, columns: int, colour: Colour = (0.8, 0.8, 0.8)) -> tuple[Line, ...]:
    """The lines between and around cells of size 1."""
    across = (Line(0, row, columns, row, colour) for row in range(rows + 1))
    return (*across, *(Line(column, 0, column, rows, colour) for column in range(columns + 1)))
