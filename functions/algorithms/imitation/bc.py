"""Behaviour cloning: every group's policy learns the actions that were recorded for its agents.

Pomerleau, "ALVINN: An Autonomous Land Vehicle in a Neural Network", NIPS 1988, as supervised learning in minibatches.
The loss of choices is the cross entropy, summed over several choices; that of numbers the squared error of tanh of the
outputs, in [-1, 1], summed over them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from functions.algorithms.chunks import RowIndices, training_samples
from functions.algorithms.metrics import ByAgent
from functions.algorithms.new_networks import Part, new_network
from functions.algorithms.off_policy.replay import Count
from functions.algorithms.rows import learned_from, members, observation_shape, observations, pooling
from functions.algorithms.specification import AlgorithmSpec, NetworkConfig, StageSpec
from functions.algorithms.stage import Context, Stage, StageResult, Summary, as_base
from functions.algorithms.trainable import Trainable, last_epoch, minibatches, trained_bytes
from functions.bounds import LARGEST, LARGEST_STEP, MOST_EPOCHS, MOST_LAYERS, MOST_STEPS, MOST_UPDATES
from functions.contract import SummaryName, Team
from functions.environments.base import EnvSpec
from functions.keys import group_name
from functions.nn.heads import Distribution, Head, head_of
from functions.nn.losses import mask_logits
from functions.nn.mlp import Array
from functions.nn.shape import Network
from functions.randomness import generator

PARTS = ("policy", "policy_optimiser")


class BcConfig(NetworkConfig, frozen=True, kw_only=True, tag_field="name", tag="bc"):
    """Behaviour cloning."""

    lr: Annotated[float, Meta(gt=0, le=LARGEST_STEP, description="Adam's step")] = 1e-3
    epochs: Annotated[int, Meta(ge=1, le=MOST_EPOCHS, description="passes over the round's data")] = 1
    num_minibatches: Annotated[int, Meta(ge=1, le=MOST_UPDATES, description="optimiser steps per pass")] = 8
    max_grad_norm: Annotated[float, Meta(gt=0, le=LARGEST, description="cap on each network's gradient norm")] = 10.0
    adam_eps: Annotated[float, Meta(gt=0, le=LARGEST, description="Adam's denominator guard")] = 1e-5
    hidden: Annotated[
        tuple[Count, ...], Meta(min_length=1, max_length=MOST_LAYERS, description="widths of the hidden layers")
    ] = (64, 64)
    recurrent: Annotated[bool, Meta(description="the last hidden layer is recurrent (a GRU)")] = False
    data_chunk_length: Annotated[
        int, Meta(ge=1, le=MOST_STEPS, description="steps that a recurrent network's gradients go back through")
    ] = 10
    layer_norm: Annotated[bool, Meta(description="hidden layers are normalised (LayerNorm)")] = False


@dataclass(frozen=True)
class ImitationLoss:
    """`grad_output` is d loss / d outputs ``[B, width]``; `rows` ``[B]`` have the loss as their mean."""

    grad_output: Array
    rows: Array
    grad_log_std: None = None


class Recorded(NamedTuple):
    """The recorded actions of B rows as the `head` takes them, and which were `legal` ``[B, width]``, None for all."""

    head: Head
    continuous: bool
    actions: Array
    legal: NDArray[np.bool_] | None

    @classmethod
    def of(cls, context: Context[BcConfig], group: int) -> Self:
        """Those of the rows that the group learns from."""
        batch, joined, agent = context.batch, pooling(context, group), members(context.team, group)[0]
        kind, masks = context.spec.classes[batch.place(agent)[0]], batch.masks
        legal = None if masks is None or kind.continuous else joined(lambda one: batch.of(masks, one))
        actions = joined(lambda one: batch.of(batch.actions, one))
        return cls(head_of(kind, stochastic=False), kind.continuous, actions, legal)

    def loss(self, outputs: Array, log_std: Array | None, rows: RowIndices) -> ImitationLoss:
        """The loss of the rows with the indices `rows`."""
        if self.continuous:
            return squared_error(outputs, self.actions[rows])
        legal = None if self.legal is None else self.legal[rows]
        return cross_entropy(self.head, outputs, self.actions[rows], legal)


def cross_entropy(head: Any, outputs: Array, actions: Array, legal: NDArray[np.bool_] | None) -> ImitationLoss:
    """Gradient of -mean(log p(a)) with illegal actions masked out."""
    distribution: Distribution = head
    masked = mask_logits(outputs, legal)
    by_outputs, _ = distribution.log_probability_gradient(masked, None, actions)
    return ImitationLoss(-by_outputs / len(outputs), -distribution.log_probability(masked, None, actions))


def squared_error(outputs: Array, actions: Array) -> ImitationLoss:
    """Gradient of mean(Σ (tanh(output) - a)²), the sum over the d numbers of an action."""
    played = np.tanh(outputs)
    difference = played - actions.astype(outputs.dtype)
    gradient = 2 * difference * (1 - played * played) / len(outputs)
    return ImitationLoss(gradient, (difference * difference).sum(axis=-1))


def initialise(spec: EnvSpec, team: Team, config: BcConfig, seed: int, group: int) -> dict[str, Array]:
    """A group's network and moments at round 0."""
    part = Part("policy", observation_shape(spec, members(team, group)[0]), 0.01, acts=True)
    return new_network(config, part, _network(spec, team, config, group), group, generator(seed, "initialise", group))


def part_bytes(spec: EnvSpec, team: Team, config: BcConfig, group: int) -> dict[str, int]:
    """The bytes of network and moments."""
    if config.network != "mlp":
        return {}  # which only its factory knows
    return trained_bytes("policy", _network(spec, team, config, group).parameters)


def _network(spec: EnvSpec, team: Team, config: BcConfig, group: int) -> Network:
    kind = spec.classes[spec.class_of[members(team, group)[0]]]
    width = kind.observation_size + (len(spec.agents) if team.identity else 0)
    return Network((width, *config.hidden, kind.actions), config.recurrent, layer_norm=config.layer_norm)


def policy(context: Context[BcConfig], group: int) -> StageResult:
    """Trains the group's policy on the round's recorded actions."""
    name, config, recorded = group_name(group), context.config, Recorded.of(context, group)
    network = Trainable.load(context, "policy", name)
    pieces = training_samples(
        context, group, network.weights, lambda agent: observations(context, agent), config.data_chunk_length
    )
    steps = last_epoch(network.learn(minibatches(pieces, context, "policy", group), recorded.loss), config.epochs)
    order = np.argsort(np.concatenate([step.rows for step in steps]))
    rows = {"imitation_loss": np.concatenate([step.loss.rows for step in steps])[order]}
    metrics = ByAgent.of(members(context.team, group), learned_from(context, group)).means(rows)
    norm = float(np.mean([step.norm for step in steps]))
    return StageResult(network.tensors("policy", name), {**metrics, "policy_grad_norm": norm})


STAGES: Mapping[str, Stage] = {"policy": policy}
SUMMARIES: Mapping[SummaryName, Summary] = {}
merge = as_base
SPEC = AlgorithmSpec(
    "bc",
    BcConfig,
    (StageSpec("policy", (), "group", PARTS, PARTS),),
    PARTS,
    __name__,
    part_bytes=part_bytes,
    member_rows=True,
    imitates=True,
)
