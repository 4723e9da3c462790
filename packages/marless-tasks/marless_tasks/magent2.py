"""Many agents on a grid, of the package `magent2`: a task ``magent2/battle`` is its ``battle_v4``.

Agents see the cells around them as an image. Its channels are walls and, for each group, the positions and the health
of its agents. The state is such an image of the whole grid. `task.options` are arguments of the game's `parallel_env`,
such as `map_size`, which changes the number of agents. `horizon` is its `max_cycles`. The sides of games of two are
set, see `GAMES`. Agents die where the game has that, and an episode is terminated for all when it is decided, and
truncated at the horizon.

Source: Zheng et al., "MAgent: A Many-Agent Reinforcement Learning Platform for Artificial Collective Intelligence",
2018.
"""

import difflib
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from marless.functions.environments.base import EnvTask, VectorEnvironment
from marless.functions.environments.pettingzoo.adapter import assemble
from marless.functions.environments.pettingzoo.factory import build, module_of
from marless.functions.environments.scene import Box, Colour, Scene

_WALL: Colour = (0.5, 0.5, 0.5)


class _Game(NamedTuple):
    """A game of the package: its module, and the option `sides`."""

    module: str
    sides: str


GAMES = {
    "adversarial_pursuit": _Game("adversarial_pursuit_v4", "predator,prey"),
    "battle": _Game("battle_v4", "red,blue"),
    "battlefield": _Game("battlefield_v5", "red,blue"),
    "combined_arms": _Game("combined_arms_v6", "red,blue"),
    "gather": _Game("gather_v5", ""),
    "tiger_deer": _Game("tiger_deer_v4", "deer,tiger"),
}


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """`num_envs` environments. Raises `ValueError` for unknown games and options, `MissingExtra` if the package is not
    installed, and the errors of `pettingzoo.assemble`."""
    label = task.name.partition("/")[2]
    if label not in GAMES:
        likely = difflib.get_close_matches(label, GAMES) or GAMES
        raise ValueError(f"magent2 has no game '{label}'; there are {', '.join(f'magent2/{game}' for game in likely)}")
    game = GAMES[label]
    module = module_of(task.name, f"magent2.environments.{game.module}")
    limit = {"max_cycles": task.options["horizon"]} if "horizon" in task.options else {}
    task_with_sides = replace(task, options={"sides": game.sides} | task.options)
    return assemble(
        task_with_sides,
        num_envs,
        lambda: build(task_with_sides, lambda **options: Grid(module.parallel_env(**limit | options))),
    )


class Grid:
    """One game. Other attributes come from the game itself."""

    def __init__(self, game: Any) -> None:
        self._game, self._groups = game, game.env.get_handles()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._game, name)

    def reset(self, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """A new episode. The package's state would show the walls of the first episode."""
        observations, infos = self._game.reset(seed=seed)
        walls = self._game.base_state[:, :, 0]
        walls[:] = 0
        walls[tuple(self._walls().T)] = 1
        return observations, infos

    def state(self) -> NDArray[np.float32]:
        """The whole grid as an image. The package's own fails for a group without agents."""
        self._game._all_handles = [group for group in self._groups if self._game.env.get_num(group)]
        state: NDArray[np.float32] = self._game.state()
        return state

    def render(self) -> Scene:
        """Walls grey, and agents in the package's colours."""
        env, size = self._game.env, self._game.map_size
        shapes = [Box(x, y, 1, 1, _WALL) for x, y in self._walls().tolist()]
        for group, (width, height, *colour) in zip(self._groups, env._get_groups_info().tolist(), strict=True):
            red, green, blue = (part / 255 for part in colour)
            shapes += [Box(x, y, width, height, (red, green, blue)) for x, y in env.get_pos(group).tolist()]
        return Scene(size, size, tuple(shapes))

    def _walls(self) -> NDArray[np.int32]:
        """The cells ``[walls, 2]``."""
        walls: NDArray[np.int32] = self._game.env._get_walls_info()
        return walls
