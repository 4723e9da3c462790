"""Level-based foraging, of the package `lbforaging`: a task ``lbf/8x8-2p-3f`` is its ``Foraging-8x8-2p-3f-v3``.

Players of levels gather food whose level they must reach together. In ``lbf/2s-8x8-2p-3f-coop`` they see two squares
far, and no food can be gathered alone. `task.options` are arguments of `ForagingEnv`; `horizon` is its
`max_episode_steps`. An episode is terminated when all food is gathered, and truncated at the horizon. Every player has
the reward of what it gathered itself.

Source: Papoudakis et al., "Benchmarking Multi-Agent Deep Reinforcement Learning Algorithms in Cooperative Tasks", 2021.
"""

from typing import Any

from functions.environments.base import EnvTask, VectorEnvironment
from functions.environments.pettingzoo.tuple_environment import TupleEnvironment, make_tuple_environments, registered

_FORM = "lbf/[2s-]<size>x<size>-<players>p-<food>f[-coop], such as lbf/8x8-2p-3f"


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """`num_envs` environments; raises `ValueError` for names and options that the package does not know, `MissingExtra`
    when it is not installed, and what `pettingzoo.assemble` raises."""
    creator, defaults = registered(task.name, "lbforaging", "Foraging-{}-v3", _FORM)

    def wrap(environment: Any, horizon: int) -> TupleEnvironment:
        return _Foraging(environment, horizon, _food_is_left)

    return make_tuple_environments(task, num_envs, creator, defaults, "max_episode_steps", wrap)


class _Foraging(TupleEnvironment):
    """Starts every episode from its seed alone: the package keeps new players off where the last episode's stood."""

    def reset(self, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        for player in self._environment.players:
            player.position = None
        return super().reset(seed)


def _food_is_left(environment: Any) -> bool:
    return bool(environment.field.any())
