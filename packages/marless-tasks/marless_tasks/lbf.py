"""Level-based foraging, of the package `lbforaging`, to compare with our own `lbf/`.

A task ``package:lbf/8x8-2p-3f`` is the package's ``Foraging-8x8-2p-3f-v3``. `task.options` are arguments of
`ForagingEnv`. `horizon` is its `max_episode_steps`.

Source: Papoudakis et al., "Benchmarking Multi-Agent Deep Reinforcement Learning Algorithms in Cooperative Tasks", 2021.
"""

from typing import Any

import msgspec

from marless.functions.environments.base import EnvTask, VectorEnvironment
from marless.functions.environments.entities.description import Entities, EntityBlock, columns_of
from marless.functions.environments.pettingzoo.tuple_environment import (
    TupleEnvironment,
    make_tuple_environments,
    registered_environment,
)
from marless.functions.environments.scene import Box, Disc, Scene, grid

_PLAYER, _FOOD = (0.45, 0.6, 0.95), (0.95, 0.5, 0.45)
_FORM = "package:lbf/[2s-]<size>x<size>-<players>p-<food>f[-coop], such as package:lbf/8x8-2p-3f"


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """Return `num_envs` environments.

    Raises `ValueError` for unknown names and options, `MissingExtra` if the package is not installed, and the errors of
    `pettingzoo.assemble`.
    """
    creator, defaults = registered_environment(task.name, "lbforaging", "Foraging-{}-v3", _FORM)

    def wrap(environment: Any, horizon: int) -> TupleEnvironment:
        return _Foraging(environment, horizon, _food_is_left)

    return make_tuple_environments(task, num_envs, creator, defaults, "max_episode_steps", wrap)


class _Foraging(TupleEnvironment):
    """Makes an episode depend on its seed alone: the package does not place players where the last episode's stood."""

    @property
    def entities(self) -> dict[str, Any]:
        """The food and the other players. Players see themselves first, and all positions from a corner."""
        environment = self._environment
        food, features = 3 * environment.max_num_food, 2 + environment._observe_agent_levels
        size, absent = food + features * len(environment.players), (-1.0, -1.0, 0.0)
        description = Entities.of(
            size,
            EntityBlock("food", columns_of(food // 3, (0, 3)), (0, 1), absent),
            EntityBlock(
                "teammate",
                columns_of(len(environment.players) - 1, (food + features, features)),
                (0, 1),
                absent[:features],
                teammates=True,
            ),
            origin=(food, food + 1),
        )
        return dict(msgspec.to_builtins(description))

    def reset(self, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        for player in self._environment.players:
            player.position = None
        return super().reset(seed)

    def render(self) -> Scene:
        """The grid with food as red discs and players as blue squares, both with their levels."""
        field = self._environment.field
        rows, columns = field.shape
        food = (
            Disc(column + 0.5, row + 0.5, 0.36, _FOOD, str(int(field[row, column])))
            for row in range(rows)
            for column in range(columns)
            if field[row, column]
        )
        players = (
            Box(player.position[1] + 0.12, player.position[0] + 0.12, 0.76, 0.76, _PLAYER, str(int(player.level)))
            for player in self._environment.players
        )
        return Scene(columns, rows, (*grid(rows, columns), *food, *players))


def _food_is_left(environment: Any) -> bool:
    return bool(environment.field.any())
