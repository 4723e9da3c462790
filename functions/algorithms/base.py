"""The definition of an algorithm: a configuration and a small graph of stages, each a pure function of named tensors.

The coordinator, the command line and the functions load the specification. The stages are in the module that
`implementation` names, which is imported only where stages run.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Generic, Literal, NamedTuple, Protocol, Self, TypeVar

import msgspec
from msgspec import Meta
from numpy.typing import NDArray

from functions.contract import Behaviour, Rows, SummaryName, Team
from functions.data.batch import Batch
from functions.data.replay_buffer import ReplayBuffer
from functions.environments.base import EnvSpec

Tensors = Mapping[str, NDArray[Any]]


# What a setting is multiplied by after a share p of the run. Cosine: Loshchilov and Hutter, "SGDR", 2017, once.
SCHEDULES: Mapping[str, Callable[[float], float]] = {
    "constant": lambda progress: 1.0,
    "linear": lambda progress: 1.0 - progress,
    "cosine": lambda progress: (1.0 + math.cos(math.pi * progress)) / 2,
}
ScheduleName = Literal["constant", "linear", "cosine"]


class AlgorithmConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of every algorithm's configuration; `name` is the tag."""

    @property
    def name(self) -> str:
        """The algorithm's name."""
        return str(self.__struct_config__.tag)

    @property
    def engine(self) -> str:
        """What computes networks, see `functions.algorithms.engine`."""
        return "numpy"

    @property
    def device(self) -> str:
        """Where it computes."""
        return "cpu"

    @property
    def network(self) -> str:
        """What makes networks, see `functions.algorithms.new_networks`."""
        return "mlp"

    @property
    def needs_torch(self) -> bool:
        """Whether numpy cannot compute what these settings name."""
        return False

    @property
    def updates_per_round(self) -> int:
        """How many times the stages run in a round."""
        return 1

    @property
    def idle_parts(self) -> tuple[str, ...]:
        """Parts of the algorithm's state that do not exist with these settings."""
        return ()

    @property
    def replayed_steps(self) -> int:
        """The size of the replay buffer in environment steps; 0 for learning from the round's data alone."""
        return 0

    def behaviour(self, env_steps: int) -> Behaviour:
        """How actors act in a round that begins after `env_steps` environment steps."""
        return Behaviour()

    def incompatibility(self, steps: int) -> str:
        """Why rollouts of `steps` steps do not suit these settings, as ``key: reason; what to set``; '' if they do."""
        return ""

    @property
    def schedules(self) -> Mapping[str, ScheduleName]:
        """The schedules of settings that change during a run, by setting."""
        return {}

    def at(self, progress: float) -> Self:
        """The resolved configuration of a round before which a share `progress` of the run is over."""
        changed = {
            name: getattr(self, name) * SCHEDULES[kind](progress)
            for name, kind in self.schedules.items()
            if kind != "constant" and getattr(self, name) is not None
        }
        return msgspec.structs.replace(self, **changed) if changed else self

    def resolved(self, spec: EnvSpec) -> "AlgorithmConfig":
        """The configuration with every default that depends on the task filled in."""
        return self


class NetworkConfig(AlgorithmConfig, frozen=True, kw_only=True):
    """Base of configurations whose networks either engine can compute."""

    engine: Annotated[
        Literal["auto", "numpy", "torch"],
        Meta(description="what computes networks: numpy, torch, or the faster one for their width (auto)"),
    ] = "auto"
    device: Annotated[Literal["cpu", "cuda"], Meta(description="where torch computes; actors use the CPU")] = "cpu"
    network: Annotated[
        str,
        Meta(
            description="mlp or gru; cnn for images, attention for entities; or a torch module's package.module:factory"
        ),
    ] = "mlp"
    lr_schedule: Annotated[
        ScheduleName, Meta(description="how lr falls to 0 over stop.env_steps or stop.rounds, whichever is nearer")
    ] = "constant"

    @property
    def needs_torch(self) -> bool:
        return self.network != "mlp"

    @property
    def schedules(self) -> Mapping[str, ScheduleName]:
        return {"lr": self.lr_schedule}


@dataclass(frozen=True)
class StageSpec:
    """A node of the graph.

    `after`: stages of the same round whose tensors it reads. `scope`: under the placement rule `split`, a `team` stage
    runs in one function for all groups, a `group` stage in one function per group. `reads` and `writes` are parts of
    the learner's state (`policy`, `critic`, ...), one instance of each per group. A stage that `couples` reads earlier
    stages' tensors of other groups, so a function with a single group cannot run both. A team stage `in_turn`
    trains its groups in a random order, which is drawn for every update, and a group reads the tensors of this stage
    that the groups before it made.
    """

    name: str
    after: tuple[str, ...]
    scope: Literal["team", "group"]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    couples: bool = False
    in_turn: bool = False


class Share(NamedTuple):
    """The part of a round's learning that one function does: these stages, for these groups, in these updates."""

    stages: Sequence[str]
    groups: Sequence[int]
    updates: range = range(1)


