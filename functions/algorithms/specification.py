"""The description of an algorithm: its configuration, and a small graph of stages that read and write its state.

The coordinator, the command line and the functions load descriptions. The stages are in the module that
`implementation` names, which is imported only where stages run.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple, Self

import msgspec
from msgspec import Meta

from marless.functions import setting_limits
from marless.functions.environments.base import EnvSpec
from marless.functions.messages.actor import Behaviour
from marless.functions.messages.learner import SummaryName
from marless.functions.messages.team import Team

# The factor of a setting after a share p of the run. Cosine: one cycle of Loshchilov and Hutter, "SGDR", 2017.
SCHEDULES: Mapping[str, Callable[[float], float]] = {
    "constant": lambda progress: 1.0,
    "linear": lambda progress: 1.0 - progress,
    "cosine": lambda progress: (1.0 + math.cos(math.pi * progress)) / 2,
}
ScheduleName = Literal["constant", "linear", "cosine"]


Width = Annotated[int, Meta(ge=1, le=setting_limits.MOST_UNITS)]
"""Units of a hidden layer."""
# The types of settings that several algorithms have. `NetworkConfig` describes the settings.
HiddenWidths = Annotated[tuple[Width, ...], Meta(min_length=1, max_length=setting_limits.MOST_LAYERS)]
RewardName = Literal["own", "team"]
TargetStep = Annotated[float, Meta(gt=0, le=1)]
GradientNorm = Annotated[float, Meta(gt=0, le=setting_limits.LARGEST)]
LearningRate = Annotated[float, Meta(gt=0, le=setting_limits.LARGEST_STEP)]
AdamEpsilon = Annotated[float, Meta(gt=0, le=setting_limits.LARGEST)]
TimeLimit = Literal["bootstrap", "terminal"]
Epochs = Annotated[int, Meta(ge=1, le=setting_limits.MOST_EPOCHS)]
Minibatches = Annotated[int, Meta(ge=1, le=setting_limits.MOST_UPDATES)]
ChunkLength = Annotated[int, Meta(ge=1, le=setting_limits.MOST_STEPS)]
EntropyWeight = Annotated[float, Meta(ge=0, le=setting_limits.LARGEST)]


class AlgorithmConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of every algorithm's configuration. `name` is the tag."""

    @property
    def name(self) -> str:
        """The algorithm's name."""
        return str(self.__struct_config__.tag)

    @property
    def engine(self) -> str:
        """The engine that computes networks, see `marless.functions.algorithms.engine`."""
        return "numpy"

    @property
    def device(self) -> str:
        """Where it computes."""
        return "cpu"

    @property
    def network(self) -> str:
        """The factory of networks, see `marless.functions.algorithms.new_networks`."""
        return "mlp"

    @property
    def needs_torch(self) -> bool:
        """Return True if these settings need torch."""
        return False

    @property
    def updates_per_round(self) -> int:
        """The number of times that the stages run in a round."""
        return 1

    @property
    def idle_parts(self) -> tuple[str, ...]:
        """Parts of the algorithm's state that do not exist with these settings."""
        return ()

    @property
    def stale_reads(self) -> tuple[tuple[str, str], ...]:
        """The parts of the state that stages read additionally if rounds learn from an earlier round's data, as pairs
        of a stage and a part."""
        return ()

    @property
    def replayed_steps(self) -> int:
        """The size of the replay buffer in environment steps, or 0 to learn from the round's data alone."""
        return 0

    @property
    def shares_networks(self) -> bool:
        """Return whether agents with equal spaces share a network by default."""
        return self.replayed_steps > 0

    def behaviour(self, env_steps: int) -> Behaviour:
        """Return the actors' behaviour in a round that begins after `env_steps` environment steps."""
        return Behaviour()

    def incompatibility(self, steps: int) -> str:
        """Return why rollouts of `steps` steps do not suit these settings, as ``key: reason; what to set``, or ''."""
        return ""

    @property
    def copies(self) -> int:
        """Return how many consecutive environments of a rollout begin alike."""
        return 1

    @property
    def passes(self) -> str:
        """Return why a round takes more than one learning step, as ``reason: what to set``, or '' if it takes one."""
        return ""

    @property
    def schedules(self) -> Mapping[str, ScheduleName]:
        """The schedules of settings that change during a run, by setting."""
        return {}

    def at(self, progress: float) -> Self:
        """The resolved configuration of a round that begins after a share `progress` of the run."""
        falling = [
            name for name, kind in self.schedules.items() if kind != "constant" and getattr(self, name) is not None
        ]
        values = {name: getattr(self, name) * SCHEDULES[self.schedules[name]](progress) for name in falling}
        return msgspec.structs.replace(self, **values) if values else self

    def sized(self, rollout_steps: int) -> "AlgorithmConfig":
        """Return the configuration with every default filled in that depends on the steps of a rollout."""
        return self

    def resolved(self, spec: EnvSpec) -> "AlgorithmConfig":
        """The configuration with every default that depends on the task filled in."""
        return self


