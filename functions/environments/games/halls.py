"""Halls of warehouses: where shelves stand, and where robots drive and deliver."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_HIGHWAY, _GOAL = 1, 2


class Hall(NamedTuple):
    """A hall. Robots drive everywhere, but put shelves down only where no highway is."""

    floor: NDArray[np.uint8]
    """Of each cell ``[rows, columns]``: 1 for a highway, 3 for a goal on it, 0 for the place of a shelf."""
    goals: tuple[int, ...]
    """The goals in the order of deliveries, as numbers of cells, row by row."""

    @property
    def homes(self) -> NDArray[np.int16]:
        """The numbers of shelves from 1, and 0 in cells without a shelf ``[rows, columns]``."""
        stands = self.floor == 0
        return np.where(stands, stands.cumsum().reshape(stands.shape), 0).astype(np.int16)

    @property
    def shelves(self) -> int:
        """The number of shelves."""
        return int((self.floor == 0).sum())


def hall_of_blocks(shelf_columns: int, shelf_rows: int, column_height: int) -> Hall:
    """Return a hall with `shelf_rows` times `shelf_columns` blocks of shelves, each two shelves wide.

    The lower block in the middle is missing, so that robots can queue at the two goals in the last row. Raises
    `ValueError` for an even number of columns.
    """
    if shelf_columns % 2 == 0:
        raise ValueError(f"task.options.shelf_columns is {shelf_columns}. It must be odd")
    rows, columns = (column_height + 1) * shelf_rows + 2, 3 * shelf_columns + 1
    floor, middle = np.zeros((rows, columns), np.uint8), slice(columns // 2 - 1, columns // 2 + 1)
    floor[:: column_height + 1] = floor[:, ::3] = floor[rows - 1] = _HIGHWAY
    floor[max(0, rows - column_height - 2) :, middle] = _HIGHWAY
    return _with_goals(floor, [(rows - 1, columns // 2 - 1), (rows - 1, columns // 2)])


def hall_of_text(text: str) -> Hall:
    """Return the hall that is drawn in lines: ``x`` a shelf, ``.`` a highway, ``g`` a goal.

    Raises `ValueError` for lines of several lengths, other letters, and no goal.
    """
    lines = text.strip().replace(" ", "").lower().split("\n")
    if len({*map(len, lines)}) > 1 or not lines[0]:
        raise ValueError("task.options.layout has lines of several lengths")
    if others := sorted({*"".join(lines)} - {*"gx."}):
        raise ValueError(f"task.options.layout has {others[0]!r}. Draw shelves as x, highways as . and goals as g")
    goals = [(y, x) for y, line in enumerate(lines) for x, letter in enumerate(line) if letter == "g"]
    if not goals:
        raise ValueError("task.options.layout has no goal. Draw at least one g")
    return _with_goals(np.array([[letter != "x" for letter in line] for line in lines], np.uint8), goals)


def _with_goals(floor: NDArray[Any], goals: list[tuple[int, int]]) -> Hall:
    floor[tuple(zip(*goals, strict=True))] = _HIGHWAY | _GOAL
    return Hall(floor, tuple(y * floor.shape[1] + x for y, x in goals))
