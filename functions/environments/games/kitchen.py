"""The tasks ``overcooked/<layout>``: the kitchens of overcooked-ai 1.1.0, computed in C.

The rules are in docs/reference/games.md. Nothing is random: only the actions of the team make episodes differ. The time
limit truncates an episode. The env metric `sparse_return` is the pay for soups in an episode, once for the team.

With `observation` ``"features"`` (the default) a cook sees the package's `featurize_state`, 96 numbers. Every counter
is a goal of its planner. The package's default leaves counters out, so cooks would not see the things on them. With
``"image"`` a cook sees `lossless_state_encoding`, 26 layers as ``[height, width, 26]``. Most papers train convolutional
networks on it.

Source: Carroll et al., "On the Utility of Learning about Humans for Human-AI Coordination", 2019.
"""

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec
import numpy as np

from marless.functions.environments.base import AgentClass, EnvSpec, EnvTask, VectorEnvironment, options_of
from marless.functions.environments.games.compiled import CompiledEnvironment
from marless.functions.environments.games.kitchen_layouts import Layout, layout_of
from marless.functions.environments.games.kitchen_tables import IMAGE_LAYERS, tables_of
from marless.functions.environments.scene import Box, Colour, Disc, Line, Scene, Shape, grid
from marless.functions.setting_limits import LARGEST, MOST_STEPS

PREFIX = "overcooked/"
_COOKS, _ACTIONS, _FEATURES = 2, 6, 96
_WHITE: Colour = (1.0, 1.0, 1.0)
_TILES: dict[str, Colour] = {
    "X": (0.83, 0.74, 0.6),
    "P": (0.35, 0.35, 0.38),
    "O": (0.95, 0.87, 0.45),
    "T": (0.95, 0.6, 0.5),
    "D": (0.75, 0.85, 0.95),
    "S": (0.6, 0.82, 0.6),
}
# Onions, tomatoes and dishes by their numbers in C (`KitchenThing`), then soups.
_THINGS: tuple[Colour, ...] = ((1.0, 0.8, 0.1), (0.9, 0.2, 0.15), _WHITE)
_FIRST_SOUP, _SOUP, _READY = 16, (0.75, 0.5, 0.25), (0.3, 0.75, 0.3)
_COOK_COLOURS: tuple[Colour, ...] = ((0.3, 0.5, 0.95), (0.9, 0.35, 0.3))
_LOOKS = ((0, -1), (0, 1), (1, 0), (-1, 0))


class KitchenOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The options of ``overcooked/<layout>``."""

    horizon: Annotated[int, msgspec.Meta(ge=1, le=MOST_STEPS)] = 400
    observation: Literal["features", "image"] = "features"
    # The share of the pay for steps on the way to a soup.
    shaping: Annotated[float, msgspec.Meta(ge=0, le=LARGEST)] = 1.0
    # Rows of tiles and cooks in place of the layout's, separated by | or line breaks.
    grid: str = ""


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """Return `num_envs` kitchens.

    Raises `ValueError` for unknown layouts, wrong options or another number of agents than two, and `MissingExtra`
    without compiled kernels.
    """
    options = options_of(task, KitchenOptions)
    layout = layout_of(task.name, task.name.removeprefix(PREFIX), options.grid)
    if task.agents not in (None, _COOKS):
        raise ValueError(f"{task.name}: task.agents is {task.agents}, but a kitchen has {_COOKS} cooks")
    return Kitchen(task.name, layout, options, num_envs)


class Kitchen(CompiledEnvironment):
    """E environments of one kitchen. The rules are in functions/native/games/kitchen.h."""

    game = "kitchen"

    def __init__(self, name: str, layout: Layout, options: KitchenOptions, num_envs: int) -> None:
        self._layout, paints = layout, options.observation == "image"
        rows, columns = len(layout.rows), len(layout.rows[0])
        shape = (rows, columns, IMAGE_LAYERS) if paints else ()
        size = rows * columns * IMAGE_LAYERS if paints else _FEATURES
        self._tables = tables = tables_of(layout, options.shaping, paints)
        area, pots, by_cook = rows * columns, len(tables["pot_cells"]), (num_envs, _COOKS)
        super().__init__(
            name,
            EnvSpec(
                agents=("cook_0", "cook_1"),
                classes=(AgentClass("cook", (0, 1), size, _ACTIONS, observation_shape=shape),),
                horizon=options.horizon,
            ),
            num_envs,
            sizes={
                "columns": columns, "area": area, "pots": pots, "horizon": options.horizon, "paints": int(paints),
                "counters": tables["next_counters"].shape[1],
            },
            tables=tables,
            state={
                "cells": (np.int16, by_cook), "facings": (np.uint8, by_cook), "hands": (np.uint8, by_cook),
                "tiles": (np.uint8, (num_envs, area)), "dropped": (np.int32, (num_envs, area)),
                "laid": (np.int64, (num_envs,)), "cooked": (np.int16, (num_envs, pots)),
                "sales": (np.int64, (num_envs,)),
            },
            metrics=("sparse_return",),
        )  # fmt: skip

    def render(self, index: int) -> Scene:
        """Draw tiles with a letter, things as small discs, and cooks as large discs with a line where they look.

        Soups have the number of their ingredients, and are green when they are ready.
        """
        rows = self._layout.rows
        shapes: list[Shape] = [
            Box(x, y, 1, 1, _TILES.get(letter, _WHITE), letter if letter in "POTDS" else "")
            for y, row in enumerate(rows)
            for x, letter in enumerate(row)
        ]
        shapes += grid(len(rows), len(rows[0]))
        tiles = self.arrays["tiles"][index]
        for cell in np.flatnonzero(tiles).tolist():
            y, x = divmod(cell, len(rows[0]))
            shapes.append(_thing(int(tiles[cell]), x, y, self._is_ready(index, cell)))
        for cook, colour in enumerate(_COOK_COLOURS):
            shapes += self._cook(index, cook, colour)
        return Scene(len(rows[0]), len(rows), tuple(shapes))

    def _is_ready(self, index: int, cell: int) -> bool:
        """Return whether a soup on a tile is ready. Soups that are not in pots are."""
        pot, steps = (
            self._tables["pot_numbers"][cell],
            self._tables["cook_steps"][self.arrays["tiles"][index, cell] & 15],
        )
        return bool(pot < 0 or self.arrays["cooked"][index, pot] >= steps)

    def _cook(self, index: int, cook: int, colour: Colour) -> Iterable[Shape]:
        y, x = divmod(int(self.arrays["cells"][index, cook]), len(self._layout.rows[0]))
        right, down = _LOOKS[self.arrays["facings"][index, cook]]
        yield Disc(x + 0.5, y + 0.5, 0.38, colour)
        yield Line(x + 0.5, y + 0.5, x + 0.5 + 0.38 * right, y + 0.5 + 0.38 * down)
        if thing := int(self.arrays["hands"][index, cook]):
            yield _thing(thing, x + 0.22 * right, y + 0.22 * down, True)


def _thing(thing: int, x: float, y: float, is_ready: bool) -> Disc:
    if thing < _FIRST_SOUP:
        return Disc(x + 0.5, y + 0.5, 0.18, _THINGS[thing - 1])
    ingredients = (thing & 3) + (thing >> 2 & 3)
    return Disc(x + 0.5, y + 0.5, 0.24, _READY if is_ready else _SOUP, str(ingredients))
