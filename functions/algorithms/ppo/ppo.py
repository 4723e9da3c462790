"""The PPO family as a stage graph: post-process, then critic and policy side by side.

Values, advantages and targets are computed once, with the round's incoming weights and normaliser; then the normaliser
updates once; then critic and policy train independently, each with its own optimiser and gradient clipping. Schulman et
al., 2017; details after Huang et al., "The 37 Implementation Details of PPO", 2022, and Yu et al., "The Surprising
Effectiveness of PPO in Cooperative Multi-Agent Games", 2022.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from functions.algorithms.advantages import LearningSignal, gae, next_values
from functions.algorithms.chunks import RowIndices, training_samples
from functions.algorithms.engine import weights_of
from functions.algorithms.input_statistics import initial_statistics, updated_statistics
from functions.algorithms.metrics import ByAgent
from functions.algorithms.new_networks import Part, new_network
from functions.algorithms.rows import (
    after_cuts,
    critic_shape,
    learned_from,
    members,
    normalised,
    observation_shape,
    observation_width,
    observations,
    pooling,
    share,
    starts,
    with_identity,
)
from functions.algorithms.specification import NetworkConfig, ScheduleName, StageSpec
from functions.algorithms.stage import Context, Stage, StageResult
from functions.algorithms.trainable import OptimiserStep, Trainable, last_epoch, minibatches, trained_bytes
from functions.bounds import LARGEST, LARGEST_STEP, MOST_EPOCHS, MOST_LAYERS, MOST_STEPS, MOST_UNITS, MOST_UPDATES
from functions.contract import BadRequest, Team
from functions.data.batch import Batch
from functions.environments.base import EnvSpec
from functions.keys import group_name
from functions.nn.discrete import OneChoice
from functions.nn.heads import Distribution, distribution
from functions.nn.losses import (
    PolicyLoss,
    ValueLoss,
    clipped_head_loss,
    clipped_policy_loss,
    clipped_value_loss,
    mask_logits,
)
from functions.nn.networks import unroll
from functions.nn.normaliser import Normaliser
from functions.nn.shape import Network
from functions.randomness import generator

Array = NDArray[Any]
Count = Annotated[int, Meta(ge=1, le=MOST_UNITS)]


class CriticView(NamedTuple):
    """The inputs of an algorithm's critic for an agent, without the one-hot identity: their width, and the arrays
    ``[T, E, width]`` for all steps and ``[K, width]`` for the states after each cut."""

    width: Callable[[EnvSpec, int], int]
    inputs: Callable[[Batch, int], tuple[Array, Array]]


class PpoConfig(NetworkConfig, frozen=True, kw_only=True):
    """The settings of the PPO family.

    MPE needs a short horizon: with gamma 0.99 separate networks stay on a plateau for a time that depends on the seed.
    `recurrent` and `data_chunk_length` are as in the code of MAPPO; `time_limit` as in Pardo et al., "Time Limits in
    Reinforcement Learning", 2018.
    """

    lr: (
        Annotated[float, Meta(gt=0, le=LARGEST_STEP, description="Adam's step; default 1e-3, 7e-4 from six agents on")]
        | None
    ) = None
    gamma: Annotated[float, Meta(ge=0, le=1, description="discount per environment step")] = 0.9
    gae_lambda: Annotated[float, Meta(ge=0, le=1, description="λ of generalised advantage estimation")] = 0.95
    clip_coef: Annotated[float, Meta(gt=0, le=LARGEST, description="how far the probability ratio may move from 1")] = (
        0.2
    )
    ent_coef: Annotated[float, Meta(ge=0, le=LARGEST, description="weight of the entropy bonus")] = 0.01
    clip_schedule: Annotated[ScheduleName, Meta(description="how clip_coef falls, as lr_schedule")] = "constant"
    ent_schedule: Annotated[ScheduleName, Meta(description="how ent_coef falls, as lr_schedule")] = "constant"
    epochs: Annotated[int, Meta(ge=1, le=MOST_EPOCHS, description="passes over the round's data")] = 4
    num_minibatches: Annotated[int, Meta(ge=1, le=MOST_UPDATES, description="optimiser steps per pass")] = 8
    value_clip: Annotated[
        float, Meta(gt=0, le=LARGEST, description="how far a value may move, in normalised units")
    ] = 0.2
    huber_delta: Annotated[
        float, Meta(gt=0, le=LARGEST, description="where the value loss turns linear, in normalised units")
    ] = 10.0
    value_decay: Annotated[float, Meta(ge=0, lt=1, description="memory of the value normaliser per round")] = 0.99
    max_grad_norm: Annotated[float, Meta(gt=0, le=LARGEST, description="cap on each network's gradient norm")] = 10.0
    adam_eps: Annotated[float, Meta(gt=0, le=LARGEST, description="Adam's denominator guard")] = 1e-5
    hidden: Annotated[
        tuple[Count, ...], Meta(min_length=1, max_length=MOST_LAYERS, description="widths of the hidden layers")
    ] = (
        64,
        64,
    )
    recurrent: Annotated[bool, Meta(description="the last hidden layer of policy and critic remembers (a GRU)")] = False
    data_chunk_length: Annotated[
        int, Meta(ge=1, le=MOST_STEPS, description="steps that a recurrent network's gradients go back through")
    ] = 10
    layer_norm: Annotated[bool, Meta(description="hidden layers are normalised (LayerNorm)")] = False
    normalise_observations: Annotated[
        bool, Meta(description="what networks see is normalised by its running mean and variance, and cut off at ±10")
    ] = False
    reward: Annotated[
        Literal["own", "team"], Meta(description="own, or the sum over one's side, which goes on when an agent dies")
    ] = "own"
    clipped: Annotated[bool, Meta(description="numbers are cut off at their bounds, and not squashed by tanh")] = False
    time_limit: Annotated[
        Literal["bootstrap", "terminal"], Meta(description="value what a time limit cut off, or take it for an end")
    ] = "bootstrap"

    @property
    def schedules(self) -> Mapping[str, ScheduleName]:
        return {"lr": self.lr_schedule, "clip_coef": self.clip_schedule, "ent_coef": self.ent_schedule}

    def critic_view(self, view: CriticView) -> CriticView:
        """What critics see with these settings, in an algorithm whose critics see `view`."""
        return view

    def resolved(self, spec: EnvSpec) -> Self:
        """Fills in the learning rate, which is lower for larger teams, whose agents move each other's targets."""
        if self.lr is not None:
            return self
        return msgspec.structs.replace(self, lr=1e-3 if len(spec.agents) < 6 else 7e-4)