CLOSED_FORMS = ("numpy", "native")
"""The engines with closed-form gradients: they compute perceptrons and GRUs, on the CPU."""


# Networks that are lists of layers, see `marless.functions.nn.layers`, and need no torch.
LAYERED = ("mlp", "attention")


class NetworkConfig(AlgorithmConfig, frozen=True, kw_only=True):
    """Base of configurations for networks that any engine can compute.

    It also describes settings that only some subclasses have. A subclass may describe them in other words.

    Attributes:
        engine: software that computes networks: numpy, C (native), torch, or the fastest on this machine (auto)
        device: torch trains on this device. Actors use the CPU
        network: mlp, gru, cnn (for images), attention (for entities), or a torch module's package.module:factory
        lr_schedule: how lr falls to 0 over stop.env_steps or stop.rounds, whichever is nearer. A falling lr is more
            stable at the end
        lr: Adam's step size. Higher learns faster, but is less stable
        reward: the agent's reward (own), or the sum over its side (team). The sum continues after an agent dies
        time_limit: at a time limit, estimate the value of later steps (bootstrap), or treat the limit as the end
            (terminal)
        tau: step of target networks towards the trained networks in an update (Polyak). Lower is more stable, but
            slower
        epochs: passes over the round's data. Higher learns more from the same data, but is less stable and takes longer
        num_minibatches: optimiser steps per pass. Higher learns faster, but each step sees less data
        ent_coef: weight of the entropy bonus. Higher explores more
        max_grad_norm: cap on each network's gradient norm. Lower is more stable, but can be slower
        adam_eps: small number in Adam's denominator. Higher makes steps smaller if gradients are small
        hidden: widths of the hidden layers. Wider layers can learn more, but take longer
        recurrent: use a GRU as the last hidden layer. Agents remember earlier steps, but training takes longer
        data_chunk_length: steps that a recurrent network's gradients go back through. Higher can learn longer memories
        layer_norm: normalise the hidden layers (LayerNorm). Training takes longer
    """

    engine: Literal["auto", "numpy", "native", "torch"] = "auto"
    device: Literal["cpu", "cuda"] = "cpu"
    network: str = "mlp"
    lr_schedule: ScheduleName = "constant"

    @property
    def has_factory(self) -> bool:
        """Return True if a factory makes the networks as torch modules."""
        return self.network not in LAYERED

    @property
    def needs_torch(self) -> bool:
        return self.has_factory

    @property
    def schedules(self) -> Mapping[str, ScheduleName]:
        return {"lr": self.lr_schedule}


class DiscountedConfig(NetworkConfig, frozen=True, kw_only=True):
    """Base of configurations of algorithms that discount later rewards.

    Attributes:
        gamma: discount per environment step. Default: by the longest episode, 0.97 up to 83 steps and 0.99 from 250 on.
            Higher looks further ahead, but returns are noisier
    """

    gamma: Annotated[float, Meta(ge=0, le=1)] | None = None

    @property
    def discount(self) -> float:
        """The discount per environment step. Raises `ValueError` if nothing has set it."""
        if self.gamma is None:
            raise ValueError("the configuration has no discount; resolve it first")
        return self.gamma

    def resolved(self, spec: EnvSpec) -> Self:
        """Fills in the discount. It looks 1 / (1 - gamma) steps ahead: 40 % of the longest episode, 33 to 100 steps."""
        gamma = min(max(1 - 1 / (0.4 * spec.horizon), 0.97), 0.99)
        return self if self.gamma is not None else msgspec.structs.replace(self, gamma=gamma)


@dataclass(frozen=True)
class StageSpec:
    """A node of the graph.

    `after`: earlier stages of the round, the sources of tensors that this stage reads. `scope`: under the placement
    rule `split`, a `team` stage runs in one function for all groups, a `group` stage in one function per group. `reads`
    and `writes` are parts of the learner's state (`policy`, `critic`, ...), one instance of each per group. A stage
    that `couples` reads earlier stages' tensors of other groups, so a function with a single group cannot run both. A
    team stage `in_turn` trains its groups in a random order, drawn for every update. A group reads this stage's tensors
    of the groups before it.
    """

    name: str
    after: tuple[str, ...]
    scope: Literal["team", "group"]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    couples: bool = False
    in_turn: bool = False


class Share(NamedTuple):
    """The part of a round's learning that one function does: these stages, for these groups, in these updates. It
    leaves out the pairs of a stage and a group among the `omissions`."""

    stages: Sequence[str]
    groups: Sequence[int]
    updates: range = range(1)
    omissions: Collection[tuple[str, int]] = ()


