"""The number of steps that a player needs to reach a tile of a kitchen.

The package has a planner for this, which needs scipy and fails with NumPy 2 (`np.Inf`). This one counts the same steps.
"""

from collections import deque
from collections.abc import Sequence
from math import inf
from typing import Any

Cell = tuple[int, int]
# A cell, and a player's direction of view: (0, -1), (0, 1), (1, 0) or (-1, 0).
Pose = tuple[Cell, Cell]

_DIRECTIONS = ((0, -1), (0, 1), (1, 0), (-1, 0))


class Distances:
    """The part of the package's planners that its features ask for, an `mlam` for `featurize_state`.

    Every counter can be a goal: `MotionPlanner(mdp, counter_goals=mdp.get_counter_locations())` of the package.
    """

    def __init__(self, gridworld: Any) -> None:
        self._free = frozenset(gridworld.get_valid_player_positions())
        self._costs: dict[Pose, dict[Cell, int]] = {}
        # The package reads `mlam.motion_planner`.
        self.motion_planner = self

    def min_cost_to_feature(
        self, start: Pose, tiles: Sequence[Cell], with_argmin: bool = True
    ) -> tuple[float, Cell | None]:
        """Return the steps to the nearest of `tiles`, with the interaction, and that tile. Infinity and None if all are
        out of reach. The first of several at the same distance counts."""
        if start not in self._costs:
            self._costs[start] = self._from(start)
        costs = self._costs[start]
        nearest = min((tile for tile in tiles if tile in costs), key=costs.__getitem__, default=None)
        return (inf, None) if nearest is None else (costs[nearest], nearest)

    def _from(self, start: Pose) -> dict[Cell, int]:
        """Steps from `start` to every tile that can be reached, by breadth-first search: a step turns, and moves where
        the way is free."""
        steps, waiting, costs = {start: 0}, deque([start]), dict[Cell, int]()
        while waiting:
            pose = waiting.popleft()
            cell, facing = pose
            ahead = _ahead(cell, facing)
            if ahead not in self._free:
                costs.setdefault(ahead, steps[pose] + 1)
            for direction in _DIRECTIONS:
                next_cell = _ahead(cell, direction)
                next_pose = (next_cell if next_cell in self._free else cell, direction)
                if next_pose not in steps:
                    steps[next_pose] = steps[pose] + 1
                    waiting.append(next_pose)
        return costs


def _ahead(cell: Cell, direction: Cell) -> Cell:
    return cell[0] + direction[0], cell[1] + direction[1]
