"""IPPO, MAPPO and HAPPO as the coordinator knows them: settings, stages, networks and their sizes."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal, NamedTuple, Self, get_args

import msgspec
from msgspec import Meta

from marless.functions.algorithms.agent_inputs import (
    CriticView,
    agent_state,
    agent_state_width,
    described,
    described_for_critic,
    members,
    observation_width,
    over_entities,
    own_observation,
    state_width,
    team_state,
)
from marless.functions.algorithms.specification import (
    AdamEpsilon,
    AlgorithmSpec,
    ChunkLength,
    Discount,
    EntropyWeight,
    Epochs,
    GradientNorm,
    HiddenWidths,
    Minibatches,
    NetworkConfig,
    RewardName,
    ScheduleName,
    StageSpec,
    TimeLimit,
    trained_bytes,
)
from marless.functions.environments.base import EnvSpec
from marless.functions.messages.learner import SummaryName
from marless.functions.messages.team import Team
from marless.functions.nn.layers import LayerNorm
from marless.functions.nn.shape import Network
from marless.functions.setting_limits import LARGEST, LARGEST_STEP

SUMMARIES: tuple[SummaryName, ...] = get_args(SummaryName)

CriticInput = Literal["state", "state+observation"]


CorrectionName = Literal["vtrace", "decoupled", "none"]


class Correction(NamedTuple):
    """How PPO learns from data of an earlier round, see `marless.functions.algorithms.ppo.correction`.

    `cap`: the largest weight of a row; None where rows have no weights. `traces`: V-trace instead of GAE.
    """

    cap: float | None = None
    traces: bool = False


CORRECTIONS: Mapping[CorrectionName, Correction] = {
    "vtrace": Correction(1.0, traces=True),
    "decoupled": Correction(5.0),
    "none": Correction(),
}


class PpoConfig(NetworkConfig, frozen=True, kw_only=True):
    """The settings of the PPO family.

    MPE needs a short horizon: with gamma 0.99 separate networks stay on a plateau for a time that depends on the seed.
    `recurrent` and `data_chunk_length` are as in the code of MAPPO; `time_limit` as in Pardo et al., "Time Limits in
    Reinforcement Learning", 2018.

    Attributes:
        lr: Adam's step size. Default: 1e-3, or 7e-4 from six agents on. Higher learns faster, but is less stable
        critic_lr: Adam's step size for critics. Default: lr. Higher learns faster, but is less stable
        gae_lambda: λ of generalised advantage estimation. Higher relies less on the critic, but is noisier
        clip_coef: how far the probability ratio may move from 1. Lower makes updates smaller and more stable
        clip_schedule: how clip_coef falls, like lr_schedule
        ent_schedule: how ent_coef falls, like lr_schedule
        value_clip: how far a value may move in a round, in normalised units. Lower is more stable, but slower
        huber_delta: error at which the value loss turns linear, in normalised units. Lower makes outliers count less
        value_decay: memory of the value normaliser per round. Higher averages over more rounds
        normalise_observations: normalise observations by their running mean and variance, cut off at ±10. Helps if
            observations have different scales
        clipped: cut off continuous actions at their bounds, in place of squashing them by tanh
        correction: correction for data of earlier rounds: V-trace, decoupled PPO, or none. Default: decoupled with a
            pipeline.lag above 1, otherwise vtrace
    """

    lr: Annotated[float, Meta(gt=0, le=LARGEST_STEP)] | None = None
    critic_lr: Annotated[float, Meta(gt=0, le=LARGEST_STEP)] | None = None
    gamma: Discount = 0.9
    gae_lambda: Annotated[float, Meta(ge=0, le=1)] = 0.95
    clip_coef: Annotated[float, Meta(gt=0, le=LARGEST)] = 0.2
    ent_coef: EntropyWeight = 0.01
    clip_schedule: ScheduleName = "constant"
    ent_schedule: ScheduleName = "constant"
    epochs: Epochs = 4
    num_minibatches: Minibatches = 8
    value_clip: Annotated[float, Meta(gt=0, le=LARGEST)] = 0.2
    huber_delta: Annotated[float, Meta(gt=0, le=LARGEST)] = 10.0
    value_decay: Annotated[float, Meta(ge=0, lt=1)] = 0.99
    max_grad_norm: GradientNorm = 10.0
    adam_eps: AdamEpsilon = 1e-5
    hidden: HiddenWidths = (64, 64)
    recurrent: bool = False
    data_chunk_length: ChunkLength = 10
    layer_norm: bool = False
    normalise_observations: bool = False
    reward: RewardName = "own"
    clipped: bool = False
    time_limit: TimeLimit = "bootstrap"
    correction: CorrectionName = "vtrace"

    @property
    def stale_reads(self) -> tuple[tuple[str, str], ...]:
        return (("postprocess", "policy"),) if CORRECTIONS[self.correction].traces else ()

    @property
    def schedules(self) -> Mapping[str, ScheduleName]:
        return {
            "lr": self.lr_schedule,
            "critic_lr": self.lr_schedule,
            "clip_coef": self.clip_schedule,
            "ent_coef": self.ent_schedule,
        }

    @property
    def passes(self) -> str:
        if self.epochs == self.num_minibatches == 1:
            return ""
        epochs = f"{self.epochs} epoch{'s' * (self.epochs > 1)} of shuffled rows"
        return f"learns in {epochs}: set algorithm.epochs=1 and algorithm.num_minibatches=1"

    def critic_view(self, view: CriticView) -> CriticView:
        """What critics see with these settings, in an algorithm whose critics see `view`."""
        return view

    def resolved(self, spec: EnvSpec) -> Self:
        """Fills in the learning rate, which is lower for larger teams, whose agents move each other's targets."""
        if self.lr is not None:
            return self
        return msgspec.structs.replace(self, lr=1e-3 if len(spec.agents) < 6 else 7e-4)


