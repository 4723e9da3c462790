"""Environments in numpy that know who is alive, and the steps of each episode."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.base import (
    ActionArray,
    AgentClass,
    BoolArray,
    EnvSpec,
    EnvTask,
    Observation,
    RewardArray,
    Step,
    VectorEnvironment,
)


def agents_of(task: EnvTask, default: int, least: int, reason: str) -> int:
    """Return the task's number of agents, or else `default`. Raise `ValueError` with the `reason` below `least`."""
    agents = default if task.agents is None else task.agents
    if agents < least:
        raise ValueError(f"{task.name}: task.agents is {agents}; {reason}")
    return agents


def single_class(
    name: str, agents: int, observation_size: int, actions: int, horizon: int, state_size: int = 0
) -> EnvSpec:
    """The specification of agents ``agent_0``, ``agent_1``, ... of one class."""
    kind = AgentClass(name, tuple(range(agents)), observation_size, actions)
    return EnvSpec(tuple(f"agent_{i}" for i in range(agents)), (kind,), horizon, state_size)


class EpisodicEnvironment(VectorEnvironment, ABC):
    """E environments. An episode ends with its last living agent, or at the horizon.

    The constructor of a subclass creates its arrays. `_alive` is ``[E, N]``. `_steps` ``[E]`` counts the steps of the
    episode, and `_asked` ``[E]`` the actions of living agents in it.
    """

    def __init__(self, spec: EnvSpec, num_envs: int) -> None:
        self.spec, self.num_envs = spec, num_envs
        self._alive: BoolArray = np.ones((num_envs, len(spec.agents)), dtype=np.bool_)
        self._steps, self._asked = self._counter(), self._counter()

    def reset(self, rng: np.random.Generator) -> Observation:
        self._rng = rng
        self._restart(np.ones(self.num_envs, dtype=np.bool_))
        return self._observe()

    def step(self, actions: tuple[ActionArray, ...]) -> Step:
        before = self._alive
        rewards, terminated = self._play(actions)
        self._steps += 1
        self._asked += before.sum(axis=1)
        self._alive = before & ~terminated
        running = self._alive.any(axis=1)
        truncated = running & (self._steps == self.spec.horizon)
        over = truncated | ~running
        env_metrics = self._env_metrics()
        self._draw(np.ones(self.num_envs, dtype=np.bool_))
        final = self._observe() if over.any() else None
        self._restart(over)
        return Step(self._observe(), rewards, terminated, truncated, over, final, env_metrics)

    def close(self) -> None:
        """Holds nothing to free."""

    def _counter(self) -> NDArray[np.int64]:
        return np.zeros(self.num_envs, dtype=np.int64)

    def _restart(self, rows: BoolArray) -> None:
        self._alive = self._alive | rows[:, None]
        self._steps[rows] = self._asked[rows] = 0
        self._begin(rows)

    @abstractmethod
    def _play(self, actions: tuple[ActionArray, ...]) -> tuple[RewardArray, BoolArray]:
        """Return the rewards ``[E, N]``, and which agents terminate ``[E, N]``."""

    @abstractmethod
    def _begin(self, rows: BoolArray) -> None:
        """Begin new episodes in `rows` ``[E]``."""

    @abstractmethod
    def _observe(self) -> Observation: ...

    def _draw(self, rows: BoolArray) -> None:
        """Draw the agents' next observations in `rows` ``[E]``."""

    def _env_metrics(self) -> dict[str, RewardArray]:
        return {}
