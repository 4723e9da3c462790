"""IQL, VDN, QMIX and QPLEX as the coordinator knows them: settings, stages, and the sizes of their networks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Protocol, Self, TypeVar

from msgspec import Meta

from marless.functions.algorithms.agent_inputs import (
    described,
    leads_side,
    members,
    over_entities,
    side_of,
    state_width,
)
from marless.functions.algorithms.off_policy.specs import ONE_CHOICE, PRIORITIES, ReplayConfig
from marless.functions.algorithms.specification import (
    AlgorithmSpec,
    GradientNorm,
    HiddenWidths,
    RewardName,
    StageSpec,
    TargetStep,
    trained_bytes,
)
from marless.functions.environments.base import EnvSpec
from marless.functions.errors import BadRequest
from marless.functions.messages.actor import Behaviour
from marless.functions.messages.team import Team
from marless.functions.nn.layers import LayerNorm, Relu
from marless.functions.nn.shape import Network
from marless.functions.setting_limits import LARGEST, MOST_ENV_STEPS, MOST_LAYERS, MOST_STEPS, MOST_UNITS

PARTS = ("policy", "policy_optimiser", "target", "normaliser", PRIORITIES)
_WITHOUT_NORMALISER = ("policy", "policy_optimiser", "target", PRIORITIES)
_MIXING = ("mixer", "mixer_optimiser", "mixer_target", "normaliser")
_UTILITY = StageSpec("utility", (), "group", _WITHOUT_NORMALISER, ())
_POLICY = StageSpec("policy", ("mix",), "group", _WITHOUT_NORMALISER, _WITHOUT_NORMALISER)
_MIXED_STAGES = (_UTILITY, StageSpec("mix", ("utility",), "team", _MIXING, _MIXING, couples=True), _POLICY)
_MIXED_PARTS = (*PARTS, "mixer", "mixer_optimiser", "mixer_target")


def epsilon_greedy(config: Any, env_steps: int) -> Behaviour:
    """Return ε-greedy behaviour for a configuration with `epsilon_start`, `epsilon_end` and `epsilon_steps`."""
    share = min(1.0, env_steps / config.epsilon_steps)
    return Behaviour(kind="epsilon", amount=config.epsilon_start + share * (config.epsilon_end - config.epsilon_start))


class UtilityConfig(ReplayConfig, frozen=True, kw_only=True):
    """The settings of value methods. With ReLU layers IQL and QMIX learned faster here.

    Attributes:
        epsilon_start: chance of a random action at the beginning. Higher explores more
        epsilon_end: chance of a random action at the end. Higher explores more
        epsilon_steps: environment steps from epsilon_start to epsilon_end. Higher explores for longer
        double: double Q-learning: the trained network picks the next action and the target network values it. Values
            are overestimated less
        n_step: rewards that a target sums, at most the steps of a segment after burn_in. Higher passes late rewards
            back faster, but is noisier
        td_lambda: weight of longer returns in a target (λ of Peng's Q(λ)). Higher passes late rewards back faster, but
            is noisier. With 0, targets use n_step
        cql_alpha: weight of conservative Q-learning, for learning from a dataset. Higher stays closer to the dataset.
            With 0, it is off
        priority: exponent of TD errors in replay priorities (alpha of PER). Higher replays surprising steps more often.
            With 0, replay is uniform
        priority_beta: exponent of importance weights at first (beta of PER). It grows to 1. Higher corrects more of the
            bias at first
        priority_steps: environment steps until the exponent priority_beta is 1. Higher corrects the bias later
    """

    hidden: HiddenWidths = (128, 128)
    epsilon_start: Annotated[float, Meta(ge=0, le=1)] = 1.0
    epsilon_end: Annotated[float, Meta(ge=0, le=1)] = 0.05
    epsilon_steps: Annotated[int, Meta(ge=1, le=MOST_ENV_STEPS)] = 50_000
    double: bool = True
    n_step: Annotated[int, Meta(ge=1, le=MOST_STEPS)] = 1
    td_lambda: Annotated[float, Meta(ge=0, le=1)] = 0.0
    cql_alpha: Annotated[float, Meta(ge=0, le=LARGEST)] = 0.0
    priority: Annotated[float, Meta(ge=0, le=1)] = 0.0
    priority_beta: Annotated[float, Meta(ge=0, le=1)] = 0.4
    priority_steps: Annotated[int, Meta(ge=1, le=MOST_ENV_STEPS)] = 640_000

    @property
    def length(self) -> int | None:
        """See `ReplayConfig.length`. The default for targets that look ahead is a whole rollout."""
        looks_ahead = self.n_step > 1 or self.td_lambda > 0
        return self.sequence_length or (None if looks_ahead else super().length)

    def __post_init__(self) -> None:
        """Raises `ValueError` also for targets that sum more rewards than a segment has."""
        super().__post_init__()
        if self.td_lambda and self.n_step > 1:
            raise ValueError("td_lambda mixes returns of all lengths; leave algorithm.n_step at 1")
        if self.length is not None and self.n_step > self.length - self.burn_in:
            burn_in = f", {self.burn_in} of them burn-in" if self.burn_in else ""
            raise ValueError(
                f"n_step is {self.n_step}, and a sequence has {self.length} steps{burn_in}; set a longer"
                " sequence_length or a lower algorithm.n_step"
            )

    @property
    def idle_parts(self) -> tuple[str, ...]:
        return () if self.priority else (PRIORITIES,)

    def beta(self, env_steps: int) -> float:
        """The exponent of importance weights after `env_steps` environment steps, which increases linearly."""
        return self.priority_beta + min(1.0, env_steps / self.priority_steps) * (1 - self.priority_beta)

    def behaviour(self, env_steps: int) -> Behaviour:
        """See `AlgorithmConfig`."""
        return epsilon_greedy(self, env_steps)


class IqlConfig(UtilityConfig, frozen=True, kw_only=True, tag_field="name", tag="iql"):
    """Independent Q-learning."""

    reward: RewardName = "team"


class VdnConfig(UtilityConfig, frozen=True, kw_only=True, tag_field="name", tag="vdn"):
    """Value-decomposition networks."""


class MixedConfig(UtilityConfig, frozen=True, kw_only=True):
    """The settings of both.

    A mixing network multiplies the effect of an error on its agents' networks. So targets are slower, gradients are
    clipped at a lower norm and the loss is Huber's. Without these settings returns of `qmix` on simple_spread rose to
    -55 and fell again.

    Attributes:
        huber_delta: error above which the loss is linear. Default: 1. Lower makes outliers count less
        hypernet_embed: hidden units of the mixing network's hypernetworks. Higher can learn more, but takes longer.
            With 0, they are linear
    """

    tau: TargetStep = 0.003
    max_grad_norm: GradientNorm = 1.0
    huber_delta: Annotated[float, Meta(gt=0, le=LARGEST)] | None = 1.0
    hypernet_embed: Annotated[int, Meta(ge=0, le=MOST_UNITS)] = 64


class QmixConfig(MixedConfig, frozen=True, kw_only=True, tag_field="name", tag="qmix"):
    """Monotonic mixing, or mixing by a factory's network.

    Attributes:
        mixing_embed_dim: hidden units of the mixing network. Higher can learn more, but takes longer
        mixer: a torch module's package.module:factory in place of QMIX's mixing network
    """

    mixing_embed_dim: Annotated[int, Meta(ge=1, le=MOST_UNITS)] = 32
    mixer: str | None = None

    def __post_init__(self) -> None:
        """Raises `ValueError` also for a mixing network that is no factory's."""
        super().__post_init__()
        if self.mixer is not None and ":" not in self.mixer:
            raise ValueError(f"mixer is {self.mixer!r}, and a factory's name is package.module:factory")

    @property
    def needs_torch(self) -> bool:
        return super().needs_torch or self.mixer is not None


class QplexConfig(MixedConfig, frozen=True, kw_only=True, tag_field="name", tag="qplex"):
    """Duplex dueling.

    Attributes:
        mixing_heads: attention heads of the mixing network. Higher can learn more, but takes longer
    """

    mixing_heads: Annotated[int, Meta(ge=1, le=MOST_LAYERS)] = 4


def utility_network(spec: EnvSpec, team: Team, config: Any, group: int) -> Network:
    """Return the group's utility network, for a `UtilityConfig` or `PqnConfig`. Raise `BadRequest` for other spaces."""
    agent = members(team, group)[0]
    kind = next(kind for kind in spec.classes if agent in kind.agents)
    if kind.continuous or kind.branches:
        space, advice = "several choices at once", ONE_CHOICE
        if kind.continuous:
            space, advice = "numbers", "use ippo, mappo, iddpg, maddpg, isac or masac"
        raise BadRequest(f"{spec.agents[agent]} acts in {space}; the algorithm values single choices only: {advice}")
    norm = LayerNorm if config.layer_norm else None
    inputs = kind.observation_size + (len(spec.agents) if team.identity else 0)
    network = Network((inputs, *config.hidden, kind.actions), config.recurrent, activation=Relu, norm=norm)
    return over_entities(config, network, described(config, kind))


def hypernetwork(sizes: tuple[int, ...]) -> Network:
    """A network that computes weights of a mixing network from the state, with these widths from input to output."""
    return Network(sizes, activation=Relu)


C = TypeVar("C", bound=MixedConfig)


class MixerSizes(Protocol):
    """The shapes of the hypernetworks of a mixing network."""

    @property
    def shapes(self) -> Mapping[str, Network]:
        """By name, in the order of the flat vector."""


@dataclass(frozen=True)
class QmixSizes:
    """The shape of QMIX's mixing network: `agents` utilities, a state of width `state`, `embed` hidden units.

    The hypernetworks of weights have a hidden layer of `hyper` units (the authors' later code), or none if `hyper` is 0
    (the paper). The one of the first bias is linear, the one of the last bias has `embed` hidden units.
    """

    agents: int
    state: int
    embed: int = 32
    hyper: int = 64
    names: ClassVar = ("first_weight", "first_bias", "last_weight", "last_bias")

    @classmethod
    def of(cls, spec: EnvSpec, team: Team, config: QmixConfig, group: int) -> Self:
        """That of the side that `group` leads."""
        width = state_width(spec, members(team, group)[0])
        return cls(len(side_of(spec, team, group)), width, config.mixing_embed_dim, config.hypernet_embed)

    @property
    def shapes(self) -> dict[str, Network]:
        """The networks that compute the weights from the state, by name."""
        first = (self.state, self.hyper) if self.hyper else (self.state,)
        widths = (
            (*first, self.agents * self.embed),
            (self.state, self.embed),
            (*first, self.embed),
            (self.state, self.embed, 1),
        )
        return dict(zip(self.names, map(hypernetwork, widths), strict=True))


@dataclass(frozen=True)
class QplexSizes:
    """The shape of QPLEX's mixing network: `agents` utilities, a state of width `state`, one-hots of the joint action
    of width `actions`, and `heads` of λ.

    The hypernetworks have a hidden layer of `hyper` units, or none if `hyper` is 0.
    """

    agents: int
    state: int
    actions: int
    heads: int = 4
    hyper: int = 64
    names: ClassVar = ("weight", "bias", "key", "agent", "action")

    @classmethod
    def of(cls, spec: EnvSpec, team: Team, config: QplexConfig, group: int) -> Self:
        """That of the side that `group` leads."""
        side, width = side_of(spec, team, group), state_width(spec, members(team, group)[0])
        return cls(len(side), width, sum(choices(spec, side)), config.mixing_heads, config.hypernet_embed)

    @property
    def shapes(self) -> dict[str, Network]:
        """The networks that compute w, b and the factors of λ, by name."""
        hidden = (self.hyper,) if self.hyper else ()
        by_head, both = self.heads * self.agents, self.state + self.actions
        ends = ((self.state, self.agents), (self.state, self.agents), (self.state, self.heads), (self.state, by_head))
        shapes = (hypernetwork((inputs, *hidden, outputs)) for inputs, outputs in (*ends, (both, by_head)))
        return dict(zip(self.names, shapes, strict=True))


def choices(spec: EnvSpec, agents: list[int]) -> list[int]:
    """The number of actions of each agent."""
    return [next(kind.actions for kind in spec.classes if agent in kind.agents) for agent in agents]


def part_bytes(spec: EnvSpec, team: Team, config: UtilityConfig, group: int) -> dict[str, int]:
    """The bytes of network, target and moments. Raises `BadRequest` for unsupported actions."""
    if config.has_factory:
        return {}  # which only its factory knows
    sizes = trained_bytes("policy", utility_network(spec, team, config, group).parameters)
    return {**sizes, "target": sizes["policy"]}


def mixed_bytes(
    sizes: Callable[[EnvSpec, Team, C, int], MixerSizes], spec: EnvSpec, team: Team, config: C, group: int
) -> dict[str, int]:
    """As `part_bytes`, and of the side's mixing network if the group is the side's first."""
    utility = part_bytes(spec, team, config, group)
    if not leads_side(spec, team, group):
        return utility
    mixer = trained_bytes("mixer", sum(shape.parameters for shape in sizes(spec, team, config, group).shapes.values()))
    return {**utility, **mixer, "mixer_target": mixer["mixer"]}


def _qmix_bytes(spec: EnvSpec, team: Team, config: QmixConfig, group: int) -> dict[str, int]:
    if config.mixer is None:
        return mixed_bytes(QmixSizes.of, spec, team, config, group)
    return part_bytes(spec, team, config, group)  # only its factory knows the rest


IQL = AlgorithmSpec(
    "iql",
    IqlConfig,
    (StageSpec("policy", (), "group", PARTS, PARTS),),
    PARTS,
    "marless.functions.algorithms.value.iql",
    resizable_parts=(PRIORITIES,),
    part_bytes=part_bytes,
)
VDN = AlgorithmSpec(
    "vdn",
    VdnConfig,
    (_UTILITY, StageSpec("mix", ("utility",), "team", ("normaliser",), ("normaliser",), couples=True), _POLICY),
    PARTS,
    "marless.functions.algorithms.value.vdn",
    resizable_parts=(PRIORITIES,),
    part_bytes=part_bytes,
)
QMIX = AlgorithmSpec(
    "qmix",
    QmixConfig,
    _MIXED_STAGES,
    _MIXED_PARTS,
    "marless.functions.algorithms.value.qmix",
    resizable_parts=(PRIORITIES,),
    part_bytes=_qmix_bytes,
)
QPLEX = AlgorithmSpec(
    "qplex",
    QplexConfig,
    _MIXED_STAGES,
    _MIXED_PARTS,
    "marless.functions.algorithms.value.qplex",
    resizable_parts=(PRIORITIES,),
    part_bytes=partial(mixed_bytes, QplexSizes.of),
)
