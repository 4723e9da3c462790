"""The PPO family as a stage graph: post-process, then critic and policy side by side.

Values, advantages and targets are computed once, with the round's incoming weights and normaliser. Then the normaliser
updates once. Then critic and policy train independently, each with its own optimiser and gradient clipping.
`correction` has the differences for data that policies of an earlier round sampled. Sources: Schulman et al., 2017.
Huang et al., "The 37 Implementation Details of PPO", 2022. Yu et al., "The Surprising Effectiveness of PPO in
Cooperative Multi-Agent Games", 2022.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marless.functions.algorithms.advantages import LearningSignal, next_values
from marless.functions.algorithms.agent_inputs import (
    CriticView,
    critic_shape,
    members,
    observation_shape,
    observation_width,
)
from marless.functions.algorithms.engine import OptimiserStep, weights_of
from marless.functions.algorithms.group_inputs import (
    after_cuts,
    learned_from,
    normalise,
    observations,
    pooling,
    share,
    starts,
    with_identity,
)
from marless.functions.algorithms.input_statistics import initial_statistics, updated_statistics
from marless.functions.algorithms.metrics import ByAgent
from marless.functions.algorithms.minibatches import Samples, training_samples
from marless.functions.algorithms.new_networks import NetworkPart, new_network
from marless.functions.algorithms.ppo import correction
from marless.functions.algorithms.ppo.specs import PpoConfig, actor_and_critic, part_bytes
from marless.functions.algorithms.stage import Context, Stage, StageResult
from marless.functions.algorithms.team_reward_models import kept_sums
from marless.functions.algorithms.trainable import Trainable, last_epoch, mean_of_steps, minibatches
from marless.functions.data.batch import Batch
from marless.functions.environments.base import EnvSpec
from marless.functions.keys import group_name
from marless.functions.messages.team import Team
from marless.functions.nn.losses import ROW_METRICS, ClippedPolicyLoss, ClippedValueLoss, PolicyLoss
from marless.functions.nn.networks import Weights, unroll
from marless.functions.nn.normaliser import Normaliser
from marless.functions.randomness import generator

Array = NDArray[Any]


# The guard of advantages that are all equal.
SPREAD_GUARD = 1e-8


class RoundEstimates(NamedTuple):
    """In double precision the `advantage` ``[rows]`` of `learned_from`, and for the critic's `rows` ``[n, T, E]`` the
    `targets` and `values` ``[rows]`` in units of reward. `raw` values are in units of the normaliser."""

    advantage: Array
    targets: Array
    values: Array
    raw: Array
    rows: NDArray[np.bool_]


@dataclass(frozen=True)
class Ppo:
    """The stages of a PPO algorithm. Its critic has the inputs of `critic_view`, unless its settings say otherwise."""

    critic_view: CriticView

    @property
    def stages(self) -> dict[str, Stage]:
        """The stages by name."""
        return {"postprocess": self.postprocess, "critic": self.critic, "policy": policy}

    def initialise(self, spec: EnvSpec, team: Team, config: PpoConfig, seed: int, group: int) -> dict[str, Array]:
        """Networks, optimiser moments and normaliser of a group at round 0."""
        name, rng = group_name(group), generator(seed, "initialise", group)
        actor, critic = actor_and_critic(self.critic_view, spec, team, config, group)
        agent, view = members(team, group)[0], config.critic_view(self.critic_view)
        acting, critic_inputs = observation_shape(spec, agent), critic_shape(spec, agent, view.width(spec, agent))
        tensors = {
            **new_network(config, NetworkPart("policy", acting, 0.01, acts=True), actor, group, rng),
            **new_network(config, NetworkPart("critic", critic_inputs, 1.0), critic, group, rng),
            f"normaliser/{name}": np.zeros(3),
        }
        if config.normalise_observations:
            tensors |= initial_statistics("policy", group, observation_width(spec, agent))
            tensors |= initial_statistics("critic", group, view.width(spec, agent))
        return tensors

    def part_bytes(self, spec: EnvSpec, team: Team, config: PpoConfig, group: int) -> dict[str, int]:
        """See `specs.part_bytes`."""
        return part_bytes(self.critic_view, spec, team, config, group)

    def postprocess(self, context: Context[PpoConfig], group: int) -> StageResult:
        """Advantages ``[rows]`` of `learned_from`, and normalised value targets and old values of the critic's rows."""
        name, estimates = group_name(group), self.estimates(context, group)
        advantage, targets, rows = estimates.advantage, estimates.targets, estimates.rows
        mean, spread = (advantage.mean(), float(advantage.std())) if len(advantage) else (0.0, 0.0)
        normaliser = normaliser_of(context, group).update(targets, context.config.value_decay)
        metrics = ByAgent.of(members(context.team, group), rows).explained_variance(estimates.values, targets)
        precision = estimates.raw.dtype  # statistics need float64, and training uses the precision of the weights
        return StageResult(
            {
                f"advantage/{name}": ((advantage - mean) / (spread + SPREAD_GUARD)).astype(precision),
                f"target/{name}": normaliser.normalise(targets).astype(precision),
                f"value/{name}": estimates.raw,
                f"normaliser/{name}": normaliser.tensor,
            },
            metrics | {"advantage_spread": spread},
        )

    def estimates(self, context: Context[PpoConfig], group: int) -> RoundEstimates:
        """Return the estimates of the group's critic for the batch, with its incoming weights and normaliser."""
        batch, normaliser = context.batch, normaliser_of(context, group)
        raw, after = self._values(context, group)
        values = normaliser.denormalise(raw.astype(np.float64))
        following = next_values(values, normaliser.denormalise(after.astype(np.float64)), batch.cut)
        rewards, terminal, rows = learning_signal(context, group)
        rewards = rewards.astype(np.float64)
        advantages, errors = correction.estimate_advantages(context, group, rewards, values, following, terminal)
        targets = (errors + values)[rows]
        return RoundEstimates(advantages[learned_from(context, group)], targets, values[rows], raw[rows], rows)

    def critic(self, context: Context[PpoConfig], group: int) -> StageResult:
        """Trains the group's critic on the targets of `postprocess`."""
        name, config = group_name(group), context.config
        network = Trainable.load(context, "critic", name, config.critic_lr)
        old_values, targets = context.tensors[f"value/{name}"], context.tensors[f"target/{name}"]
        loss = ClippedValueLoss(old_values, targets, config.value_clip, config.huber_delta)
        pieces = self.critic_samples(context, group, network.weights)
        steps = last_epoch(network.learn(minibatches(pieces, context, "critic", group), loss), config.epochs)
        metrics = {
            "value_loss": mean_of_steps(step.loss.loss for step in steps),
            "critic_grad_norm": mean_of_steps(step.norm for step in steps),
        }
        statistics = updated_statistics(context, "critic", group, self.view(config))
        return StageResult({**network.tensors("critic", name), **statistics}, metrics)

    def critic_samples(self, context: Context[PpoConfig], group: int, weights: Weights) -> Samples:
        """Return the training samples of the group's critic."""
        rows, length = learning_signal(context, group).loss_mask, context.config.data_chunk_length
        return training_samples(context, group, weights, lambda agent: self.inputs(context, agent)[0], length, rows)

    def inputs(self, context: Context[PpoConfig], agent: int) -> tuple[Array, Array]:
        """The critic's inputs ``[T, E, width]`` and ``[K, width]``, identity included."""
        steps, cut = context.config.critic_view(self.critic_view).inputs(context.batch, agent)
        inputs, after = (normalise(context, "critic", agent, rows) for rows in (steps, cut))
        return with_identity(context, agent, inputs), with_identity(context, agent, after)

    def view(self, config: PpoConfig) -> Callable[[Batch, int], Array]:
        """The inputs of an agent's critic ``[T, E, width]``, without identity."""
        return lambda batch, agent: config.critic_view(self.critic_view).inputs(batch, agent)[0]

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


