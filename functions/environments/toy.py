"""A cooperative task without dependencies and with a known best return: `toy/signal`.

The agents form a ring, and each has a signal that changes every step. Agent i observes the signal of agent i + 1 as a
one-hot and must answer with the action of the same number. The reward of every living agent is the share of all N
agents that answered right, between 0 and 1.

The best return. A reward is at most 1 and an episode has at most `horizon` steps, so a return (the sum over agents) is
at most ``N * horizon``. Agents that always answer right get exactly 1 each in every step, and no rule ends their
episode early. So the best return is ``N * horizon`` for all other options.

How an episode ends. A step without a right answer terminates all agents. With `elimination` each wrong answer
terminates only that agent, and the episode ends with the last agent. At `horizon` the episode is truncated.
"""

from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.base import (
    ActionArray,
    AgentClass,
    BoolArray,
    EnvSpec,
    EnvTask,
    FloatArray,
    Observation,
    RewardArray,
    VectorEnvironment,
    options_of,
)
from marless.functions.environments.episodic import EpisodicEnvironment, agents_of
from marless.functions.setting_limits import MOST_AGENTS, MOST_STEPS


class SignalOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The options of `toy/signal`."""

    # Number of values of a signal.
    signals: Annotated[int, msgspec.Meta(ge=2, le=MOST_AGENTS)] = 3
    # Steps of an episode.
    horizon: Annotated[int, msgspec.Meta(ge=1, le=MOST_STEPS)] = 5
    # One wrong action of every agent is illegal in each step.
    masked: bool = False
    # A wrong answer terminates the agent.
    elimination: bool = False
    # The signals that agents 1, 3, ... observe have one value more, so that there are two classes.
    mixed: bool = False


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """`num_envs` environments. Raises `ValueError` for wrong options or a wrong number of agents."""
    agents = agents_of(task, 2, 2, "a ring of partners needs at least 2")
    return Signal(agents, options_of(task, SignalOptions), num_envs)


class Signal(EpisodicEnvironment):
    """E rings of agents. See the module for the rules.

    State: all signals as one-hots, then the share of the horizon that is left. Env metric `accuracy`: the share of an
    episode's answers that were right.
    """

    def __init__(self, agents: int, options: SignalOptions, num_envs: int) -> None:
        self._options = options
        odd = np.arange(agents) % 2 == 1
        self._values = options.signals + (odd & options.mixed).astype(np.int64)
        spec = EnvSpec(
            agents=tuple(f"agent_{i}" for i in range(agents)),
            classes=_classes(self._values),
            horizon=options.horizon,
            state_size=int(self._values.sum()) + 1,
            masked=options.masked,
        )
        super().__init__(spec, num_envs)
        self._seen = np.zeros((num_envs, agents), dtype=np.int64)
        self._illegal = np.zeros((num_envs, agents), dtype=np.int64)
        self._right = self._counter()

    def _play(self, actions: tuple[ActionArray, ...]) -> tuple[RewardArray, BoolArray]:
        answers, alive = self._answers(actions), self._alive
        right = alive & (answers == self._seen)
        self._right += right.sum(axis=1)
        wrong = ~right if self._options.elimination else ~right.any(axis=1, keepdims=True)
        return alive * (right.sum(axis=1, keepdims=True) / alive.shape[1]), alive & wrong

    def _env_metrics(self) -> dict[str, RewardArray]:
        return {"accuracy": self._right / self._asked}

    def _begin(self, rows: BoolArray) -> None:
        self._right[rows] = 0
        self._draw(rows)

    def _draw(self, rows: BoolArray) -> None:
        """New signals, and with `masked` new illegal actions (never the right one), in `rows`."""
        shape = (int(rows.sum()), len(self._values))
        self._seen[rows] = self._rng.integers(self._values, size=shape)
        if self._options.masked:
            distance = 1 + self._rng.integers(self._values - 1, size=shape)
            self._illegal[rows] = (self._seen[rows] + distance) % self._values

    def _answers(self, actions: tuple[ActionArray, ...]) -> ActionArray:
        answers = np.empty(self._alive.shape, dtype=np.int64)
        for kind, action in zip(self.spec.classes, actions, strict=True):
            answers[:, kind.agents] = action
        if self._options.masked and (self._alive & (answers == self._illegal)).any():
            raise ValueError("toy/signal: an agent took an action that its mask forbids")
        return answers

    def _observe(self) -> Observation:
        values = tuple(_one_hot(self._seen[:, kind.agents], kind.actions) for kind in self.spec.classes)
        alive = self._alive.copy()
        visible = tuple(
            array * alive[:, kind.agents, None] for array, kind in zip(values, self.spec.classes, strict=True)
        )
        masks = tuple(self._mask(kind) for kind in self.spec.classes) if self._options.masked else None
        return Observation(values=visible, alive=alive, masks=masks, state=self._state())

    def _mask(self, kind: AgentClass) -> BoolArray:
        illegal = _one_hot(self._illegal[:, kind.agents], kind.actions) > 0
        return ~(illegal & self._alive[:, kind.agents, None])

    def _state(self) -> FloatArray:
        signals = [_one_hot(self._seen[:, i], int(width)) for i, width in enumerate(self._values)]
        time_left = 1.0 - self._steps / self.spec.horizon
        return np.concatenate([*signals, time_left[:, None].astype(np.float32)], axis=1)


def _classes(values: NDArray[np.int64]) -> tuple[AgentClass, ...]:
    widths = sorted({int(width) for width in values})
    return tuple(
        AgentClass(f"signal{width}", tuple(int(i) for i in np.flatnonzero(values == width)), width, width)
        for width in widths
    )


def _one_hot(numbers: NDArray[np.int64], width: int) -> FloatArray:
    return np.eye(width, dtype=np.float32)[numbers]
