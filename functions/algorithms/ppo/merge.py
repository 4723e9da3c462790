"""Merge groups of the PPO family: change their networks beyond copying the base's.

"Multi-Agent Reinforcement Learning with Serverless Computing" (SoCC 2025) makes one member's policy the policy of the
new group. It leaves open critics, normalisers, optimisers and the other members' knowledge. Here critics are grouped
like policies, and optimisers keep the base's moments. The normaliser is estimated from all members' value targets. The
new networks can be distilled from every member's networks.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from marless.functions.algorithms.agent_inputs import CriticView, members
from marless.functions.algorithms.engine import LossOf, OptimiserSettings, engine_of, weights_of
from marless.functions.algorithms.group_inputs import observations, pool_rows, starts
from marless.functions.algorithms.minibatches import Minibatches, PassOrder, RowIndices, Samples, training_samples
from marless.functions.algorithms.ppo import distil
from marless.functions.algorithms.ppo.ppo import Ppo, learning_signal
from marless.functions.algorithms.ppo.specs import PpoConfig
from marless.functions.algorithms.stage import Context, StageResult, Tensors, within
from marless.functions.algorithms.trainable import Trainable, outputs
from marless.functions.keys import group_name
from marless.functions.messages.team import Team
from marless.functions.nn import recurrent
from marless.functions.nn.heads import distribution
from marless.functions.nn.layers import Array
from marless.functions.nn.networks import Weights, unroll
from marless.functions.nn.normaliser import SEEN, Normaliser
from marless.functions.nn.shape import SHAPE, Network
from marless.functions.randomness import generator


class MemberValues(NamedTuple):
    """Value targets and old values ``[rows]`` of all living members, float64 in units of the return."""

    targets: Array
    values: Array


class Distillation:
    """The pooled rows of a new group's living members, and the minibatches of distillation.

    In `context` they are members of the new team, with inputs normalised by the base's statistics. In `apart` each is a
    group with its old networks.
    """

    def __init__(self, apart: Context[PpoConfig], target: Team, group: int, base: int, steps: int) -> None:
        statistics = _statistics_as(apart.tensors, group_name(base), group_name(group))
        context = replace(apart, team=target, tensors={**apart.tensors, **statistics})
        self.apart, self.context, self.group = apart, context, group
        alive = context.batch.alive[members(context.team, group)]
        rng = generator(context.seed, context.round, "distil", group)
        if context.config.recurrent:  # whole rollouts, so that hidden states always come from the current weights
            count, most = int(alive.any(axis=1).sum()), max(1, distil.ROWS // alive.shape[1])
        else:
            count, most = int(alive.sum()), distil.ROWS
        self._batches = distil.row_batches(count, steps, rng, most)

    def pieces(self, weights: Weights, of: Callable[[int], Array]) -> Samples:
        """The rows with the network inputs ``of(agent)`` ``[T, E, F]``."""
        return training_samples(self.context, self.group, weights, of)

    def student(self, tensors: Tensors, part: str, name: str) -> Trainable:
        """The network `<part>/<name>` with new moments, since the base's moments belong to another loss."""
        config = self.context.config
        settings = OptimiserSettings(distil.STEP_SIZE, config.adam_eps, config.max_grad_norm)
        return Trainable(engine_of(config).descent(tensors, f"{part}/{name}", settings))

    def train(self, student: Trainable, pieces: Samples, loss_of: LossOf[distil.DistilLoss]) -> None:
        """Trains the network on the rows."""
        student.learn(Minibatches(pieces, (PassOrder(batch, (0, len(batch))) for batch in self._batches)), loss_of)

    def legal(self) -> NDArray[np.bool_] | None:
        """The members' legal actions ``[rows, actions]``."""
        batch, masks = self.context.batch, self.context.batch.masks
        if masks is None:
            return None
        return pool_rows(self.context, self.group, lambda agent: batch.of(masks, agent))