def policy_loss(context: Context[PpoConfig], group: int) -> ClippedPolicyLoss:
    """The loss of the rows of `learned_from`, with the advantages of `postprocess`, corrected if the data is old.

    Raises `BadRequest` for trajectories without log-probabilities.
    """
    batch, pool = context.batch, pooling(context, group)
    masks = batch.masks
    loss = ClippedPolicyLoss(
        head=correction.policy_head(context, members(context.team, group)[0]),
        actions=pool(lambda agent: batch.of(batch.actions, agent)),
        log_probability=pool(lambda agent: correction.behaviour_log_probability(context, agent)),
        advantage=context.tensors[f"advantage/{group_name(group)}"],
        legal=None if masks is None else pool(lambda agent: batch.of(masks, agent)),
        clip=context.config.clip_coef,
        entropy_weight=context.config.ent_coef,
    )
    return _corrected(loss, context, group) if correction.is_corrected(context) else loss


def _corrected(loss: ClippedPolicyLoss, context: Context[PpoConfig], group: int) -> ClippedPolicyLoss:
    """The loss with the proximal policy's log-probabilities, and with weights on the advantages."""
    mask = learned_from(context, group)
    weights = correction.row_weights(context, group)[mask].astype(loss.advantage.dtype)
    proximal = correction.proximal_log_probability(context, group)[mask]
    return replace(loss, log_probability=proximal, advantage=loss.advantage * weights)


