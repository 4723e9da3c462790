"""Level-based foraging, of the package `lbforaging`, to compare with our own `lbf/`.

A task ``package:lbf/8x8-2p-3f`` is the package's ``Foraging-8x8-2p-3f-v3``. `task.options` are arguments of
`ForagingEnv`. `horizon` is its `max_episode_steps`.

Source: Papoudakis et al., "Benchmarking Multi-Agent Deep Reinforcement Learning Algorithms in Cooperative Tasks", 2021.
"""

from typing import Any

from marless.functions.environments.base import EnvTask, VectorEnvironment
from marless_tasks.tuple_environment import (
    TupleEnvironment,
    make_tuple_environments,
    registered_environment,
)

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

    def reset(self, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        for player in self._environment.players:
            player.position = None
        return super().reset(seed)


def _food_is_left(environment: Any) -> bool:
    return bool(environment.field.any())
