"""The vectorised environment protocol: E copies of one task, stepped together.

Agents with equal observation and action spaces form a *class*; everything an agent sees or does travels in one array
per class, ``[E, agents of the class, ...]``, agents in the order of `AgentClass.agents`. Rewards, terminations and the
alive mask are ``[E, N]`` over all agents in the order of `EnvSpec.agents`. A copy that ends is reset at once: the
step's observation is the first of the next episode, and `Step.final` holds what was seen before the reset.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
RewardArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
# int64 where agents choose, float32 where they act in numbers.
ActionArray = NDArray[Any]


class EnvironmentFault(Exception):
    """The environment broke its promise (raised, returned NaN, changed a shape); the message names what and where."""


class Unsupported(Exception):
    """The task exists but needs something this version does not support; the message names it."""


class EnvTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A task by name, as it travels to functions. `agents` counts all agents, adversaries included."""

    name: str
    agents: int | None = None
    options: dict[str, str | int | float | bool] = {}


Options = TypeVar("Options", bound=msgspec.Struct)


def options_of(task: EnvTask, kind: type[Options]) -> Options:
    """`task.options` as `kind`; raises `ValueError`, one line that names the task and the option."""
    try:
        return msgspec.convert(task.options, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"{task.name}: task.options: {error}") from error


class AgentClass(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Agents that have equal spaces; `agents` are positions in `EnvSpec.agents`, ascending.

    Of three kinds. One choice of `actions`, numbered from 0 here; `first_action` is what the environment itself calls
    action 0. With `branches` several choices at once, of so many actions each; `actions` is their sum. With `low` and
    `high` as many numbers as `actions`, each between its two bounds, which are finite.
    """

    name: str
    agents: tuple[int, ...]
    observation_size: int
    actions: int
    first_action: int = 0
    branches: tuple[int, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()

    @property
    def continuous(self) -> bool:
        """Whether actions are numbers, not choices."""
        return bool(self.low)


class EnvSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a task looks like from outside; it travels in messages, so that learners need no environment.

    `horizon` is the longest episode in steps. `state_size` is the width of the environment's own global state, or 0
    when it has none and the concatenated observations stand in. `masked` says whether `Observation.masks` is given.
    `sides[i]` is the side that agent i is on where some compete; empty where all are on one.
    """

    agents: tuple[str, ...]
    classes: tuple[AgentClass, ...]
    horizon: int
    state_size: int = 0
    masked: bool = False
    sides: tuple[int, ...] = ()

    @property
    def class_of(self) -> tuple[int, ...]:
        """The class of every agent, as a position in `classes`."""
        return tuple(
            next(index for index, kind in enumerate(self.classes) if agent in kind.agents)
            for agent in range(len(self.agents))
        )


@dataclass(frozen=True)
class Observation:
    """What the agents of E copies see now.

    `values`: per class ``[E, n, observation_size]`` float32. `masks`: per class ``[E, n, actions]``, True where an
    action is legal (branch after branch where there are several, all True for numbers), or None when all always are.
    `alive`: ``[E, N]``. `state`: ``[E, state_size]`` float32 or None.
    """

    values: tuple[FloatArray, ...]
    alive: BoolArray
    masks: tuple[BoolArray, ...] | None = None
    state: FloatArray | None = None


@dataclass(frozen=True)
class Step:
    """What one step of E copies gave.

    `rewards` ``[E, N]`` float64. `terminated` ``[E, N]``: the agent's episode ended by the rules here, nothing follows.
    `truncated` ``[E]``: the copy was cut (a time limit); agents not terminated are bootstrapped from `final`.
    `ended` ``[E]``: the copy was reset. `final`: the observation before the reset, meaningful in rows where `ended`,
    None when no copy ended. `env_metrics`: named metrics ``[E]`` of episodes, meaningful in rows where `ended`.
    """

    observation: Observation
    rewards: RewardArray
    terminated: BoolArray
    truncated: BoolArray
    ended: BoolArray
    final: Observation | None = None
    env_metrics: dict[str, RewardArray] = field(default_factory=dict)


class VectorEnvironment(Protocol):
    """E copies of a task. `reset` starts every copy anew and keeps `rng` for the resets that follow inside `step`."""

    spec: EnvSpec
    num_envs: int

    def reset(self, rng: np.random.Generator) -> Observation: ...

    def step(self, actions: tuple[ActionArray, ...]) -> Step:
        """Steps every copy; `actions` holds per class ``[E, n]`` action numbers, ``[E, n, branches]`` of them where
        there are several choices, or ``[E, n, actions]`` float32 within the bounds."""

    def close(self) -> None:
        """Frees what the environment holds; calling it twice is harmless."""
