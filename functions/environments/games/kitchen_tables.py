"""The tables of a kitchen that its engine reads (`Kitchen` of functions/native/games/kitchen.h).

A pose is 4 * cell + facing: north, south, east or west.
"""

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.games.kitchen_layouts import TILES, Layout

Table = NDArray[Any]

IMAGE_LAYERS = 26
_FLOOR, _COUNTER, _POT, _ONIONS, _TOMATOES, _DISHES, _SERVING = range(len(TILES))
_SOUP = 16
# More steps than any way has.
_FAR = 2**15 - 1
# Where features begin (`KitchenFeature`).
_OWN_FEATURES, _THINGS, _SERVING_WAY, _POTS, _POT_FEATURES, _WALLS = 46, 8, 18, 22, 10, 42
_TILE_LAYERS = {_POT: 10, _COUNTER: 11, _ONIONS: 12, _TOMATOES: 13, _DISHES: 14, _SERVING: 15}


def tables_of(layout: Layout, shaping: float, paints: bool) -> dict[str, Table]:
    """The tables by their names in C, for images or for features."""
    columns = len(layout.rows[0])
    terrain = np.array([TILES.index(letter) for row in layout.rows for letter in row], np.uint8)
    pots = np.flatnonzero(terrain == _POT).astype(np.int16)
    pot_numbers = np.full(terrain.size, -1, np.int16)
    pot_numbers[pots] = np.arange(pots.size)
    first_tiles = np.zeros(terrain.size, np.uint8)
    for (x, y), onions in layout.soups.items():
        first_tiles[y * columns + x] = _SOUP + onions
    prices = np.zeros((2, _SOUP), np.int64)
    for onions, tomatoes in product(range(4), repeat=2):
        if 0 < onions + tomatoes < 4:
            prices[:, onions + 4 * tomatoes] = layout.menu.price("o" * onions + "t" * tomatoes)
    tables = {
        "terrain": terrain,
        "pot_numbers": pot_numbers,
        "pot_cells": pots,
        "pays": prices[0],
        "cook_steps": prices[1],
        "shaping": np.array([shaping]),
        "first_cooks": np.array([(y * columns + x, facing) for x, y, facing in layout.cooks], np.int16),
        "first_tiles": first_tiles,
    }
    return tables | _Ways(terrain, columns).tables(pot_numbers) | ({"blank": _blank_image(terrain)} if paints else {})


def _blank_image(terrain: Table) -> Table:
    image = np.zeros((terrain.size, IMAGE_LAYERS), np.float32)
    for tile, layer in _TILE_LAYERS.items():
        image[terrain == tile, layer] = 1
    return image


def steps_to_tiles(terrain: Table, columns: int) -> Table:
    """Steps of a cook from each pose until it has used each cell ``[poses, cells]``, 32,767 if it cannot.

    A step turns the cook, and moves it if the next cell is floor. To use the cell ahead is the last step.
    """
    floor = terrain == _FLOOR
    poses = np.flatnonzero(np.repeat(floor, 4))
    cells = poses // 4
    neighbours = _neighbours_of(cells, columns)
    next_pose = 4 * np.where(floor[neighbours], neighbours, cells[:, None]) + np.arange(4)
    ahead = _neighbours_of(cells, columns)[np.arange(poses.size), poses % 4]
    steps = np.full((4 * terrain.size, terrain.size), _FAR, np.int32)
    steps[poses, ahead] = np.where(floor[ahead], _FAR, 1)
    while True:
        shorter = np.minimum(steps[poses], 1 + steps[next_pose].min(axis=1))
        if np.array_equal(shorter, steps[poses]):
            return steps.astype(np.int16)
        steps[poses] = shorter


def _neighbours_of(cells: Table, columns: int) -> Table:
    """The cells north, south, east and west of others ``[cells, 4]``."""
    return np.add.outer(cells, [-columns, columns, 1, -1])


class _Ways:
    """From each pose to the things that stay where they are, and to counters from the nearest on."""

    def __init__(self, terrain: Table, columns: int) -> None:
        self._terrain, self._steps = terrain, steps_to_tiles(terrain, columns)
        cells = np.arange(terrain.size)
        self._spots = np.stack((cells % columns, cells // columns), axis=1).astype(np.float32)
        self._blank = np.zeros((len(self._steps), _OWN_FEATURES), np.float32)
        self._blank[:, :4] = np.tile(np.eye(4), (terrain.size, 1))
        neighbours = _neighbours_of(cells, columns).clip(0, terrain.size - 1)
        self._blank[:, _WALLS:] = np.repeat(terrain[neighbours] != _FLOOR, 4, axis=0)

    def tables(self, pot_numbers: Table) -> dict[str, Table]:
        """The tables by their names in C."""
        dispensers = [self._nearest(tile, 1) for tile in (_ONIONS, _TOMATOES, _DISHES)]
        for kind, (cells, _) in enumerate(dispensers):
            self._write_way(cells[:, 0], _THINGS + 2 * kind)
        self._write_way(self._nearest(_SERVING, 1)[0][:, 0], _SERVING_WAY)
        pots, _ = self._nearest(_POT, 2)
        for place, begin in enumerate((_POTS, _POTS + _POT_FEATURES)):
            self._blank[:, begin] = pots[:, place] >= 0
            self._write_way(pots[:, place], begin + _POT_FEATURES - 2)
        # One more, so that -1 ends every row.
        counters, to_counters = self._nearest(_COUNTER, int((self._terrain == _COUNTER).sum()) + 1)
        return {
            "blank": self._blank,
            "spots": self._spots,
            "to_dispensers": np.concatenate([steps for _, steps in dispensers], axis=1),
            "next_pots": np.where(pots < 0, -1, pot_numbers[pots]).astype(np.int16),
            "next_counters": counters,
            "to_counters": to_counters,
        }

    def _nearest(self, tile: int, count: int) -> tuple[Table, Table]:
        """The nearest cells with a tile, -1 for missing ones, and the steps to them, both ``[poses, count]``."""
        cells = np.flatnonzero(self._terrain == tile)
        order = np.argsort(self._steps[:, cells], axis=1, kind="stable")[:, :count]
        missing = ((0, 0), (0, count - order.shape[1]))
        steps = np.pad(np.take_along_axis(self._steps[:, cells], order, axis=1), missing, constant_values=_FAR)
        return np.where(steps < _FAR, np.pad(cells[order], missing), -1).astype(np.int16), steps

    def _write_way(self, cells: Table, place: int) -> None:
        """Writes the way to these cells ``[poses]`` into features, (0, 0) for -1."""
        ways = self._spots[cells] - np.repeat(self._spots, 4, axis=0)
        self._blank[:, place : place + 2] = np.where(cells[:, None] < 0, 0, ways)