PPO_PARTS = ("policy", "policy_optimiser", "critic", "critic_optimiser", "normaliser")
PPO_STAGES = (
    StageSpec("postprocess", (), "team", reads=("critic", "normaliser"), writes=("normaliser",)),
    StageSpec("critic", ("postprocess",), "group", ("critic", "critic_optimiser"), ("critic", "critic_optimiser")),
    StageSpec("policy", ("postprocess",), "group", ("policy", "policy_optimiser"), ("policy", "policy_optimiser")),
)


class Ppo:
    """The stages of a PPO algorithm whose critic has the inputs of `view`, unless its settings say otherwise."""

    def __init__(self, view: CriticView) -> None:
        self._view = view
        self.stages: dict[str, Stage] = {"postprocess": self.postprocess, "critic": self.critic, "policy": policy}

    def initialise(self, spec: EnvSpec, team: Team, config: PpoConfig, seed: int, group: int) -> dict[str, Array]:
        """Networks, optimiser moments and normaliser of a group at round 0."""
        name, rng = group_name(group), generator(seed, "initialise", group)
        actor, critic = self._networks(spec, team, config, group)
        agent, view = members(team, group)[0], config.critic_view(self._view)
        acting, valued = observation_shape(spec, agent), critic_shape(spec, agent, view.width(spec, agent))
        made = {
            **new_network(config, Part("policy", acting, 0.01, acts=True), actor, group, rng),
            **new_network(config, Part("critic", valued, 1.0), critic, group, rng),
            f"normaliser/{name}": np.zeros(3),
        }
        if config.normalise_observations:
            made |= initial_statistics("policy", group, observation_width(spec, agent))
            made |= initial_statistics("critic", group, view.width(spec, agent))
        return made

    def part_bytes(self, spec: EnvSpec, team: Team, config: PpoConfig, group: int) -> dict[str, int]:
        """The bytes of networks and moments."""
        if config.network != "mlp":
            return {}  # which only its factory knows
        actor, critic = self._networks(spec, team, config, group)
        return trained_bytes("policy", actor.parameters) | trained_bytes("critic", critic.parameters)

    def postprocess(self, context: Context[PpoConfig], group: int) -> StageResult:
        """Advantages ``[rows]`` of `learned_from`, and normalised value targets and old values of the critic's rows."""
        name, config, batch = group_name(group), context.config, context.batch
        agents = members(context.team, group)
        normaliser = Normaliser(*context.tensors[f"normaliser/{name}"].tolist())
        raw, after = self._values(context, group)
        values = normaliser.denormalise(raw.astype(np.float64))
        following = next_values(values, normaliser.denormalise(after.astype(np.float64)), batch.cut)
        rewards, terminal, rows = learning_signal(context, group)
        rewards = rewards.astype(np.float64)
        advantages = gae(rewards, values, following, terminal, batch.ended, config.gamma, config.gae_lambda)
        targets = (advantages + values)[rows]
        advantage = advantages[learned_from(context, group)]
        spread = float(advantage.std())
        updated = normaliser.updated(targets, config.value_decay)
        metrics = ByAgent.of(agents, rows).explained_variance(values[rows], targets)
        precision = raw.dtype  # statistics need float64; training uses the precision of the weights
        return StageResult(
            {
                f"advantage/{name}": ((advantage - advantage.mean()) / (spread + 1e-8)).astype(precision),
                f"target/{name}": updated.normalise(targets).astype(precision),
                f"value/{name}": raw[rows],
                f"normaliser/{name}": np.array([updated.mean, updated.square, updated.weight]),
            },
            metrics | {"advantage_spread": spread},
        )

    def critic(self, context: Context[PpoConfig], group: int) -> StageResult:
        """Trains the group's critic on the targets of `postprocess`."""
        name, config = group_name(group), context.config
        network = Trainable.load(context, "critic", name)
        old_values, targets = context.tensors[f"value/{name}"], context.tensors[f"target/{name}"]

        def loss(outputs: Array, log_std: Array | None, rows: RowIndices) -> ValueLoss:
            return clipped_value_loss(
                outputs[:, 0], old_values[rows], targets[rows], config.value_clip, config.huber_delta
            )

        rows = learning_signal(context, group).learned

        def critic_inputs(agent: int) -> Array:
            return self.inputs(context, agent)[0]

        pieces = training_samples(context, group, network.weights, critic_inputs, config.data_chunk_length, rows)
        steps = last_epoch(network.learn(minibatches(pieces, context, "critic", group), loss), config.epochs)
        metrics = {
            "value_loss": _mean(step.loss.loss for step in steps),
            "critic_grad_norm": _mean(step.norm for step in steps),
        }
        return StageResult({**network.tensors("critic", name), **self._statistics(context, group)}, metrics)

    def inputs(self, context: Context[PpoConfig], agent: int) -> tuple[Array, Array]:
        """The critic's inputs ``[T, E, width]`` and ``[K, width]``, identity included."""
        steps, cut = context.config.critic_view(self._view).inputs(context.batch, agent)
        inputs, after = (normalised(context, "critic", agent, rows) for rows in (steps, cut))
        return with_identity(context, agent, inputs), with_identity(context, agent, after)

    def _statistics(self, context: Context[PpoConfig], group: int) -> dict[str, Array]:
        view = context.config.critic_view(self._view)
        return updated_statistics(context, "critic", group, lambda batch, agent: view.inputs(batch, agent)[0])

    def _networks(self, spec: EnvSpec, team: Team, config: PpoConfig, group: int) -> tuple[Network, Network]:
        """The group's policy and critic."""
        agent = members(team, group)[0]
        kind = next(kind for kind in spec.classes if agent in kind.agents)
        identity = len(spec.agents) if team.identity else 0
        head, wide = distribution(kind), config.critic_view(self._view).width(spec, agent)
        widths = (kind.observation_size + identity, *config.hidden, head.width)
        gaussian = head.log_std_size > 0
        clipped, norm = gaussian and config.clipped, config.layer_norm
        actor = Network(widths, config.recurrent, gaussian, clipped=clipped, layer_norm=norm)
        return actor, Network((wide + identity, *config.hidden, 1), config.recurrent, layer_norm=norm)

    def _values(self, context: Context[PpoConfig], group: int) -> tuple[Array, Array]:
        """The critic's values of the group's steps ``[n, T, E]``, and of the states after each cut ``[n, K]``."""
        weights = weights_of(context, f"critic/{group_name(group)}")
        raw, after = [], []
        for agent in members(context.team, group):
            inputs, cut = self.inputs(context, agent)
            outputs, trace = unroll(weights, inputs, starts(context))
            raw.append(outputs[..., 0])
            after.append(after_cuts(context, weights, trace, cut)[:, 0])
        return np.stack(raw), np.stack(after)


