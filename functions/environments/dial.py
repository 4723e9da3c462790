"""A task whose reward is noisy only for those who are nearly right: `toy/dial`.

In every step each agent sees one of `targets` targets as a one-hot, drawn uniformly, and turns its dial to one of
``sectors * notches`` positions. Position p is notch ``p modulo notches`` of sector ``p // notches``. Target t is right
in sector ``t modulo sectors``, and there at notch ``t modulo notches``.

Reward of an agent in each step: in a wrong sector minus half the number of sectors between it and the right one,
without noise; in the right sector `edge` at the right notch and 0 at the others, plus normal noise of standard
deviation `noise`.

So at first a few steps tell agents where to go: the signal, half a unit and more, is free of noise. Near the optimum
the signal is `edge`, and noise many times larger hides it: a mean of n steps knows it to ``noise / sqrt(n)``. Few
rollouts a round are enough early, late many are needed. What is right is the same for all agents.

The best return is ``agents * horizon * edge`` on average; all sectors right and notches at random give that divided by
`notches`. Env metrics: `sector` and `notch` are the shares of an episode's positions in the right sector, and at the
right notch of it.
"""

from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.base import ActionArray, AgentClass, EnvSpec, EnvTask, Observation, Step, options_of
from marless.functions.setting_limits import LARGEST, MOST_AGENTS, MOST_STEPS

_AGENTS = 4


class DialOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The options of `toy/dial`."""

    # Number of targets.
    targets: Annotated[int, msgspec.Meta(ge=1, le=MOST_AGENTS)] = 12
    # Sectors of the dial, and notches of a sector.
    sectors: Annotated[int, msgspec.Meta(ge=1, le=MOST_AGENTS)] = 4
    notches: Annotated[int, msgspec.Meta(ge=1, le=MOST_AGENTS)] = 3
    # Reward at the right notch, and the standard deviation of rewards in the right sector.
    edge: float = 0.5
    noise: Annotated[float, msgspec.Meta(ge=0, le=LARGEST)] = 8.0
    # Steps of an episode.
    horizon: Annotated[int, msgspec.Meta(ge=1, le=MOST_STEPS)] = 25


def make(task: EnvTask, num_envs: int) -> "Dial":
    """`num_envs` environments; raises `ValueError` for wrong options or a wrong number of agents."""
    agents = _AGENTS if task.agents is None else task.agents
    if agents < 1:
        raise ValueError(f"{task.name}: task.agents is {agents}; at least 1 turns its dial")
    return Dial(agents, options_of(task, DialOptions), num_envs)


class Dial:
    """E environments, all of which end together; see the module for the rules."""

    def __init__(self, agents: int, options: DialOptions, num_envs: int) -> None:
        self.num_envs = num_envs
        self._options = options
        positions = options.sectors * options.notches
        self.spec = EnvSpec(
            agents=tuple(f"agent_{i}" for i in range(agents)),
            classes=(AgentClass("dial", tuple(range(agents)), options.targets, positions),),
            horizon=options.horizon,
        )
        self._one_hot = np.eye(options.targets, dtype=np.float32)
        self._alive = np.ones((num_envs, agents), dtype=np.bool_)
        self._nobody = np.zeros((num_envs, agents), dtype=np.bool_)
        self._all = np.ones(num_envs, dtype=np.bool_)
        for constant in (self._alive, self._nobody, self._all):
            constant.flags.writeable = False
        self._steps = 0
        self._target: NDArray[np.int64] = np.zeros((num_envs, agents), dtype=np.int64)
        self._near: NDArray[np.int64] = np.zeros(num_envs, dtype=np.int64)
        self._right: NDArray[np.int64] = np.zeros(num_envs, dtype=np.int64)

    def reset(self, rng: np.random.Generator) -> Observation:
        """The first observation of every environment."""
        self._rng = rng
        return self._restart()

    def step(self, actions: tuple[ActionArray, ...]) -> Step:
        """Pays the positions; noise is drawn for every agent, so that draws do not depend on positions."""
        options = self._options
        sector, notch = np.divmod(actions[0], options.notches)
        away = np.abs(sector - self._target % options.sectors)
        near = away == 0
        right = near & (notch == self._target % options.notches)
        noise = options.noise * self._rng.standard_normal(away.shape)
        rewards = np.where(near, right * options.edge + noise, -0.5 * away)
        self._near += near.sum(axis=1)
        self._right += right.sum(axis=1)
        self._steps += 1
        observation = self._draw()
        if self._steps < self.spec.horizon:
            return Step(observation, rewards, self._nobody, ~self._all, ~self._all)
        actions_of_episode = self._steps * away.shape[1]
        env_metrics = {"sector": self._near / actions_of_episode, "notch": self._right / actions_of_episode}
        return Step(self._restart(), rewards, self._nobody, self._all, self._all, observation, env_metrics)

    def close(self) -> None:
        """Holds nothing to free."""

    def _restart(self) -> Observation:
        self._steps = 0
        self._near[:] = self._right[:] = 0
        return self._draw()

    def _draw(self) -> Observation:
        """New targets, and what the agents see of them."""
        self._target = self._rng.integers(self._options.targets, size=self._alive.shape)
        return Observation(values=(self._one_hot[self._target],), alive=self._alive)
