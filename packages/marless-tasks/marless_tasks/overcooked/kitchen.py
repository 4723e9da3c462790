"""Overcooked, stepped by the package `overcooked-ai`: a task ``package:overcooked/cramped_room`` is its layout.

Tasks ``overcooked/<layout>`` of MARLess compute the same in C, and describe rules and options. This adapter is for
comparisons. It has the options `horizon`, `observation` and `shaping`.

Source: Carroll et al., "On the Utility of Learning about Humans for Human-AI Coordination", 2019.
"""

import difflib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.base import EnvTask, VectorEnvironment
from marless.functions.environments.pettingzoo.adapter import assemble
from marless.functions.environments.pettingzoo.factory import build, quiet_module_of
from marless_tasks.overcooked.distances import Distances

_HORIZON = 400
_PREFIX = "package:overcooked/"

# One array per cook.
Views = Sequence[NDArray[Any]]


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """Return `num_envs` environments.

    Raises `ValueError` for unknown layouts and options, `MissingExtra` if the package is not installed, and the errors
    of `pettingzoo.assemble`.
    """
    mdp = quiet_module_of(task.name, "overcooked_ai_py.mdp.overcooked_mdp")
    layouts = Path(quiet_module_of(task.name, "overcooked_ai_py.static").LAYOUTS_DIR)
    gridworld = mdp.OvercookedGridworld.from_layout_name(_layout(task.name, layouts))
    if gridworld.num_players != 2:
        raise ValueError(f"{task.name} is a kitchen for {gridworld.num_players}; only those for two are supported")

    def kitchen(observation: str = "features", shaping: float = 1.0) -> PackageKitchen:
        if observation not in _OBSERVATIONS:
            raise ValueError(f"observation is {observation!r}; there are {', '.join(_OBSERVATIONS)}")
        if isinstance(shaping, bool) or not isinstance(shaping, int | float) or shaping < 0:
            raise ValueError(f"shaping is {shaping!r}; it must be a number from 0")
        horizon = task.options.get("horizon", _HORIZON)
        return PackageKitchen(mdp, gridworld, horizon, _OBSERVATIONS[observation](gridworld, horizon), shaping)

    return assemble(task, num_envs, lambda: build(task, kitchen))


class PackageKitchen:
    """One kitchen with the interface of PettingZoo's `ParallelEnv`. The adapter truncates its episodes.

    `views` encodes a state of the package, and `shaping` is the share of the pay for steps on the way to a soup.
    """

    def __init__(self, mdp: Any, gridworld: Any, horizon: Any, views: Callable[[Any], Views], shaping: float) -> None:
        """`mdp` is the package's module of `gridworld`."""
        from gymnasium import spaces

        self.possible_agents = [f"cook_{i}" for i in range(gridworld.num_players)]
        self.agents = list(self.possible_agents)
        self.max_cycles = horizon
        self._recipes, self._gridworld, self._views, self._shaping = mdp.Recipe, gridworld, views, shaping
        self._state, self._sparse = gridworld.get_standard_start_state(), 0.0
        self._actions = gridworld.get_actions(self._state)[0]
        # Counts and distances have no bounds in common.
        self._seen = spaces.Box(-np.inf, np.inf, views(self._state)[0].shape, np.float32)
        self._choices = spaces.Discrete(len(self._actions))

    def observation_space(self, agent: str) -> Any:
        """The same for every cook."""
        return self._seen

    def action_space(self, agent: str) -> Any:
        """Up, down, right, left, stay and interact."""
        return self._choices

    def reset(self, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """A new episode, which is the same for every seed."""
        self._state, self._sparse = self._gridworld.get_standard_start_state(), 0.0
        return self._by_cook(self._views(self._state)), {}

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any]]:
        """One step of all cooks."""
        self._open()
        joint_action = tuple(self._actions[actions[cook]] for cook in self.possible_agents)
        self._state, infos = self._gridworld.get_state_transition(self._state, joint_action)
        soups = float(sum(infos["sparse_reward_by_agent"]))
        self._sparse += soups
        rewards = [soups + self._shaping * steps for steps in infos["shaped_reward_by_agent"]]
        goes_on = dict.fromkeys(self.possible_agents, False)
        return self._by_cook(self._views(self._state)), self._by_cook(rewards), goes_on, goes_on, {}

    def episode_metrics(self) -> dict[str, float]:
        """Return the pay for soups in the episode."""
        return {"sparse_return": self._sparse}

    def close(self) -> None:
        """Nothing has to be freed."""

    def _open(self) -> None:
        """Set the recipes. The package keeps the recipes of the newest layout for the whole process."""
        if self._recipes.configuration is not self._gridworld.recipe_config:
            self._recipes.configure(self._gridworld.recipe_config)

    def _by_cook(self, values: Sequence[Any]) -> dict[str, Any]:
        return dict(zip(self.possible_agents, values, strict=True))


def _features(gridworld: Any, horizon: Any) -> Callable[[Any], Views]:
    distances = Distances(gridworld)
    return lambda state: gridworld.featurize_state(state, distances)


def _image(gridworld: Any, horizon: Any) -> Callable[[Any], Views]:
    # The package has the column first.
    return lambda state: [view.swapaxes(0, 1) for view in gridworld.lossless_state_encoding(state, horizon)]


_OBSERVATIONS = {"features": _features, "image": _image}


def _layout(name: str, folder: Path) -> str:
    """The layout that the task `name` names, which is one of the files in `folder`. Raises `ValueError`."""
    layout = name.removeprefix(_PREFIX)
    layouts = sorted(file.stem for file in folder.glob("*.layout"))
    if layout in layouts:
        return layout
    nearest = ", ".join(difflib.get_close_matches(layout, layouts, n=1, cutoff=0))
    raise ValueError(f"overcooked-ai has no layout '{layout}' for {name}; nearest: {_PREFIX}{nearest}")