def normaliser_of(context: Context[PpoConfig], group: int) -> Normaliser:
    """The normaliser of the group's values."""
    return Normaliser(*context.tensors[f"normaliser/{group_name(group)}"].tolist())


def policy_samples(context: Context[PpoConfig], group: int, weights: Weights) -> Samples:
    """Return the training samples of the group's policy."""
    length = context.config.data_chunk_length
    return training_samples(context, group, weights, lambda agent: observations(context, agent), length)


def learning_signal(context: Context[PpoConfig], group: int) -> LearningSignal:
    """The group's rewards ``[n, T, E]``, terminal steps and rows of the critic."""
    signal = LearningSignal.of(context, members(context.team, group), context.config.reward == "team")
    return signal._replace(loss_mask=signal.loss_mask & share(context, group))


def policy(context: Context[PpoConfig], group: int) -> StageResult:
    """Trains the group's policy on the advantages of `postprocess`."""
    return train_policy(context, group, policy_loss(context, group))


def train_policy(context: Context[PpoConfig], group: int, loss: ClippedPolicyLoss) -> StageResult:
    """Trains the group's policy on the loss."""
    name, config = group_name(group), context.config
    network = Trainable.load(context, "policy", name)
    pieces = policy_samples(context, group, network.weights)
    steps = last_epoch(network.learn(minibatches(pieces, context, "policy", group), loss), config.epochs)
    agents = members(context.team, group)
    metrics = {
        "policy_loss": mean_of_steps(step.loss.surrogate for step in steps),
        "policy_grad_norm": mean_of_steps(step.norm for step in steps),
        **ByAgent.of(agents, learned_from(context, group)).means(_by_row(steps)),
        **(correction.staleness(context, group) if context.age else {}),
    }
    more = {**updated_statistics(context, "policy", group), **kept_sums(context, group)}
    return StageResult({**network.tensors("policy", name), **more}, metrics)


def _by_row(steps: Sequence[OptimiserStep[PolicyLoss]]) -> dict[str, Array]:
    """The metrics of every row ``[rows]`` in one pass over the data, in the order of the rows."""
    if not steps:
        return dict.fromkeys(ROW_METRICS, np.zeros(0))
    places, metrics = np.concatenate([step.rows for step in steps]), [step.loss.rows for step in steps]
    by_row = {name: np.concatenate([rows[name] for rows in metrics]) for name in ROW_METRICS}
    for values in by_row.values():
        values[places] = values.copy()
    return by_row
