"""What an algorithm is: a configuration and a small graph of stages, each a pure function of named tensors.

The specification loads in the coordinator, the command line and the functions alike; the stages' code stands in the
module that `implementation` names and is imported only where stages run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

import msgspec
from numpy.typing import NDArray

from functions.contract import Behaviour, SummaryName, Team
from functions.data.batch import Batch
from functions.data.replay_buffer import ReplayBuffer
from functions.environments.base import EnvSpec

Tensors = Mapping[str, NDArray[Any]]


class AlgorithmConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of every algorithm's configuration; `name` is the tag."""

    @property
    def name(self) -> str:
        """The algorithm's."""
        return str(self.__struct_config__.tag)

    @property
    def updates_per_round(self) -> int:
        """How often the stages run in a round."""
        return 1

    @property
    def idle_parts(self) -> tuple[str, ...]:
        """Parts of the algorithm's state that are not there with these settings."""
        return ()

    @property
    def replayed_steps(self) -> int:
        """Environment steps, newest first, that are learned from beside those of the round; 0 for the round's alone."""
        return 0

    def behaviour(self, env_steps: int) -> Behaviour:
        """How actors act in a round that begins after `env_steps` environment steps."""
        return Behaviour()

    def incompatibility(self, steps: int) -> str:
        """Why rollouts of so many steps cannot be learned from, as ``key: reason; what to set``; '' when they can."""
        return ""

    def resolved(self, spec: EnvSpec) -> "AlgorithmConfig":
        """The configuration with every default that depends on the task filled in."""
        return self


@dataclass(frozen=True)
class StageSpec:
    """A node of the graph.

    `after`: stages of the same round whose tensors it reads. `scope`: `team` stages are one function for all groups
    when every stage has a function of its own, `group` stages one per group. `reads` and `writes` are parts of the
    learner's state (`policy`, `critic`, ...), one instance of each per group. A stage that `couples` reads what the
    stages before it gave for other groups, so no function goes on into it with a group alone.
    """

    name: str
    after: tuple[str, ...]
    scope: Literal["team", "group"]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    couples: bool = False


class Share(NamedTuple):
    """The part of a round's learning that one function does: these stages, for these groups, in these updates."""

    stages: Sequence[str]
    groups: Sequence[int]
    updates: range = range(1)


class PartBytes(Protocol):
    """How many bytes the parts of a group's state have, by part, known without making them.

    It may leave parts out, and raises `BadRequest` where `Implementation.initialise` does. A part that has a
    `<part>_optimiser` beside it is taken for a network that `trainable.Trainable` trains, which makes both anew, and
    beside them a gradient and a scratch as large as the network.
    """

    def __call__(self, spec: EnvSpec, team: Team, config: Any, group: int) -> Mapping[str, int]: ...


@dataclass(frozen=True)
class AlgorithmSpec:
    """An algorithm as the registry lists it.

    `parts` are all parts of a group's state, `policy` among them. `summaries` are what it can tell of its policies.
    The arrays of `resizable_parts` have a row for each rollout or segment in the replay buffer, so their first axis may
    change. Where there is a `part_bytes`, a run whose functions cannot hold the state is refused before anything of it
    is made.
    """

    name: str
    config: type[AlgorithmConfig]
    stages: tuple[StageSpec, ...]
    parts: tuple[str, ...]
    implementation: str
    summaries: tuple[SummaryName, ...] = ()
    resizable_parts: tuple[str, ...] = ()
    part_bytes: PartBytes | None = None

    def without(self, idle: tuple[str, ...]) -> "AlgorithmSpec":
        """The specification without some parts, see `AlgorithmConfig.idle_parts`."""

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
    """What a stage may know: the task, the round's address and data, and the tensors that are there before it runs.

    `C` is what the reader needs of the configuration, its class or a protocol of some settings.

    `batch` is the round's data; `replay_buffer` holds it beside that of earlier rounds, for algorithms that learn from
    these too. `update` is how often the stages have run in this round. `memo` is what stages of the same update have
    computed in this function, which spares others the time; no result depends on whether it is there.
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


class StageResult(NamedTuple):
    """New tensors by name, and metrics to report."""

    tensors: dict[str, NDArray[Any]]
    metrics: dict[str, float]


class Stage(Protocol):
    """One stage for one group; pure."""

    def __call__(self, context: Context[Any], group: int) -> StageResult: ...


class Summary(Protocol):
    """Tells of the policy that one group trains in this round; pure.

    `before` is the context as the stage that trains the policy saw it, with the incoming weights and what earlier
    stages of the round gave; `after` are the tensors of that stage, new weights among them.
    """

    def __call__(self, before: Context[Any], after: Tensors, group: int) -> "SummaryResult": ...


class SummaryResult(NamedTuple):
    """Metrics of the group, and arrays by agent that travel as `Table`."""

    metrics: dict[str, float]
    tables: dict[int, NDArray[Any]]


def as_base(context: Context[AlgorithmConfig], target: Team, group: int, base: int, distil_steps: int) -> StageResult:
    """`Implementation.merge` of algorithms whose merged groups go on as the base was: nothing changes in its copy."""
    return StageResult({}, {})


class Implementation(Protocol):
    """What the module named by `AlgorithmSpec.implementation` offers."""

    STAGES: Mapping[str, Stage]
    SUMMARIES: Mapping[SummaryName, Summary]

    def initialise(self, spec: EnvSpec, team: Team, config: Any, seed: int, group: int) -> dict[str, NDArray[Any]]:
        """The parts of round 0 for one group, drawn at the address (seed, 'initialise', group)."""

    def merge(self, context: Context[Any], target: Team, group: int, base: int, distil_steps: int) -> StageResult:
        """What changes in a copy of the base's parts when the members of `group` in the team `target` merge.

        In `context` every agent is a group of its own, with the networks that it had in its old group; `base` is one
        of these. With `distil_steps` the new networks take so many steps towards what each member's own gave on the
        round's data, and the metrics `distil_kl_before` and `distil_kl_after` say how far the policies are apart.
        Tensors are under the name of `group`; pure.
        """
