"""The stages of an algorithm: pure functions of named tensors. `Implementation` lists what their module defines."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from numpy.typing import NDArray

from marless.functions.algorithms.specification import AlgorithmConfig
from marless.functions.data.batch import Batch, join
from marless.functions.data.replay_buffer import ReplayBuffer
from marless.functions.data.trajectory import tensors_below
from marless.functions.environments.base import EnvSpec
from marless.functions.messages.learner import Rows, SummaryName
from marless.functions.messages.team import Team

Tensors = Mapping[str, NDArray[Any]]

C = TypeVar("C", covariant=True)


def within(tensors: Tensors, prefix: str) -> dict[str, NDArray[Any]]:
    """The tensors below the prefix, by the rest of their names."""
    return tensors_below(tensors, f"{prefix}/")


@dataclass(frozen=True)
class Context(Generic[C]):
    """The inputs of a stage: the task, the round's random address and data, and the tensors that exist before it runs.

    `C` is the type of the configuration: its class, or a protocol of the settings that the reader needs.

    `batch` is the round's data. `replay_buffer` holds it and earlier rounds' data, for algorithms with replay. `update`
    counts the completed updates of this round. `rows` has the meaning of `LearnTask.rows`. `memo` caches results that
    the stages of an update share in this function. No result depends on it. `age` counts the rounds between sampling
    and this round. At age 0, the weights of this round sampled its data. `part`: the rollouts of the round in the
    batch, or None for all.
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
    age: int = 0
    part: "RoundPart | None" = None


class RoundPart(NamedTuple):
    """The rollouts of a round from position `first` on, `of` so many in the round."""

    first: int
    of: int


class StageResult(NamedTuple):
    """New tensors by name, and metrics to report."""

    tensors: dict[str, NDArray[Any]]
    metrics: dict[str, float]


Stage = Callable[[Context[Any], int], StageResult]
"""One stage for one group, a pure function ``stage(context, group)``."""
Partial = Callable[[Context[Any], int], dict[str, NDArray[Any]]]
"""A group's sums over the rollouts of the context's batch, by name. A pure function.

``PARTIAL(context, group)``: the context's tensors are the round's incoming `AlgorithmSpec.sum_parts`. Sums over the
parts, in their order, are all that the group's `Fold`s learn from the round.
"""
Fold = Callable[[Context[Any], int, Sequence[Tensors]], StageResult]
"""A stage that learns from the `Partial` sums of a round's parts, in their order, and not from the context's batch:
``fold(context, group, sums)``. A pure function."""


class SummaryResult(NamedTuple):
    """Metrics of the group, arrays by agent, which are sent as `Table`, and tensors of the learner's state by name."""

    metrics: dict[str, float]
    tables: dict[int, NDArray[Any]]
    tensors: Mapping[str, NDArray[Any]] = {}


PolicySummary = Callable[[Context[Any], Tensors, int], SummaryResult]
"""Summarises the policy that one group trains in this round: ``summary(before, after, group)``. Pure.

`before` is the context of the stage that trains the policy, with the incoming weights and the tensors of earlier stages
of the round. `after` are the tensors of that stage, including the new weights.
"""
Initialise = Callable[[EnvSpec, Team, Any, int, int], dict[str, NDArray[Any]]]
"""The parts of round 0 for one group, drawn at the address (seed, 'initialise', group):
``initialise(spec, team, config, seed, group)``."""


class Merge(Protocol):
    """The tensors that change in a copy of the base's parts when the members of `group` in the team `target` merge.

    In `context` every agent is a separate group with the networks of its old group. `base` is one of these groups. With
    `distil_steps` the new networks are distilled for this many steps from the members' own networks on the round's
    data. The metrics `distil_kl_before` and `distil_kl_after` are the mean KL divergence from the members' policies.
    Tensors have the name of `group`. The function is pure.
    """

    def __call__(
        self, context: Context[Any], target: Team, group: int, base: int, distil_steps: int
    ) -> StageResult: ...


def as_base(context: Context[AlgorithmConfig], target: Team, group: int, base: int, distil_steps: int) -> StageResult:
    """`Merge` for algorithms that continue merged groups with an unchanged copy of the base."""
    return StageResult({}, {})


Join = Callable[[EnvSpec, Tensors, Sequence[int]], Any]
"""Make `Context.batch` from these rollouts, in order, and the tensors of their objects: ``join(spec, tensors,
rollouts)``. It has their number as `rollouts`."""


class Implementation(NamedTuple):
    """The names that the module of `AlgorithmSpec.implementation` defines. Names with a default are optional."""

    STAGES: Mapping[str, Stage]
    initialise: Initialise
    SUMMARIES: Mapping[SummaryName, PolicySummary] = {}
    merge: Merge = as_base
    PARTIAL: Partial | None = None
    FOLDS: Mapping[str, Fold] = {}
    join: Join = join
