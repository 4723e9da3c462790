"""A task with episodes that wait, as if a simulator ran elsewhere: `waiting`, by an entry point (see `launch`).

An agent sees which of five actions is right. The copies of a rollout wait together, once, before their first step. The
time comes from a lognormal distribution and the rollout's generator. So a rollout waits equally long on every machine
and at every time. Sleeping keeps no core busy.
"""

import time

import msgspec
import numpy as np
from numpy.typing import NDArray

from marless.environments import AgentClass, EnvSpec, EnvTask, Observation, Step

AGENTS, ACTIONS, OBSERVED = 3, 5, 18
# The standard deviation of the logarithm of a wait.
SIGMA = 0.8


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The keys of `task.options`."""

    horizon: int = 25
    # The median of a rollout's wait, in seconds.
    median_s: float = 0.0


def make(task: EnvTask, num_envs: int) -> "Waiting":
    """`num_envs` environments. Raises `ValueError` for wrong options."""
    return Waiting(msgspec.convert(task.options, Options), num_envs)


class Waiting:
    """E environments that are stepped together."""

    def __init__(self, options: Options, num_envs: int) -> None:
        self.num_envs, self._options = num_envs, options
        names = tuple(f"agent_{number}" for number in range(AGENTS))
        kind = AgentClass("agent", tuple(range(AGENTS)), OBSERVED, ACTIONS)
        self.spec = EnvSpec(names, (kind,), options.horizon)
        self._alive = np.ones((num_envs, AGENTS), dtype=np.bool_)

    def reset(self, rng: np.random.Generator) -> Observation:
        """Waits, and begins an episode in every environment."""
        time.sleep(self._options.median_s * float(np.exp(SIGMA * rng.standard_normal())))
        self._rng, self._steps = rng, 0
        return self._observe()

    def step(self, actions: tuple[NDArray[np.int64], ...]) -> Step:
        """Each agent that takes the right action gets 1."""
        self._steps += 1
        rewards = (actions[0] == self._right).astype(np.float64)
        observation, never = self._observe(), np.zeros_like(self._alive)
        truncated = np.full(self.num_envs, self._steps == self.spec.horizon)
        final = observation if truncated.all() else None
        if final is not None:
            self._steps, observation = 0, self._observe()
        return Step(observation, rewards, never, truncated, truncated, final)

    def close(self) -> None:
        """Holds nothing to free."""

    def _observe(self) -> Observation:
        shape = (self.num_envs, AGENTS)
        self._right = self._rng.integers(ACTIONS, size=shape)
        values = np.zeros((*shape, OBSERVED), np.float32)
        np.put_along_axis(values, self._right[..., None], 1.0, axis=2)
        return Observation((values,), self._alive)
