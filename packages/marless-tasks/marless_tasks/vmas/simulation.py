"""VMAS's environments as arrays: built by the scenario's name, with separate random numbers.

VMAS is imported by its name when a task is made: it brings torch, which actors must not need otherwise.
"""

import contextlib
import difflib
import inspect
import io
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from marless.functions.environments.base import (
    ActionArray,
    BoolArray,
    EnvironmentFault,
    FloatArray,
    RewardArray,
    Unsupported,
)
from marless.functions.errors import MissingExtra

_FIXED = {"device": "cpu", "dict_spaces": False, "clamp_actions": True, "terminated_truncated": True}
_INSTALL = "pip install 'vmas>=1.5.2,<2'"


class Agent(NamedTuple):
    """An agent and its spaces, see `AgentClass`."""

    name: str
    observation_size: int
    actions: int
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


class Moved(NamedTuple):
    """The result of a step: per agent ``[E, size]``, ``[E, N]``, ``[E]`` and ``[E]``."""

    observations: list[FloatArray]
    rewards: RewardArray
    terminated: BoolArray
    truncated: BoolArray


class Simulation:
    """One of VMAS's environments, a batch of E.

    VMAS keeps one random state for all its environments of a process. Ours has a separate state, which is put in its
    place during calls. So episodes do not depend on other environments of the process.
    """

    def __init__(self, name: str, environment: Any, make: Callable[[], Any]) -> None:
        """`make` makes another like `environment`. Raises `Unsupported` for observations that are not vectors, `name`
        being the env task's."""
        self.environment = environment
        self._name, self._make = name, make
        self._random: list[Any] = [*environment.vmas_random_state]
        self.agents = [_agent(name, environment, agent, space) for agent, space in _spaces(environment)]

    def reset(self, seed: int) -> list[FloatArray]:
        """Start every environment again and seed all later random numbers. Returns every agent's observations."""
        # Some scenarios keep state of the last episode over their own reset, and to make one takes 10 ms.
        self.environment = self._call(self._make)
        return _arrays(self._call(self.environment.reset, seed=seed))

    def restart(self, done: BoolArray) -> list[FloatArray]:
        """Start the environments where `done` again. In every agent's observations only their rows are right."""
        if done.all():
            return _arrays(self._call(self.environment.reset))
        for row in np.flatnonzero(done):
            self._call(self.environment.reset_at, int(row), return_observations=False)
        observations = self._call(
            self.environment.get_from_scenario,
            get_observations=True,
            get_rewards=False,
            get_infos=False,
            get_dones=False,
        )
        return _arrays(observations[0])

    def step(self, actions: list[ActionArray]) -> Moved:
        """Moves every agent of every environment."""
        observations, rewards, terminated, truncated, _ = self._call(self.environment.step, actions)
        over = np.array(terminated.numpy()).reshape(-1)
        # Some scenarios give rewards [E, 1].
        reward_matrix = np.stack([reward.numpy().reshape(-1) for reward in rewards], axis=1).astype(np.float64)
        return Moved(_arrays(observations), reward_matrix, over, np.array(truncated.numpy()).reshape(-1) & ~over)

    def _call(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """`method` with our random state. Raises `EnvironmentFault` where it raises."""
        random_state = self.environment.vmas_random_state
        theirs, random_state[:] = [*random_state], self._random
        try:
            return method(*args, **kwargs)
        except Exception as error:
            raise EnvironmentFault(f"{self._name}, {method.__name__}: {_one_line(error)}") from error
        finally:
            self._random, random_state[:] = [*random_state], theirs


def simulate(
    name: str, scenario: str, num_envs: int, horizon: int, continuous: bool, options: dict[str, Any]
) -> Simulation:
    """`num_envs` environments of `scenario` for the env task `name`. `options` are the scenario's arguments.

    Raises `MissingExtra` if VMAS is missing, and `ValueError` for unknown scenarios or options.
    """
    vmas = _package(name)
    scenarios = [*vmas.scenarios, *vmas.mpe_scenarios, *vmas.debug_scenarios]
    if scenario not in scenarios:
        nearest = ", ".join(difflib.get_close_matches(scenario, scenarios, cutoff=0.5) or sorted(vmas.scenarios))
        raise ValueError(f"{name}: VMAS has no scenario '{scenario}'; there are: {nearest}")
    if fixed_options := [key for key in options if key in inspect.signature(vmas.make_env).parameters]:
        raise ValueError(f"{name}: task.options.{fixed_options[0]} cannot be chosen")
    settings = {"num_envs": num_envs, "max_steps": horizon, "continuous_actions": continuous, **_FIXED, **options}

    def make() -> Any:
        return _make(vmas, scenario, settings)

    try:
        environment = make()
        if options:
            # Scenarios take any value, and fail where they first use it.
            sizes = map(environment.get_agent_action_size, environment.agents)
            environment.step([np.zeros((num_envs, size)) for size in sizes])
    except UserWarning as warning:
        text, _, _ = str(warning).partition(" This will")
        raise ValueError(f"{name}: VMAS refuses task.options {options}: {text}") from warning
    except Exception as error:
        if options:
            raise ValueError(f"{name}: VMAS refuses task.options {options}: {_one_line(error)}") from error
        raise EnvironmentFault(f"{name}: VMAS does not make it: {_one_line(error)}") from error
    return Simulation(name, environment, make)


def _make(vmas: Any, scenario: str, settings: dict[str, Any]) -> Any:
    with warnings.catch_warnings():
        # VMAS warns of arguments that the scenario does not use.
        warnings.filterwarnings("error", "Scenario kwargs")
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        return vmas.make_env(scenario, **settings)


def _package(name: str) -> Any:
    try:
        # Gym, which VMAS takes its spaces from, says at its import that it is no longer maintained.
        with contextlib.redirect_stderr(io.StringIO()):
            vmas = import_module("vmas")
        if vmas.__file__ is None:  # a folder of that name
            raise ModuleNotFoundError("vmas", name="vmas")
        return vmas
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        raise MissingExtra(f"{name} needs VMAS (the package '{package}' is not installed): {_INSTALL}") from error
    except Exception as error:
        raise EnvironmentFault(f"{name}: VMAS does not load: {_one_line(error)}") from error


def _spaces(environment: Any) -> list[tuple[Any, Any]]:
    return list(zip(environment.agents, environment.observation_space, strict=True))


def _agent(name: str, environment: Any, agent: Any, space: Any) -> Agent:
    if not hasattr(space, "high") or len(space.shape) != 1:
        raise Unsupported(f"{name}: agent '{agent.name}' sees {_one_line(space)}; supported are vectors")
    acts = environment.get_agent_action_space(agent)
    if not environment.continuous_actions:
        return Agent(agent.name, space.shape[0], int(acts.n))
    return Agent(agent.name, space.shape[0], acts.shape[0], tuple(acts.low.tolist()), tuple(acts.high.tolist()))


def _arrays(tensors: Any) -> list[FloatArray]:
    return [tensor.numpy() for tensor in tensors]


def _one_line(value: object) -> str:
    text = " ".join(str(value).split())
    return f"{type(value).__name__}: {text}" if isinstance(value, Exception) else text