@dataclass(frozen=True)
class Merging:
    """Merges groups of a PPO algorithm. Its critic has the inputs of `view`."""

    view: CriticView

    def merge(self, context: Context[PpoConfig], target: Team, group: int, base: int, distil_steps: int) -> StageResult:
        """Normaliser, critic and, with distillation, policy of `group`. See `stage.Merge`.

        The critic is rescaled so that its denormalised values stay the same (van Hasselt et al., "Learning values
        across many orders of magnitude", 2016).
        """
        name = group_name(group)
        estimates = self._estimates(context, members(target, group))
        before = Normaliser(*context.tensors[f"normaliser/{group_name(base)}"].tolist())
        after = normaliser_of(estimates.targets, before.weight)
        tensors = _critic_of(context, base, name, before, after)
        tensors[f"normaliser/{name}"] = np.array([after.mean, after.square, after.weight])
        metrics: dict[str, float] = {}
        if distil_steps:
            distillation = Distillation(context, target, group, base, distil_steps)
            tensors |= self._distilled_critic(distillation, tensors, after.normalise(estimates.values))
            policy, metrics = distilled_policy(distillation, base)
            tensors |= policy
        return StageResult(tensors, metrics)

    def _distilled_critic(self, distillation: Distillation, tensors: Tensors, values: Array) -> dict[str, Array]:
        name = group_name(distillation.group)
        student = distillation.student(tensors, "critic", name)
        aim = values.astype(student.weights.dtype)[:, None]

        def loss(outputs: Array, log_std: Array | None, rows: RowIndices) -> distil.DistilLoss:
            return distil.DistilLoss(distil.squared_error(outputs, aim[rows]))

        context, ppo = distillation.context, Ppo(self.view)
        pieces = distillation.pieces(student.weights, lambda agent: ppo.inputs(context, agent)[0])
        distillation.train(student, pieces, loss)
        return student.network("critic", name)

    def _estimates(self, context: Context[PpoConfig], agents: list[int]) -> MemberValues:
        targets, values = [], []
        for agent in agents:
            name = group_name(agent)
            after = Ppo(self.view).postprocess(context, agent).tensors
            old, new = (Normaliser(*tensors[f"normaliser/{name}"].tolist()) for tensors in (context.tensors, after))
            living = context.batch.alive[[agent]][learning_signal(context, agent).loss_mask]
            targets.append(new.denormalise(after[f"target/{name}"][living].astype(np.float64)))
            values.append(old.denormalise(after[f"value/{name}"][living].astype(np.float64)))
        return MemberValues(np.concatenate(targets), np.concatenate(values))


def _critic_of(
    context: Context[PpoConfig], base: int, name: str, before: Normaliser, after: Normaliser
) -> dict[str, Array]:
    """The critic of `base` for the group `name`, with unchanged values.

    A critic of a factory stays as it is, so that its values are wrong until it is distilled.
    """
    old = within(context.tensors, f"critic/{group_name(base)}")
    critic = {f"critic/{name}/{key}": array for key, array in old.items()}
    if f"critic/{name}/{SHAPE}" in critic:
        return critic
    network, flat = recurrent.from_tensors(critic, f"critic/{name}")
    preserve(network, flat, before, after)
    return recurrent.to_tensors(network, flat, f"critic/{name}")


def _statistics_as(tensors: Tensors, base: str, name: str) -> dict[str, Array]:
    parts = [part for part in ("policy", "critic") if f"{part}/{base}/{SEEN}" in tensors]
    return {f"{part}/{name}/{SEEN}": tensors[f"{part}/{base}/{SEEN}"] for part in parts}


def normaliser_of(targets: Array, weight: float) -> Normaliser:
    """The normaliser with the statistics of `targets`, and with this `weight`."""
    return Normaliser(weight * float(targets.mean()), weight * float(np.square(targets).mean()), weight)


def preserve(network: Network, critic: Array, before: Normaliser, after: Normaliser) -> None:
    """Rescales the last layer of the flat `critic` in place, so that `after` denormalises to the values of `before`."""
    weight, bias = network.layers(critic)[-1].arrays
    weight[...] = weight * (before.scale / after.scale)
    bias[...] = after.normalise(before.denormalise(bias.astype(np.float64)))


def distilled_policy(distillation: Distillation, base: int) -> tuple[dict[str, Array], dict[str, float]]:
    """The base's policy distilled from every member's own policy, and its distance from them before and after."""
    context, group = distillation.context, distillation.group
    distil_target = _target(distillation)
    student = distillation.student(distillation.apart.tensors, "policy", group_name(base))
    pieces = distillation.pieces(student.weights, lambda agent: observations(context, agent))

    def distance() -> float:
        return distil_target.divergence(outputs(student.weights, pieces), student.weights.log_std)

    before = distance()
    distillation.train(student, pieces, distil_target.loss)
    metrics = {"distil_kl_before": before, "distil_kl_after": distance()}
    return student.network("policy", group_name(group)), metrics


def _target(distillation: Distillation) -> distil.DistilTarget:
    context, apart, group = distillation.context, distillation.apart, distillation.group
    kind, _ = context.batch.place(members(context.team, group)[0])

    def policy_of(agent: int) -> Weights:
        return weights_of(apart, f"policy/{group_name(agent)}")

    def policy_outputs(agent: int) -> Array:
        return unroll(policy_of(agent), observations(apart, agent), starts(apart))[0]

    def spread(agent: int) -> Array:
        return np.tile(np.asarray(policy_of(agent).log_std), (*context.batch.ended.shape, 1))

    head = distribution(context.spec.classes[kind])
    log_std = pool_rows(context, group, spread) if head.log_std_size else None
    return distil.distil_target(head, pool_rows(context, group, policy_outputs), log_std, distillation.legal())
