"""A kitchen as shapes: tiles, what lies on them and what cooks hold."""

from collections.abc import Iterable
from typing import Any

from marless.functions.environments.scene import Box, Colour, Disc, Line, Scene, Shape, grid

_WHITE: Colour = (1.0, 1.0, 1.0)
# By the package's letter of a tile: counter, pot, onions, tomatoes, dishes, where soups are served.
_TILES: dict[str, Colour] = {
    "X": (0.83, 0.74, 0.6),
    "P": (0.35, 0.35, 0.38),
    "O": (0.95, 0.87, 0.45),
    "T": (0.95, 0.6, 0.5),
    "D": (0.75, 0.85, 0.95),
    "S": (0.6, 0.82, 0.6),
}
_THINGS: dict[str, Colour] = {
    "onion": (1.0, 0.8, 0.1),
    "tomato": (0.9, 0.2, 0.15),
    "dish": _WHITE,
    "soup": (0.75, 0.5, 0.25),
}
_READY: Colour = (0.3, 0.75, 0.3)
_COOKS: tuple[Colour, ...] = ((0.3, 0.5, 0.95), (0.9, 0.35, 0.3))


def draw(gridworld: Any, state: Any) -> Scene:
    """Tiles with a letter, things as small discs, soups with the number of their ingredients, green when they are
    ready, and cooks as large discs with a line where they look."""
    shapes: list[Shape] = [
        Box(x, y, 1, 1, _TILES.get(letter, _WHITE), letter if letter in "POTDS" else "")
        for y, row in enumerate(gridworld.terrain_mtx)
        for x, letter in enumerate(row)
    ]
    shapes += grid(gridworld.height, gridworld.width)
    shapes += [_thing(thing, *thing.position) for thing in state.objects.values()]
    for cook, colour in zip(state.players, _COOKS, strict=True):
        shapes += _cook(cook, colour)
    return Scene(gridworld.width, gridworld.height, tuple(shapes))


def _cook(cook: Any, colour: Colour) -> Iterable[Shape]:
    x, y = cook.position[0] + 0.5, cook.position[1] + 0.5
    right, down = cook.orientation
    yield Disc(x, y, 0.38, colour)
    yield Line(x, y, x + 0.38 * right, y + 0.38 * down)
    if cook.held_object is not None:
        yield _thing(cook.held_object, cook.position[0] + 0.22 * right, cook.position[1] + 0.22 * down)


def _thing(thing: Any, x: float, y: float) -> Disc:
    """The disc of `thing` on the tile whose corner is (x, y)."""
    soup = thing.name == "soup"
    colour = _READY if soup and thing.is_ready else _THINGS[thing.name]
    return Disc(x + 0.5, y + 0.5, 0.24 if soup else 0.18, colour, str(len(thing.ingredients)) if soup else "")
