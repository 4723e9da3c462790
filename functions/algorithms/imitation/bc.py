"""Behaviour cloning: every group's policy learns the actions that were recorded for its agents.

Pomerleau, "ALVINN: An Autonomous Land Vehicle in a Neural Network", NIPS 1988, as supervised learning in minibatches.
The loss of choices is the cross entropy, summed over several choices. The loss of numbers is the squared error of tanh
of the outputs, in [-1, 1], summed over the numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from marless.functions.algorithms.agent_inputs import members, observation_shape
from marless.functions.algorithms.engine import OptimiserStep
from marless.functions.algorithms.group_inputs import learned_from, observations, pooling
from marless.functions.algorithms.imitation.specs import BcConfig, policy_network
from marless.functions.algorithms.metrics import ByAgent
from marless.functions.algorithms.minibatches import RowIndices, training_samples
from marless.functions.algorithms.new_networks import NetworkPart, new_network
from marless.functions.algorithms.stage import Context, Stage, StageResult
from marless.functions.algorithms.trainable import Trainable, last_epoch, mean_of_steps, minibatches
from marless.functions.environments.base import EnvSpec
from marless.functions.keys import group_name
from marless.functions.messages.team import Team
from marless.functions.nn.heads import Distribution, Head, head_of
from marless.functions.nn.layers import Array
from marless.functions.nn.losses import mask_logits
from marless.functions.randomness import generator


@dataclass(frozen=True)
class ImitationLoss:
    """`grad_output` is d loss / d outputs ``[B, width]``. The loss is the mean of `rows` ``[B]``."""

    grad_output: Array
    rows: Array
    grad_log_std: None = None


class RecordedActions(NamedTuple):
    """The recorded actions of B rows as the `head` takes them, and which were `legal` ``[B, width]``, None for all."""

    head: Head
    continuous: bool
    actions: Array
    legal: NDArray[np.bool_] | None

    @classmethod
    def of(cls, context: Context[BcConfig], group: int) -> Self:
        """The loss of the rows that the group learns from."""
        batch, pool, agent = context.batch, pooling(context, group), members(context.team, group)[0]
        kind, masks = context.spec.classes[batch.place(agent)[0]], batch.masks
        legal = None if masks is None or kind.continuous else pool(lambda number: batch.of(masks, number))
        actions = pool(lambda number: batch.of(batch.actions, number))
        return cls(head_of(kind, stochastic=False), kind.continuous, actions, legal)

    def loss(self, outputs: Array, log_std: Array | None, rows: RowIndices) -> ImitationLoss:
        """The loss of the rows with the indices `rows`."""
        if self.continuous:
            return squared_error(outputs, self.actions[rows])
        return cross_entropy(self.head, outputs, self.actions[rows], None if self.legal is None else self.legal[rows])


def cross_entropy(head: Any, outputs: Array, actions: Array, legal: NDArray[np.bool_] | None) -> ImitationLoss:
    """Gradient of -mean(log p(a)) with illegal actions masked out."""
    distribution: Distribution = head
    masked_logits = mask_logits(outputs, legal)
    by_outputs, _ = distribution.log_probability_gradient(masked_logits, None, actions)
    return ImitationLoss(-by_outputs / len(outputs), -distribution.log_probability(masked_logits, None, actions))


def squared_error(outputs: Array, actions: Array) -> ImitationLoss:
    """Gradient of mean(Σ (tanh(output) - a)²), the sum over the d numbers of an action."""
    mean_actions = np.tanh(outputs)
    difference = mean_actions - actions.astype(outputs.dtype)
    gradient = 2 * difference * (1 - mean_actions * mean_actions) / len(outputs)
    return ImitationLoss(gradient, (difference * difference).sum(axis=-1))


def initialise(spec: EnvSpec, team: Team, config: BcConfig, seed: int, group: int) -> dict[str, Array]:
    """A group's network and moments at round 0."""
    part = NetworkPart("policy", observation_shape(spec, members(team, group)[0]), 0.01, acts=True)
    return new_network(
        config, part, policy_network(spec, team, config, group), group, generator(seed, "initialise", group)
    )


def policy(context: Context[BcConfig], group: int) -> StageResult:
    """Trains the group's policy on the round's recorded actions."""
    name, config, demonstrations = group_name(group), context.config, RecordedActions.of(context, group)
    network = Trainable.load(context, "policy", name)
    pieces = training_samples(
        context, group, network.weights, lambda agent: observations(context, agent), config.data_chunk_length
    )
    steps = last_epoch(network.learn(minibatches(pieces, context, "policy", group), demonstrations.loss), config.epochs)
    losses = _in_order(steps) if steps else np.zeros(0)  # no step if the whole group is dead
    metrics = ByAgent.of(members(context.team, group), learned_from(context, group)).means({"imitation_loss": losses})
    norm = mean_of_steps(step.norm for step in steps)
    return StageResult(network.tensors("policy", name), {**metrics, "policy_grad_norm": norm})


def _in_order(steps: Sequence[OptimiserStep[ImitationLoss]]) -> Array:
    """The loss of every row ``[rows]`` in one pass over the data, in the order of the rows."""
    order = np.argsort(np.concatenate([step.rows for step in steps]))
    return np.asarray(np.concatenate([step.loss.rows for step in steps])[order])


STAGES: Mapping[str, Stage] = {"policy": policy}