PartBytes = Callable[[EnvSpec, Team, Any, int], Mapping[str, int]]
"""The bytes of the parts of a group's state, by part, computed without allocating them:
``part_bytes(spec, team, config, group)``.

It may omit parts, and raises `BadRequest` where `Implementation.initialise` does. A part with a `<part>_optimiser` is a
network for `trainable.Trainable`. That copies both and allocates a gradient and a scratch array, each as large as the
network.
"""


def adapter_of(part: str) -> str:
    """The part that holds the difference of the network `part` to a frozen one, see
    `marless.functions.algorithms.adapters`."""
    return f"{part}_adapter"


def trained_bytes(part: str, parameters: int) -> dict[str, int]:
    """The bytes of a network of single precision and of its Adam moments, by part."""
    network = 4 * parameters
    return {part: network, f"{part}_optimiser": 2 * network}


@dataclass(frozen=True, eq=False)
class AlgorithmSpec:
    """An algorithm of the registry. Instances are compared by identity, because every decision looks up values by them.

    `parts` are all parts of a group's state, including `policy`. `summaries` are the summaries of its policies that it
    can compute. `member_rows`: the stages can learn from one member's share of a group's rows
    (`group_inputs.learned_from`). `sum_parts`: the stages learn from sums over a round's rollouts (`stage.Partial`),
    made with these parts of a group's incoming state. It is empty if no such sums exist. `function`: the function for
    its tasks in place of actors, learners and evaluators. The arrays of `resizable_parts` have a row for each rollout
    or segment in the replay buffer, so their first axis may change. With `part_bytes`, a run is refused before it
    creates anything if its functions cannot hold the state. An algorithm that `imitates` learns recorded agents'
    actions, so it needs a dataset. `implementation` is the module of the stages, or an `Implementation`. `adapts`: all
    its networks are trained by `trainable.Trainable`, so that they may be differences to a frozen base.
    """

    name: str
    config: type[AlgorithmConfig]
    stages: tuple[StageSpec, ...]
    parts: tuple[str, ...]
    implementation: str | tuple[Any, ...]
    summaries: tuple[SummaryName, ...] = ()
    resizable_parts: tuple[str, ...] = ()
    part_bytes: PartBytes | None = None
    member_rows: bool = False
    sum_parts: tuple[str, ...] = ()
    imitates: bool = False
    adapts: bool = False
    function: str = ""

    @property
    def networks(self) -> tuple[str, ...]:
        """The parts that are trained networks."""
        return tuple(part for part in self.parts if f"{part}_optimiser" in self.parts)

    def called(self, name: str) -> "AlgorithmSpec":
        """The specification with another name, which its configuration has as a tag."""
        closed: Any = {"frozen": True, "forbid_unknown_fields": True, "kw_only": True}
        config: Any = msgspec.defstruct(name, [], bases=(self.config,), tag_field="name", tag=name, **closed)
        return replace(self, name=name, config=config)

    def adapted(self) -> "AlgorithmSpec":
        """The specification with learners that read and write differences to a base. Whole policies are published in
        addition."""

        def parts(parts: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(adapter_of(part) if part in self.networks else part for part in parts)

        def adapted(stage: StageSpec) -> StageSpec:
            published = tuple(part for part in stage.writes if part == "policy")
            return replace(stage, reads=parts(stage.reads), writes=(*published, *parts(stage.writes)))

        stages = tuple(adapted(stage) for stage in self.stages)
        return replace(self, stages=stages, parts=("policy", *parts(self.parts)), sum_parts=parts(self.sum_parts))

    def without(self, idle: tuple[str, ...]) -> "AlgorithmSpec":
        """The specification without the parts `idle`, see `AlgorithmConfig.idle_parts`."""

        def active(parts: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(part for part in parts if part not in idle)

        stages = tuple(replace(stage, reads=active(stage.reads), writes=active(stage.writes)) for stage in self.stages)
        return replace(self, stages=stages, parts=active(self.parts)) if idle else self

    def reading(self, more: tuple[tuple[str, str], ...]) -> "AlgorithmSpec":
        """The specification with stages that read `more`, see `AlgorithmConfig.stale_reads`."""

        def extended(stage: StageSpec) -> StageSpec:
            parts = tuple(part for name, part in more if name == stage.name and part not in stage.reads)
            return replace(stage, reads=(*stage.reads, *parts))

        return replace(self, stages=tuple(extended(stage) for stage in self.stages)) if more else self

    @property
    def sums(self) -> StageSpec:
        """Return the stage that makes the sums over a part of a round, see `stage.Partial`."""
        return StageSpec("sums", (), "group", reads=self.sum_parts, writes=())

    def stage(self, name: str) -> StageSpec:
        """The stage called `name`."""
        return next(stage for stage in self.stages if stage.name == name)
