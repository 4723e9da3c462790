"""Any of our environments as a PettingZoo `ParallelEnv`, for scripts written against that interface."""

from typing import Any

import numpy as np

from functions.contract import MissingExtra
from functions.environments.base import ActionArray, AgentClass, FloatArray, Observation, VectorEnvironment

try:
    from gymnasium import spaces
    from pettingzoo import ParallelEnv
except ModuleNotFoundError as missing:
    raise MissingExtra(
        "functions.environments.pettingzoo.parallel needs PettingZoo: pip install pettingzoo"
    ) from missing


class ParallelEnvironment(ParallelEnv[str, Any, Any]):  # type: ignore[misc]  # PettingZoo ships no types
    """`environment`, with `num_envs` 1, as a `ParallelEnv`; closing this closes it.

    Observations are float32 vectors, or ``{"observation", "action_mask"}`` where the environment masks actions. Actions
    are `Discrete`, `MultiDiscrete` for several choices (masked choice after choice) or a `Box`. An agent that
    terminated leaves `agents`; its last observation is zeros. `reset` without a seed continues the stream of random
    numbers, whose first seed is then from the operating system.
    """

    def __init__(self, environment: VectorEnvironment, name: str = "marless") -> None:
        if environment.num_envs != 1:
            raise ValueError(f"a ParallelEnv is one environment, but this one has num_envs {environment.num_envs}")
        self.metadata = {"name": name, "render_modes": []}
        self.render_mode = None
        self.possible_agents = list(environment.spec.agents)
        self.agents: list[str] = []
        self.max_cycles = environment.spec.horizon
        self._environment = environment
        self._rng = np.random.default_rng()
        self._positions = {
            environment.spec.agents[i]: (c, j)
            for c, kind in enumerate(environment.spec.classes)
            for j, i in enumerate(kind.agents)
        }
        kinds = environment.spec.classes
        masked = environment.spec.masked
        self.observation_spaces = {
            name: _observation_space(kinds[c], masked) for name, (c, _) in self._positions.items()
        }
        self.action_spaces = {name: _action_space(kinds[c]) for name, (c, _) in self._positions.items()}
        if environment.spec.state_size:
            self.state_space = spaces.Box(-np.inf, np.inf, (environment.spec.state_size,), np.float32)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """The same object at every call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """The same object at every call."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """A new episode; `options` are not used."""
        if seed is not None:
            self._rng = np.random.Generator(np.random.Philox(seed))
        self._seen = self._environment.reset(self._rng)
        self.agents = list(self.possible_agents)
        return self._observations(self.agents), {name: {} for name in self.agents}

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """One step of the living agents; empty results without agents."""
        if not self.agents:
            return {}, {}, {}, {}, {}
        step = self._environment.step(self._numbers(actions))
        # The environment has started the next episode already; users of this interface call `reset` for it.
        self._seen = step.final if step.final is not None else step.observation
        agents = self.agents
        position = {name: self.possible_agents.index(name) for name in agents}
        rewards = {name: float(step.rewards[0, i]) for name, i in position.items()}
        terminated = {name: bool(step.terminated[0, i]) for name, i in position.items()}
        truncated = {name: bool(step.truncated[0]) and not terminated[name] for name in agents}
        self.agents = [name for name in agents if not (terminated[name] or truncated[name])]
        return self._observations(agents), rewards, terminated, truncated, {name: {} for name in agents}

    def state(self) -> FloatArray:
        """The environment's own state ``[state_size]``; raises `NotImplementedError` when it has none."""
        if self._seen.state is None:
            raise NotImplementedError(f"{self.metadata['name']} has no state of its own")
        state: FloatArray = self._seen.state[0]
        return state

    def close(self) -> None:
        """Closes the environment."""
        self._environment.close()

    def _numbers(self, actions: dict[str, Any]) -> tuple[ActionArray, ...]:
        numbers = tuple(_default_actions(kind) for kind in self._environment.spec.classes)
        for name in self.agents:
            c, j = self._positions[name]
            numbers[c][0, j] = actions[name]
        return numbers

    def _observations(self, names: list[str]) -> dict[str, Any]:
        return {name: _observation_of(self._seen, *self._positions[name]) for name in names}


def _observation_of(observation: Observation, c: int, j: int) -> Any:
    """The observation of agent j of class c."""
    values = observation.values[c][0, j]
    if observation.masks is None:
        return values
    return {"observation": values, "action_mask": observation.masks[c][0, j].astype(np.int8)}


def _observation_space(kind: AgentClass, masked: bool) -> spaces.Space[Any]:
    values = spaces.Box(-np.inf, np.inf, (kind.observation_size,), np.float32)
    if not masked:
        return values
    return spaces.Dict({"observation": values, "action_mask": spaces.Box(0, 1, (kind.actions,), np.int8)})


def _action_space(kind: AgentClass) -> spaces.Space[Any]:
    if kind.continuous:
        return spaces.Box(np.array(kind.low, dtype=np.float32), np.array(kind.high, dtype=np.float32))
    return spaces.MultiDiscrete(list(kind.branches)) if kind.branches else spaces.Discrete(kind.actions)


def _default_actions(kind: AgentClass) -> ActionArray:
    """Actions for dead agents: the first ones, or the lower bounds."""
    if kind.continuous:
        return np.tile(np.array(kind.low, dtype=np.float32), (1, len(kind.agents), 1))
    shape = (1, len(kind.agents), len(kind.branches)) if kind.branches else (1, len(kind.agents))
    return np.zeros(shape, dtype=np.int64)
