"""Roles that emerge once a shared skill is mastered: `roles/apprentices`.

In every step an agent sees one of `signals` signals, drawn uniformly, and answers with a number. All begin an episode
as apprentices of one craft: the right answer to a signal is its own number, for everybody. After `lessons` right
answers in a row (a wrong one restarts the count) an agent is a master to the end of the episode. It practises the trade
of its hidden role r: the right answer to signal s is now ``(s + 1 + r) modulo signals``.

Reward of an agent in each step: 1 for a right answer, and 1 more for a master, right or not. So becoming a master pays
even if the agent knows nothing of its trade. The option `pay` gives agents one reward for all.

Untrained agents almost never become masters: with 16 signals and 3 lessons the next three answers are right with
probability 1 / 4,096. So their first lesson is the same for all, and one network learns it from everybody's data. Once
they have learnt it, most of an episode is the trade, and its lessons contradict each other between roles. Nothing
depends on the progress of training but through the agents' own answers.

An agent sees the signal as a one-hot, whether it is a master, and the share of the lessons learnt. The best return is
``agents * (lessons + 2 * (horizon - lessons))``: right from the first step on. Env metrics: `mastery` is the share of
steps that masters took, `trade` the share of right ones among these (0 without masters).
"""

from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.base import ActionArray, BoolArray, EnvTask, Observation, RewardArray, options_of
from marless.functions.environments.episodic import EpisodicEnvironment, single_class
from marless.functions.environments.roles.partition import RoleOptions, WithRoles, assign, paid
from marless.functions.setting_limits import MOST_AGENTS, MOST_STEPS

_AGENTS = 6


class ApprenticesOptions(RoleOptions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The options of `roles/apprentices`."""

    # Number of signals and of answers.
    signals: Annotated[int, msgspec.Meta(ge=2, le=MOST_AGENTS)] = 16
    # Right answers in a row that make a master.
    lessons: Annotated[int, msgspec.Meta(ge=1, le=MOST_AGENTS)] = 3
    # Steps of an episode.
    horizon: Annotated[int, msgspec.Meta(ge=1, le=MOST_STEPS)] = 25


def make(task: EnvTask, num_envs: int) -> WithRoles:
    """`num_envs` environments. Raises `ValueError` for wrong options or too few agents."""
    options = options_of(task, ApprenticesOptions)
    if options.roles >= options.signals:
        raise ValueError(
            f"{task.name}: task.options: signals is {options.signals}; {options.roles} trades that differ from each"
            f" other and from the craft need at least {options.roles + 1}"
        )
    return paid(Apprentices(assign(task, options, _AGENTS), options, num_envs), options)


class Apprentices(EpisodicEnvironment):
    """E environments, which all end together. `roles` holds the trade of every agent."""

    def __init__(self, roles: tuple[int, ...], options: ApprenticesOptions, num_envs: int) -> None:
        agents, signals = len(roles), options.signals
        super().__init__(single_class("apprentice", agents, signals + 2, signals, options.horizon), num_envs)
        self.roles = roles
        self._options = options
        self._shift: NDArray[np.int64] = np.array(roles, dtype=np.int64) + 1
        self._one_hot = np.eye(signals, dtype=np.float32)
        self._lessons = np.zeros((num_envs, agents), dtype=np.int64)
        self._signal = np.zeros((num_envs, agents), dtype=np.int64)
        self._mastered, self._earned = self._counter(), self._counter()

    def _play(self, actions: tuple[ActionArray, ...]) -> tuple[RewardArray, BoolArray]:
        master = self._lessons == self._options.lessons
        right = actions[0] == (self._signal + master * self._shift) % self._options.signals
        self._lessons = np.where(master, self._lessons, (self._lessons + 1) * right)
        self._mastered += master.sum(axis=1)
        self._earned += (master & right).sum(axis=1)
        return right.astype(np.float64) + master, ~self._alive

    def _env_metrics(self) -> dict[str, RewardArray]:
        return {"mastery": self._mastered / self._asked, "trade": self._earned / np.maximum(self._mastered, 1)}

    def _begin(self, rows: BoolArray) -> None:
        self._lessons[rows] = 0
        self._mastered[rows] = self._earned[rows] = 0
        self._draw(rows)

    def _draw(self, rows: BoolArray) -> None:
        shape = (int(rows.sum()), len(self.roles))
        self._signal[rows] = self._rng.integers(self._options.signals, size=shape)

    def _observe(self) -> Observation:
        learnt = (self._lessons / self._options.lessons)[..., None]
        values = np.concatenate([self._one_hot[self._signal], learnt == 1, learnt], axis=2, dtype=np.float32)
        return Observation(values=(values,), alive=self._alive)
