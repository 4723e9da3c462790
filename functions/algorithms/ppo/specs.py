"""IPPO, MAPPO and HAPPO as the coordinator knows them: settings, stages, networks and their sizes."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal, NamedTuple, Self, get_args

import msgspec
from msgspec import Meta

from marless.functions.algorithms import agent_inputs, specification
from marless.functions.algorithms.specification import AlgorithmSpec, StageSpec
from marless.functions.environments.base import EnvSpec
from marless.functions.messages.learner import SummaryName
from marless.functions.messages.team import Team
from marless.functions.nn.layers import LayerNorm
from marless.functions.nn.shape import Network
from marless.functions.setting_limits import FEWEST_MINIBATCHES, LARGEST, LARGEST_STEP

SUMMARIES: tuple[SummaryName, ...] = get_args(SummaryName)

CriticInput = Literal["state", "state+observation"]


CorrectionName = Literal["vtrace", "decoupled", "none"]


class Correction(NamedTuple):
    """A correction for data of an earlier round, see `marless.functions.algorithms.ppo.correction`.

    `cap`: the largest weight of a row, or None if rows are unweighted. `traces`: V-trace instead of GAE.
    """

    cap: float | None = None
    traces: bool = False


CORRECTIONS: Mapping[CorrectionName, Correction] = {
    "vtrace": Correction(1.0, traces=True),
    "decoupled": Correction(5.0),
    "none": Correction(),
}


# Rollouts of the Multi-Particle tasks have 1,600 steps.
_STEPS_OF_MINIBATCH, _MOST_MINIBATCHES = 200, 64


class PpoConfig(specification.DiscountedConfig, frozen=True, kw_only=True):
    """The settings of the PPO family.

    `recurrent` and `data_chunk_length` follow the code of MAPPO. `time_limit`: Pardo et al., "Time Limits in
    Reinforcement Learning", 2018.

    Attributes:
        num_minibatches: optimiser steps per pass. Default: one for 200 environment steps of a rollout, 8 to 64. Higher
            learns faster, but each step sees less data
        lr: Adam's step size. Default: 1e-3, or 7e-4 from six agents on. Higher learns faster, but is less stable
        critic_lr: Adam's step size for critics. Default: lr. Higher learns faster, but is less stable
        gae_lambda: λ of generalised advantage estimation. Higher relies less on the critic, but is noisier
        clip_coef: how far the probability ratio may move from 1. Lower makes updates smaller and more stable
        clip_schedule: how clip_coef falls, like lr_schedule
        ent_schedule: how ent_coef falls, like lr_schedule
        value_clip: how far a value may move in a round, in normalised units. Lower is more stable, but slower
        huber_delta: error above which the value loss is linear, in normalised units. Lower makes outliers count less
        value_decay: memory of the value normaliser per round. Higher averages over more rounds
        normalise_observations: normalise observations by their running mean and variance, cut off at ±10. Helps if
            observations have different scales
        clipped: cut off continuous actions at their bounds, in place of squashing them by tanh
        correction: correction for data of earlier rounds: V-trace, decoupled PPO, or none. Default: decoupled with a
            pipeline.lag above 1, otherwise vtrace
    """

    lr: Annotated[float, Meta(gt=0, le=LARGEST_STEP)] | None = None
    critic_lr: Annotated[float, Meta(gt=0, le=LARGEST_STEP)] | None = None
    gae_lambda: Annotated[float, Meta(ge=0, le=1)] = 0.95
    clip_coef: Annotated[float, Meta(gt=0, le=LARGEST)] = 0.2
    ent_coef: specification.EntropyWeight = 0.01
    clip_schedule: specification.ScheduleName = "constant"
    ent_schedule: specification.ScheduleName = "constant"
    epochs: specification.Epochs = 4
    num_minibatches: specification.Minibatches | None = None
    value_clip: Annotated[float, Meta(gt=0, le=LARGEST)] = 0.2
    huber_delta: Annotated[float, Meta(gt=0, le=LARGEST)] = 10.0
    value_decay: Annotated[float, Meta(ge=0, lt=1)] = 0.99
    max_grad_norm: specification.GradientNorm = 10.0
    adam_eps: specification.AdamEpsilon = 1e-5
    hidden: specification.HiddenWidths = (64, 64)
    recurrent: bool = False
    data_chunk_length: specification.ChunkLength = 10
    layer_norm: bool = False
    normalise_observations: bool = False
    reward: specification.RewardName = "own"
    clipped: bool = False
    time_limit: specification.TimeLimit = "bootstrap"
    correction: CorrectionName = "vtrace"

    @property
    def stale_reads(self) -> tuple[tuple[str, str], ...]:
        return (("postprocess", "policy"),) if CORRECTIONS[self.correction].traces else ()

    @property
    def schedules(self) -> Mapping[str, specification.ScheduleName]:
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

    def critic_view(self, view: agent_inputs.CriticView) -> agent_inputs.CriticView:
        """Return the view of critics with these settings, given the algorithm's `view`."""
        return view

    def sized(self, rollout_steps: int) -> Self:
        """Also fills in the minibatches. Longer rollouts would otherwise give fewer optimiser steps for their data."""
        count = min(max(rollout_steps // _STEPS_OF_MINIBATCH, FEWEST_MINIBATCHES), _MOST_MINIBATCHES)
        return self if self.num_minibatches else msgspec.structs.replace(self, num_minibatches=count)

    def resolved(self, spec: EnvSpec) -> Self:
        """Also fills in the learning rate. It is lower for large teams, because agents move each other's targets."""
        lr = (1e-3 if len(spec.agents) < 6 else 7e-4) if self.lr is None else self.lr
        return msgspec.structs.replace(super().resolved(spec), lr=lr)


TEAM = agent_inputs.CriticView(agent_inputs.state_width, agent_inputs.team_state)
OWN = agent_inputs.CriticView(agent_inputs.observation_width, agent_inputs.own_observation)
_VIEWS: Mapping[CriticInput, agent_inputs.CriticView] = {
    "state": TEAM,
    "state+observation": agent_inputs.CriticView(agent_inputs.agent_state_width, agent_inputs.agent_state),
}


class CentralisedConfig(PpoConfig, frozen=True, kw_only=True):
    """The settings of PPO with centralised critics.

    Attributes:
        critic_input: input of a critic: the team's state, alone or together with the agent's own observation
    """

    critic_input: CriticInput = "state"

    def critic_view(self, view: agent_inputs.CriticView) -> agent_inputs.CriticView:
        return _VIEWS[self.critic_input]


class IppoConfig(PpoConfig, frozen=True, kw_only=True, tag_field="name", tag="ippo"):
    """Independent PPO."""


class MappoConfig(CentralisedConfig, frozen=True, kw_only=True, tag_field="name", tag="mappo"):
    """PPO with a centralised critic."""


class HappoConfig(CentralisedConfig, frozen=True, kw_only=True, tag_field="name", tag="happo"):
    """PPO with a centralised critic, group after group."""

    reward: specification.RewardName = "team"


def actor_and_critic(
    view: agent_inputs.CriticView, spec: EnvSpec, team: Team, config: PpoConfig, group: int
) -> tuple[Network, Network]:
    """The group's policy and critic. The critic has the inputs of `view`, unless its settings say otherwise."""
    agent = agent_inputs.members(team, group)[0]
    kind = next(kind for kind in spec.classes if agent in kind.agents)
    identity, norm = len(spec.agents) if team.identity else 0, LayerNorm if config.layer_norm else None
    width = config.critic_view(view).width
    acting = (kind.observation_size + identity, *config.hidden, kind.actions)
    valuing = (width(spec, agent) + identity, *config.hidden, 1)
    actor = Network(acting, config.recurrent, kind.continuous, clipped=kind.continuous and config.clipped, norm=norm)
    critic, entities = Network(valuing, config.recurrent, norm=norm), agent_inputs.described(config, kind)
    critic_entities = agent_inputs.described_for_critic(spec, entities, width(spec, agent))
    return agent_inputs.over_entities(config, actor, entities), agent_inputs.over_entities(
        config, critic, critic_entities
    )


def part_bytes(
    view: agent_inputs.CriticView, spec: EnvSpec, team: Team, config: PpoConfig, group: int
) -> dict[str, int]:
    """The bytes of networks and moments."""
    if config.has_factory:
        return {}  # which only its factory knows
    actor, critic = actor_and_critic(view, spec, team, config, group)
    return specification.trained_bytes("policy", actor.parameters) | specification.trained_bytes(
        "critic", critic.parameters
    )


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
