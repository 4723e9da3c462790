"""The vectorised environment protocol: E environments of one env task, stepped together.

Agents with equal observation and action spaces form a *class*. Observations and actions are in one array per class,
``[E, agents of the class, ...]``, agents in the order of `AgentClass.agents`. Rewards, terminations and the alive mask
are ``[E, N]`` over all agents in the order of `EnvSpec.agents`. An environment that ends is reset at once. The step's
observation is then the first of the next episode, and `Step.final` holds the observation before the reset.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from marless.functions.encoding import mismatch
from marless.functions.environments.entities.description import Entities, EntityBlock, columns_of
from marless.functions.environments.spaces.space_types import AgentSpaces
from marless.functions.setting_limits import MOST_AGENTS

FloatArray = NDArray[np.float32]
RewardArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
# int64 for discrete actions, float32 for continuous ones.
ActionArray = NDArray[Any]

# The factory of an environment gets one number of agents, even if the configuration lists several.
if TYPE_CHECKING:
    Agents = Any
else:
    _Agents = Annotated[int, msgspec.Meta(le=MOST_AGENTS)]
    Agents = _Agents | Annotated[tuple[_Agents, ...], msgspec.Meta(min_length=1)]


class EnvironmentFault(Exception):
    """The environment broke the protocol (raised, returned NaN, changed a shape). The message says where."""


class Unsupported(Exception):
    """The env task needs something that this version does not support. The message names it."""


class EnvTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The environment that is played, by name, with its number of agents and its options.

    Attributes:
        name: the environment, such as mpe/simple_spread, or pettingzoo:package.module:factory
        agents: number of agents, adversaries included, or a list of team sizes that train one policy. Default: the
            environment's own number
        options: keyword arguments of the environment
        last_action: observations end with the agent's last action, for recurrent networks
        order: the order of equal entities in observations: index, distance or relation
        judge: the resource that grades finished episodes. Default: none
    """

    name: str
    agents: Agents | None = None
    options: dict[str, str | int | float | bool] = {}
    last_action: bool = False
    order: Literal["index", "distance", "relation"] = "index"
    judge: str = ""

    @property
    def team_sizes(self) -> tuple[int, ...]:
        """The numbers of agents that `agents` lists. Empty for the environment's own number."""
        sizes: Any = self.agents
        return tuple(sizes) if isinstance(sizes, tuple | list) else () if sizes is None else (sizes,)

    @property
    def teams(self) -> "tuple[EnvTask, ...]":
        """An env task for each team that plays: for each part of a name such as ``smax/3m+8m``, and for each size."""
        family, slash, names = self.name.rpartition("/")
        return tuple(
            msgspec.structs.replace(self, name=family + slash + name, agents=size)
            for name in names.split("+")
            for size in self.team_sizes or (None,)
        )


Options = TypeVar("Options", bound=msgspec.Struct)


def options_of(task: EnvTask, kind: type[Options]) -> Options:
    """`task.options` as `kind`. Raises `ValueError`, one line that names the task and the option."""
    try:
        return msgspec.convert(task.options, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"{task.name}: {mismatch(error).below('task.options')}") from error


class AgentClass(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Agents with equal spaces: they take one choice, several choices at once (`branches`), or continuous actions."""

    name: str
    # Positions in `EnvSpec.agents`, ascending.
    agents: tuple[int, ...]
    observation_size: int
    # The number of actions of the choice, the sum over branches, or the number of continuous actions.
    actions: int
    # The environment's own number of action 0.
    first_action: int = 0
    # The number of actions of each of several choices.
    branches: tuple[int, ...] = ()
    # The finite bounds of each continuous action.
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    # The shape of the first numbers of an observation, flattened row by row: an image ``[H, W, C]``, or entities ``[N,
    # features]`` with zeros for absent ones. Other numbers are a vector. Empty for one vector.
    observation_shape: tuple[int, ...] = ()
    # The environment's own spaces, if they differ from the numbers above, see `native_spaces.codec_of`.
    spaces: AgentSpaces | None = None
    # The entities that an observation describes, if the environment says.
    entities: Entities | None = None

    @property
    def continuous(self) -> bool:
        """Return True for continuous actions."""
        return bool(self.low)

    @property
    def described(self) -> Entities | None:
        """The entities in observations, if the environment describes them or gives a table.

        The first row of a table ``[N, features]`` is the agent itself, and a row of zeros is absent.
        """
        if self.entities is not None or len(self.observation_shape) != 2:
            return self.entities
        count, features = self.observation_shape
        entities = EntityBlock("entity", columns_of(count, (0, features))[1:], absent=(0.0,) * features)
        return Entities.of(self.observation_size, entities)


class EnvSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The agents and spaces of an env task, in messages so that learners need no environment."""

    agents: tuple[str, ...]
    classes: tuple[AgentClass, ...]
    # The longest episode in steps.
    horizon: int
    # The width of the environment's global state, or 0 if it has none and the concatenated observations replace it.
    state_size: int = 0
    # Whether `Observation.masks` is given.
    masked: bool = False
    # The side of each agent if some compete, or empty if all are on one side.
    sides: tuple[int, ...] = ()
    # The environment's own names of its agents, if some are whole numbers. Names that are no texts become their texts.
    keys: tuple[str | int, ...] = ()
    # Whether agents take turns: in every step one has a choice, and to the others their masks leave the first action.
    turns: bool = False

    @property
    def class_of(self) -> tuple[int, ...]:
        """The class of every agent, as a position in `classes`."""
        return tuple(
            next(index for index, kind in enumerate(self.classes) if agent in kind.agents)
            for agent in range(len(self.agents))
        )


@dataclass(frozen=True)
class Observation:
    """The observations of the agents of E environments."""

    # Per class ``[E, n, observation_size]``.
    values: tuple[FloatArray, ...]
    # ``[E, N]``.
    alive: BoolArray
    # Per class ``[E, n, actions]``, True where an action is legal: branch after branch where there are several, all
    # True for continuous actions. None if all actions are always legal.
    masks: tuple[BoolArray, ...] | None = None
    # ``[E, state_size]``.
    state: FloatArray | None = None


@dataclass(frozen=True)
class Step:
    """The result of one step of E environments."""

    observation: Observation
    # ``[E, N]``.
    rewards: RewardArray
    # ``[E, N]``: the agent's episode ended by the rules, so no value follows.
    terminated: BoolArray
    # ``[E]``: a time limit cut the episode. Returns of agents that are not terminated are bootstrapped from `final`.
    truncated: BoolArray
    # ``[E]``: the environment was reset.
    ended: BoolArray
    # The observation before the reset, valid in rows with `ended`, or None if all episodes continue.
    final: Observation | None = None
    # Metrics of episodes by name ``[E]``, valid in rows where `ended`.
    env_metrics: dict[str, RewardArray] = field(default_factory=dict)


class VectorEnvironment(Protocol):
    """E environments of an env task. `reset` resets all and keeps `rng` for the resets inside `step`."""

    spec: EnvSpec
    num_envs: int

    def reset(self, rng: np.random.Generator) -> Observation:
        """Begin an episode in every environment. Draw random numbers from `rng` from now on."""

    def step(self, actions: tuple[ActionArray, ...]) -> Step:
        """Steps every environment. `actions` are per class ``[E, n]`` for one choice, ``[E, n, branches]`` for several,
        or ``[E, n, actions]`` float32 within the bounds.

        Arrays that were returned are never written again: actors record an observation after the step that follows it.
        """

    def close(self) -> None:
        """Frees the environment's resources. A second call does nothing."""
