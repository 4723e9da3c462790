"""A state of the Multi-Particle Environments as mpe2 draws it: discs in the scenario's colours, and messages."""

from collections.abc import Sequence

import numpy as np

from functions.environments.mpe.world import Body, Real
from functions.environments.scene import Colour, Disc, Scene

# Of the way from the centre to the edge, where the furthest coordinate is.
_FURTHEST = 0.9
# mpe2 multiplies colours by 200, not by 255.
_BRIGHTNESS = 200 / 255


def scene(bodies: Sequence[Body], colours: Sequence[Colour], position: Real, reach: float, texts: list[str]) -> Scene:
    """The bodies at `position` ``[bodies, 2]``, agents below landmarks; `reach` was the furthest coordinate at the
    episode's start, when bodies had their full size: the camera rescales as bodies move outwards."""
    furthest = furthest_coordinate(position)
    shapes = []
    for body, (x, y), colour in zip(bodies, (position / furthest * _FURTHEST).tolist(), colours, strict=True):
        red, green, blue = (part * _BRIGHTNESS for part in colour)
        shapes.append(Disc(1 + x, 1 - y, body.size * _FURTHEST * reach / furthest, (red, green, blue)))
    return Scene(2.0, 2.0, tuple(shapes), tuple(texts))


def colour_of(column: Real) -> Colour:
    """A colour from a row or column of a table ``[3]``."""
    red, green, blue = column.tolist()
    return red, green, blue


def furthest_coordinate(position: Real) -> float:
    """The largest coordinate's absolute value, 1 where all are 0."""
    return float(np.abs(position).max()) or 1.0


def message(name: str, symbols: Real, continuous: bool) -> str:
    """What an agent says in mpe2's words: a letter per word, "_" for silence, numbers where actions are continuous."""
    if not symbols.any():
        return f"{name} sends _"
    if continuous:
        return f"{name} sends [{','.join(f'{part:.2f}' for part in symbols)}]"
    return f"{name} sends {chr(ord('A') + int(symbols.argmax()))}"
