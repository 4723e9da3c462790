"""Connect four: takes a win, else blocks one of the other player, else plays anywhere."""

import numpy as np

from marless.functions.environments.base import BoolArray, FloatArray

ROWS, COLUMNS = 6, 7
_STEPS = ((0, 1), (1, 0), (1, 1), (1, -1))
# The 69 lines of four cells ``[69, 4]``. Cells are numbered row by row from the top.
LINES = np.array(
    [
        [(row + i * down) * COLUMNS + column + i * right for i in range(4)]
        for row in range(ROWS)
        for column in range(COLUMNS)
        for down, right in _STEPS
        if row + 3 * down < ROWS and 0 <= column + 3 * right < COLUMNS
    ]
)
# Which line's place is which cell ``[69 * 4, 42]``.
_PLACES = np.eye(ROWS * COLUMNS, dtype=np.float32)[LINES.ravel()]


def choose(observations: FloatArray, legal: BoolArray) -> BoolArray:
    """The columns among which the player chooses ``[B, 7]``, from boards of own and other stones ``[B, 6 * 7 * 2]``."""
    stones = observations[:, : ROWS * COLUMNS * 2].reshape(-1, ROWS * COLUMNS, 2) > 0
    empty: BoolArray = ~(stones[:, :, 0] | stones[:, :, 1])
    choices = legal
    # The most important test comes last.
    for player in (1, 0):
        completing: BoolArray = _completing(stones[:, :, player], empty) & legal
        choices = np.where(completing.any(axis=1, keepdims=True), completing, choices)
    return choices


def _completing(stones: BoolArray, empty: BoolArray) -> BoolArray:
    """The columns ``[B, 7]`` where a stone completes four in a row, from cells ``[B, 42]``."""
    three = stones[:, LINES].sum(axis=2) == 3
    places = three[:, :, None] & empty[:, LINES]
    cells = places.reshape(len(stones), -1).astype(np.float32) @ _PLACES > 0
    grid = empty.reshape(-1, ROWS, COLUMNS)
    # A stone falls to the lowest empty cell.
    lowest = grid & ~np.concatenate([grid[:, 1:], np.zeros_like(grid[:, :1])], axis=1)
    return np.asarray((cells.reshape(grid.shape) & lowest).any(axis=1))