class PolicyRows(NamedTuple):
    """The inputs of the policy loss for B rows: `actions` ``[B]`` or ``[B, ...]`` as the `head` samples them, `legal`
    ``[B, width]`` or None, others ``[B]``."""

    head: Distribution
    actions: Array
    log_probability: Array
    advantage: Array
    legal: NDArray[np.bool_] | None
    clip: float
    entropy: float

    @classmethod
    def living(cls, context: Context[PpoConfig], group: int) -> Self:
        """The rows of `learned_from`, with the advantages of `postprocess`.

        Raises `BadRequest` for trajectories without log-probabilities.
        """
        batch, joined = context.batch, pooling(context, group)
        if batch.log_probability is None:
            raise BadRequest("the trajectories hold no log-probabilities, which PPO learns from")
        log_probability, masks = batch.log_probability, batch.masks
        index, _ = batch.place(members(context.team, group)[0])
        return cls(
            head=distribution(context.spec.classes[index]),
            actions=joined(lambda agent: batch.of(batch.actions, agent)),
            log_probability=joined(lambda agent: batch.of(log_probability, agent)),
            advantage=context.tensors[f"advantage/{group_name(group)}"],
            legal=None if masks is None else joined(lambda agent: batch.of(masks, agent)),
            clip=context.config.clip_coef,
            entropy=context.config.ent_coef,
        )

    def loss(self, outputs: Array, log_std: Array | None, rows: RowIndices) -> PolicyLoss:
        """The policy loss of the rows with the indices `rows`, from the network's `outputs` for them."""
        legal = None if self.legal is None else self.legal[rows]
        known = self.actions[rows], self.log_probability[rows], self.advantage[rows], self.clip, self.entropy
        if isinstance(self.head, OneChoice):
            return clipped_policy_loss(outputs, *known, legal)
        return clipped_head_loss(self.head, mask_logits(outputs, legal), log_std, *known)


