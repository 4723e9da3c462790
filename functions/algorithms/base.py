"""What an algorithm is: a configuration and a small graph of stages, each a pure function of named tensors.

The specification loads in the coordinator, the command line and the functions alike; the stages' code stands in the
module that `implementation` names and is imported only where stages run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
from numpy.typing import NDArray

from functions.contract import Team
from functions.environments.base import Spec
from functions.learner.batch import Batch

Tensors = Mapping[str, NDArray[Any]]


class AlgorithmConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of every algorithm's configuration; `name` is the tag."""

    def resolved(self, agents: int) -> "AlgorithmConfig":
        """The configuration with every default that depends on the number of agents filled in."""
        raise NotImplementedError


@dataclass(frozen=True)
class StageSpec:
    """A node of the graph.

    `after`: stages of the same round whose tensors it reads. `scope`: `team` stages are one function for all groups
    when every stage has a function of its own, `group` stages one per group. `reads` and `writes` are parts of the
    learner's state (`policy`, `critic`, ...), one instance of each per group.
    """

    name: str
    after: tuple[str, ...]
    scope: Literal["team", "group"]
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True)
class AlgorithmSpec:
    """An algorithm as the registry lists it. `parts` are all parts of a group's state, `policy` among them."""

    name: str
    config: type[AlgorithmConfig]
    stages: tuple[StageSpec, ...]
    parts: tuple[str, ...]
    implementation: str

    def stage(self, name: str) -> StageSpec:
        """The stage called `name`."""
        return next(stage for stage in self.stages if stage.name == name)


@dataclass(frozen=True)
class Context:
    """What a stage may know: the task, the round's address and data, and the tensors that are there before it runs."""

    spec: Spec
    team: Team
    config: Any
    seed: int
    round: int
    batch: Batch
    tensors: Tensors


class StageResult(NamedTuple):
    """New tensors by name, and named figures to report."""

    tensors: dict[str, NDArray[Any]]
    figures: dict[str, float]


class Stage(Protocol):
    """One stage for one group; pure."""

    def __call__(self, context: Context, group: int) -> StageResult: ...


class Implementation(Protocol):
    """What the module named by `AlgorithmSpec.implementation` offers."""

    STAGES: Mapping[str, Stage]

    def initialise(self, spec: Spec, team: Team, config: Any, seed: int, group: int) -> dict[str, NDArray[Any]]:
        """The parts of round 0 for one group, drawn at the address (seed, 'initialise', group)."""
