"""Melting Pot: a task ``meltingpot/coins`` is the substrate `coins` of the package `dm-meltingpot`.

Agents see the picture around them, averaged over squares of `downsample` pixels, a sprite by default. They also see all
other observations that Melting Pot permits, such as their inventory. All default roles of the substrate are played. An
episode ends when the substrate ends it, always by time, which Melting Pot calls a termination. `horizon` cuts it
earlier, and is otherwise the substrate's longest episode. Rewards are the substrate's.

Every episode is a new game of the substrate, like in Melting Pot. The package takes its seed from Python's random
numbers, so they follow from the seed while the game is built.

Source: Agapiou et al., "Melting Pot 2.0", 2022.
"""

import contextlib
import difflib
import os
import random
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.base import EnvironmentFault, EnvTask, VectorEnvironment, options_of
from marless.functions.environments.pettingzoo.adapter import assemble
from marless.functions.environments.pettingzoo.guard import describe_error_with_location
from marless.functions.errors import MissingExtra
from marless.functions.setting_limits import MOST_STEPS, MOST_UNITS

PREFIX = "meltingpot/"
_INSTALL = "pip install 'dm-meltingpot>=2.4,<3', see docs/reference/environments.md"
_OUTPUTS = (1, 2)

Answer = tuple[dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any]]


class MeltingPotOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The options."""

    # The side of the squares of pixels that are averaged, in pixels. Sprites have 8.
    downsample: Annotated[int, msgspec.Meta(ge=1, le=MOST_UNITS)] = 8
    # The longest episode in steps. None for the substrate's own.
    horizon: Annotated[int, msgspec.Meta(ge=1, le=MOST_STEPS)] | None = None


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """`num_envs` games of the substrate. Raises `ValueError` for unknown names and options or another number of agents,
    and `MissingExtra` if the package is not installed."""
    options = options_of(task, MeltingPotOptions)
    package = _package(task.name)
    name = task.name.removeprefix(PREFIX)
    if name not in package.SUBSTRATES:
        nearest = ", ".join(
            difflib.get_close_matches(name, package.SUBSTRATES, cutoff=0.4) or sorted(package.SUBSTRATES)
        )
        raise ValueError(f"{task.name}: Melting Pot has no substrate '{name}'; there are: {nearest}")
    observation_names = import_module("meltingpot.scenario").PERMITTED_OBSERVATIONS

    def create() -> SubstrateGame:
        try:
            return SubstrateGame(task.name, package, name, observation_names, options)
        except ValueError:
            raise
        except Exception as error:
            raise EnvironmentFault(f"{task.name}: {describe_error_with_location(error)}") from error

    return assemble(EnvTask(name=task.name, agents=task.agents), num_envs, create)


class SubstrateGame:
    """One substrate, with the interface of PettingZoo's `ParallelEnv`."""

    def __init__(
        self, task: str, package: Any, name: str, observation_names: frozenset[str], options: MeltingPotOptions
    ) -> None:
        """`package` is Melting Pot's module `substrate`, `observation_names` the names of observations that agents may
        see."""
        self._task, self._package, self._name = task, package, name
        with _drawing_from(0):
            config = package.get_config(name)
            self._roles = tuple(config.default_player_roles)
            settings = config.lab2d_settings_builder(roles=self._roles, config=config)
            self._game = package.build(name, roles=self._roles)
        self._seen = [key for key in config.individual_observation_names if key in observation_names]
        self._side = options.downsample
        self.max_cycles = options.horizon or int(settings["maxEpisodeLengthFrames"])
        self.possible_agents = [f"player_{i}" for i in range(len(self._roles))]
        self.agents: list[str] = []
        self._spaces = [self._space(spec) for spec in self._game.observation_spec()]
        self._actions = [int(spec.num_values) for spec in self._game.action_spec()]

    def observation_space(self, agent: str) -> Any:
        """The picture, and numbers if there are any."""
        return self._spaces[self.possible_agents.index(agent)]

    def action_space(self, agent: str) -> Any:
        """A choice among the substrate's actions."""
        from gymnasium import spaces

        return spaces.Discrete(self._actions[self.possible_agents.index(agent)])

    def reset(self, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """A new game."""
        self._game.close()
        with _drawing_from(seed):
            self._game = self._package.build(self._name, roles=self._roles)
            self._now = self._game.reset()
        self.agents = list(self.possible_agents)
        return self._observations(), {}

    def step(self, actions: dict[str, Any]) -> Answer:
        """One step of all agents."""
        self._now = self._game.step([int(actions[agent]) for agent in self.possible_agents])
        over = bool(self._now.last())
        if over:
            self.agents = []
        rewards = dict(zip(self.possible_agents, map(float, self._now.reward), strict=True))
        terminations, cut = (dict.fromkeys(self.possible_agents, value) for value in (over, False))
        return self._observations(), rewards, terminations, cut, {}

    def render(self) -> NDArray[np.uint8]:
        """The whole world as Melting Pot draws it."""
        picture: NDArray[np.uint8] = np.asarray(self._now.observation[0]["WORLD.RGB"])
        return picture

    def close(self) -> None:
        """Closes the game."""
        self._game.close()

    def _space(self, specs: Any) -> Any:
        from gymnasium import spaces

        parts: dict[str, Any] = {}
        for key in self._seen:
            shape = tuple(specs[key].shape)
            if key != "RGB":
                parts[key] = spaces.Box(-np.inf, np.inf, shape, np.float32)
                continue
            height, width, depth = shape
            if height % self._side or width % self._side:
                raise ValueError(
                    f"{self._task}: task.options.downsample is {self._side}, which does not divide the picture's "
                    f"{height} by {width} pixels"
                )
            parts[key] = spaces.Box(0, 255, (height // self._side, width // self._side, depth), np.uint8)
        return spaces.Dict(parts)

    def _observations(self) -> dict[str, Any]:
        return {
            agent: {key: self._small_picture(key, observation[key]) for key in self._seen}
            for agent, observation in zip(self.possible_agents, self._now.observation, strict=True)
        }

    def _small_picture(self, key: str, value: Any) -> Any:
        return average(value, self._side) if key == "RGB" else value


def average(picture: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """`picture` ``[H, W, C]`` as ``[H / side, W / side, C]``, the rounded means of squares."""
    height, width, depth = picture.shape
    # Rows of squares come first, because their numbers are adjacent: a ninth of the time of both axes at once.
    rows = picture.reshape(height // side, side, width * depth).sum(axis=1, dtype=np.uint32)
    sums = rows.reshape(height // side, width // side, side, depth).sum(axis=2)
    means: NDArray[np.uint8] = np.rint(sums / side**2).astype(np.uint8)
    return means


def _package(name: str) -> Any:
    try:
        with _quiet():
            return import_module("meltingpot.substrate")
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        raise MissingExtra(
            f"{name} needs Melting Pot (the package '{package}' is not installed): {_INSTALL}"
        ) from error
    except Exception as error:
        problem = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise EnvironmentFault(f"{name}: Melting Pot does not load: {problem}") from error


@contextlib.contextmanager
def _drawing_from(seed: int) -> Iterator[None]:
    """Let Python's random numbers follow from `seed`, restore them afterwards, and print nothing."""
    random_state = random.getstate()
    random.seed(seed)
    try:
        with _quiet():
            yield
    finally:
        random.setstate(random_state)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress output that bypasses Python's streams, such as from Lua and TensorFlow, which Melting Pot's bots
    need."""
    sys.stdout.flush()
    sys.stderr.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    copies = [os.dup(stream) for stream in _OUTPUTS]
    try:
        for stream in _OUTPUTS:
            os.dup2(nowhere, stream)
        yield
    finally:
        for stream, copy in zip(_OUTPUTS, copies, strict=True):
            os.dup2(copy, stream)
            os.close(copy)
        os.close(nowhere)