class PartBytes(Protocol):
    """The bytes of the parts of a group's state, by part, computed without allocating them.

    It may omit parts, and raises `BadRequest` where `Implementation.initialise` does. A part with a `<part>_optimiser`
    counts as a network that `trainable.Trainable` trains, which copies both and allocates a gradient and a scratch
    array, each as large as the network.
    """

    def __call__(self, spec: EnvSpec, team: Team, config: Any, group: int) -> Mapping[str, int]: ...


@dataclass(frozen=True, eq=False)
class AlgorithmSpec:
    """An algorithm as the registry lists it; compared by identity, because every decision looks up what it implies.

    `parts` are all parts of a group's state, including `policy`. `summaries` are those that it can compute of its
    policies. `member_rows`: the stages can learn from one member's share of a group's rows (`rows.learned_from`). The
    arrays of `resizable_parts` have a row for each rollout or segment in the replay buffer, so their first axis may
    change. With `part_bytes`, a run whose functions cannot hold the state is refused before it creates anything. An
    algorithm that `imitates` learns what recorded agents did, so it needs a dataset.
    """

    name: str
    config: type[AlgorithmConfig]
    stages: tuple[StageSpec, ...]
    parts: tuple[str, ...]
    implementation: str
    summaries: tuple[SummaryName, ...] = ()
    resizable_parts: tuple[str, ...] = ()
    part_bytes: PartBytes | None = None
    member_rows: bool = False
    imitates: bool = False

    def without(self, idle: tuple[str, ...]) -> "AlgorithmSpec":
        """The specification without the parts `idle`, see `AlgorithmConfig.idle_parts`."""

        def kept(parts: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(part for part in parts if part not in idle)

        stages = tuple(replace(stage, reads=kept(stage.reads), writes=kept(stage.writes)) for stage in self.stages)
        return replace(self, stages=stages, parts=kept(self.parts)) if idle else self

    def stage(self, name: str) -> StageSpec:
        """The stage called `name`."""
        return next(stage for stage in self.stages if stage.name == name)


C = TypeVar("C", covariant=True)


@dataclass(frozen=True)
class Context(Generic[C]):
    """The inputs of a stage: the task, the round's random address and data, and the tensors that exist before it runs.

    `C` is the type of the configuration: its class, or a protocol of the settings that the reader needs.

    `batch` is the round's data; `replay_buffer` holds it and that of earlier rounds, for algorithms with replay.
    `update` counts the completed updates of this round. `rows` is as in `contract.LearnTask`. `memo` caches results
    that the stages of an update share in this function; no result depends on it.
    """

    spec: EnvSpec
    team: Team
    config: C
    seed: int
    round: int
    batch: Batch
    tensors: Tensors
    replay_buffer: ReplayBuffer | None = None
    update: int = 0
    memo: dict[object, Any] = field(default_factory=dict, compare=False)
    rows: Rows = "pooled"


class StageResult(NamedTuple):
    """New tensors by name, and metrics to report."""

    tensors: dict[str, NDArray[Any]]
    metrics: dict[str, float]


class Stage(Protocol):
    """One stage for one group; pure."""

    def __call__(self, context: Context[Any], group: int) -> StageResult: ...


class Summary(Protocol):
    """Summarises the policy that one group trains in this round; pure.

    `before` is the context of the stage that trains the policy, with the incoming weights and the tensors of earlier
    stages of the round; `after` are the tensors of that stage, including the new weights.
    """

    def __call__(self, before: Context[Any], after: Tensors, group: int) -> "SummaryResult": ...


class SummaryResult(NamedTuple):
    """Metrics of the group, and arrays by agent, which are sent as `Table`."""

    metrics: dict[str, float]
    tables: dict[int, NDArray[Any]]


def as_base(context: Context[AlgorithmConfig], target: Team, group: int, base: int, distil_steps: int) -> StageResult:
    """`Implementation.merge` of algorithms whose merged groups continue with an unchanged copy of the base."""
    return StageResult({}, {})


class Implementation(Protocol):
    """The attributes of the module that `AlgorithmSpec.implementation` names."""

    STAGES: Mapping[str, Stage]
    SUMMARIES: Mapping[SummaryName, Summary]

    def initialise(self, spec: EnvSpec, team: Team, config: Any, seed: int, group: int) -> dict[str, NDArray[Any]]:
        """The parts of round 0 for one group, drawn at the address (seed, 'initialise', group)."""

    def merge(self, context: Context[Any], target: Team, group: int, base: int, distil_steps: int) -> StageResult:
        """The tensors that change in a copy of the base's parts when the members of `group` in the team `target` merge.

        In `context` every agent is a separate group with the networks of its old group; `base` is one of these groups.
        With `distil_steps` the new networks are distilled for this many steps from the members' own networks on the
        round's data, and the metrics `distil_kl_before` and `distil_kl_after` are the mean KL divergence from the
        members' policies. Tensors are under the name of `group`; pure.
        """