def learning_signal(context: Context[PpoConfig], group: int) -> LearningSignal:
    """The group's rewards ``[n, T, E]``, terminal steps and rows of the critic."""
    signal = LearningSignal.of(context, members(context.team, group), context.config.reward == "team")
    return signal._replace(learned=signal.learned & share(context, group))


def policy(context: Context[PpoConfig], group: int) -> StageResult:
    """Trains the group's policy on the advantages of `postprocess`."""
    return train_policy(context, group, PolicyRows.living(context, group))


def train_policy(context: Context[PpoConfig], group: int, known: PolicyRows) -> StageResult:
    """Trains the group's policy on its rows."""
    name, config = group_name(group), context.config
    network = Trainable.load(context, "policy", name)
    pieces = training_samples(
        context, group, network.weights, lambda agent: observations(context, agent), config.data_chunk_length
    )
    steps = last_epoch(network.learn(minibatches(pieces, context, "policy", group), known.loss), config.epochs)
    agents = members(context.team, group)
    metrics = {
        "policy_loss": _mean(step.loss.surrogate for step in steps),
        "policy_grad_norm": _mean(step.norm for step in steps),
        **ByAgent.of(agents, learned_from(context, group)).means(_by_row(steps)),
    }
    return StageResult({**network.tensors("policy", name), **updated_statistics(context, "policy", group)}, metrics)


def _by_row(steps: list[OptimiserStep[PolicyLoss]]) -> dict[str, Array]:
    """The metrics of every row ``[rows]`` in one pass over the data, in the order of the rows."""
    order = np.argsort(np.concatenate([step.rows for step in steps]))
    metrics = [step.loss.rows for step in steps]
    return {name: np.concatenate([rows[name] for rows in metrics])[order] for name in metrics[0]}


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))