TEAM = CriticView(state_width, team_state)
OWN = CriticView(observation_width, own_observation)
_VIEWS: Mapping[CriticInput, CriticView] = {
    "state": TEAM,
    "state+observation": CriticView(agent_state_width, agent_state),
}


class CentralisedConfig(PpoConfig, frozen=True, kw_only=True):
    """The settings of PPO with centralised critics.

    Attributes:
        critic_input: input of a critic: the team's state, alone or together with the agent's own observation
    """

    critic_input: CriticInput = "state"

    def critic_view(self, view: CriticView) -> CriticView:
        return _VIEWS[self.critic_input]


class IppoConfig(PpoConfig, frozen=True, kw_only=True, tag_field="name", tag="ippo"):
    """Independent PPO."""


class MappoConfig(CentralisedConfig, frozen=True, kw_only=True, tag_field="name", tag="mappo"):
    """PPO with a centralised critic."""


class HappoConfig(CentralisedConfig, frozen=True, kw_only=True, tag_field="name", tag="happo"):
    """PPO with a centralised critic, group after group."""

    reward: RewardName = "team"


def actor_and_critic(
    view: CriticView, spec: EnvSpec, team: Team, config: PpoConfig, group: int
) -> tuple[Network, Network]:
    """The group's policy, and its critic, whose inputs are those of `view` unless its settings say otherwise."""
    agent = members(team, group)[0]
    kind = next(kind for kind in spec.classes if agent in kind.agents)
    identity, norm = len(spec.agents) if team.identity else 0, LayerNorm if config.layer_norm else None
    width = config.critic_view(view).width
    acting = (kind.observation_size + identity, *config.hidden, kind.actions)
    valuing = (width(spec, agent) + identity, *config.hidden, 1)
    clips_actions = kind.continuous and config.clipped
    actor = Network(acting, config.recurrent, kind.continuous, clipped=clips_actions, norm=norm)
    critic, entities = Network(valuing, config.recurrent, norm=norm), described(config, kind)
    critic_entities = described_for_critic(spec, entities, width(spec, agent))
    return over_entities(config, actor, entities), over_entities(config, critic, critic_entities)


def part_bytes(view: CriticView, spec: EnvSpec, team: Team, config: PpoConfig, group: int) -> dict[str, int]:
    """The bytes of networks and moments."""
    if config.has_factory:
        return {}  # which only its factory knows
    actor, critic = actor_and_critic(view, spec, team, config, group)
    return trained_bytes("policy", actor.parameters) | trained_bytes("critic", critic.parameters)


PPO_PARTS = ("policy", "policy_optimiser", "critic", "critic_optimiser", "normaliser")
PPO_SUM_PARTS = ("policy", "critic", "normaliser")
PPO_STAGES = (
    StageSpec("postprocess", (), "team", reads=("critic", "normaliser"), writes=("normaliser",)),
    StageSpec("critic", ("postprocess",), "group", ("critic", "critic_optimiser"), ("critic", "critic_optimiser")),
    StageSpec("policy", ("postprocess",), "group", ("policy", "policy_optimiser"), ("policy", "policy_optimiser")),
)
IPPO = AlgorithmSpec(
    "ippo",
    IppoConfig,
    PPO_STAGES,
    PPO_PARTS,
    "marless.functions.algorithms.ppo.ippo",
    SUMMARIES,
    part_bytes=partial(part_bytes, OWN),
    member_rows=True,
    sum_parts=PPO_SUM_PARTS,
    adapts=True,
)
MAPPO = replace(
    IPPO,
    name="mappo",
    config=MappoConfig,
    implementation="marless.functions.algorithms.ppo.mappo",
    part_bytes=partial(part_bytes, TEAM),
)
HAPPO = AlgorithmSpec(
    "happo",
    HappoConfig,
    (*PPO_STAGES[:2], replace(PPO_STAGES[2], scope="team", couples=True, in_turn=True)),
    PPO_PARTS,
    "marless.functions.algorithms.ppo.happo",
    part_bytes=partial(part_bytes, TEAM),
    adapts=True,
)
