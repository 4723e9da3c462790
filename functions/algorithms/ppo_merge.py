"""What a merge of groups changes in the networks of the PPO family beyond copying those of the base.

"Multi-Agent Reinforcement Learning with Serverless Computing" (SoCC 2025) makes one member's policy the policy of the
new group and leaves open what becomes of critics, normalisers and optimisers, and of what the other members had
learned. Here critics are grouped like policies, optimisers go on with the base's moments, the normaliser is estimated
anew on what all members are after, and the new networks can be taught what every member's own gave.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from functions.algorithms import distil
from functions.algorithms.base import Context, StageResult
from functions.algorithms.networks import Array, Mlp, forward, from_tensors, layers_of, to_tensors
from functions.algorithms.normaliser import Normaliser
from functions.algorithms.optimiser import Adam
from functions.algorithms.ppo import CriticView, Ppo, members, pooled, with_identity
from functions.contract import Team
from functions.keys import group_name
from functions.randomness import generator


class Estimates(NamedTuple):
    """Value targets and old values of the members' living rows, pooled, in units of the return ``[rows]`` float64."""

    targets: Array
    values: Array


class Lessons:
    """The pooled living rows of a new group's members, and which of them every step of a lesson takes."""

    def __init__(self, context: Context, group: int, steps: int) -> None:
        """`context.team` is the new team."""
        self.context, self.group = context, group
        alive = context.batch.alive[members(context.team, group)]
        rng = generator(context.seed, context.round, "distil", group)
        self._batches = distil.row_batches(int(alive.sum()), steps, rng)

    def teach(self, mlp: Mlp, flat: Array, inputs: Array, error: distil.Error) -> None:
        """Teaches the network in place, with moments of its own: those of the base are of another loss."""
        config, empty = self.context.config, (np.zeros_like(flat), np.zeros_like(flat))
        optimiser = Adam(flat, *empty, 0, distil.STEP_SIZE, config.adam_epsilon, config.norm_cap)
        distil.teach(mlp, optimiser, inputs, self._batches, error)

    def legal(self) -> NDArray[np.bool_] | None:
        """Which actions the members could take ``[rows, actions]``."""
        batch, masks = self.context.batch, self.context.batch.masks
        if masks is None:
            return None
        return pooled(self.context, self.group, lambda agent: _rows(batch.of(masks, agent)))


class Merging:
    """Merges groups of a PPO algorithm whose critic sees what `view` gives it."""

    def __init__(self, view: CriticView) -> None:
        self._view, self._ppo = view, Ppo(view)

    def merge(self, context: Context, target: Team, group: int, base: int, distil_steps: int) -> StageResult:
        """Normaliser, critic and, where there are lessons, policy of `group`; see `base.Implementation.merge`.

        The critic is scaled so that its denormalised values stay what they were although the normaliser changes
        (van Hasselt et al., "Learning values across many orders of magnitude", 2016).
        """
        name = group_name(group)
        known = self._estimates(context, members(target, group))
        before = Normaliser(*context.tensors[f"normaliser/{group_name(base)}"].tolist())
        after = estimated(known.targets, before.weight)
        mlp, critic = from_tensors(context.tensors, f"critic/{group_name(base)}")
        preserve(mlp, critic, before, after)
        made = {f"normaliser/{name}": np.array([after.mean, after.square, after.weight])}
        figures: dict[str, float] = {}
        if distil_steps:
            lessons = Lessons(replace(context, team=target), group, distil_steps)
            self._teach(lessons, mlp, critic, after.normalise(known.values))
            policy, figures = taught_policy(lessons, base)
            made |= policy
        return StageResult(made | to_tensors(mlp, critic, f"critic/{name}"), figures)

    def _teach(self, lessons: Lessons, mlp: Mlp, critic: Array, values: Array) -> None:
        """Teaches the flat `critic` in place to give `values` for the members' rows."""
        context, aim = lessons.context, values.astype(critic.dtype)[:, None]

        def seen(agent: int) -> Array:
            return with_identity(context, agent, self._view.inputs(context.batch, agent)[0])

        inputs = pooled(context, lessons.group, seen)
        lessons.teach(mlp, critic, inputs, lambda found, rows: distil.squared_error(found, aim[rows]))

    def _estimates(self, context: Context, agents: list[int]) -> Estimates:
        targets, values = [], []
        for agent in agents:
            name = group_name(agent)
            found = self._ppo.postprocess(context, agent).tensors
            old, updated = (Normaliser(*tensors[f"normaliser/{name}"].tolist()) for tensors in (context.tensors, found))
            targets.append(updated.denormalise(found[f"target/{name}"].astype(np.float64)))
            values.append(old.denormalise(found[f"value/{name}"].astype(np.float64)))
        return Estimates(np.concatenate(targets), np.concatenate(values))


def estimated(targets: Array, weight: float) -> Normaliser:
    """The normaliser of exactly `targets`, which forgets as one of `weight` does."""
    return Normaliser(weight * float(targets.mean()), weight * float(np.square(targets).mean()), weight)


def preserve(mlp: Mlp, critic: Array, before: Normaliser, after: Normaliser) -> None:
    """Scales the last layer of the flat `critic` in place: what `after` makes of it is what `before` made of it."""
    weight, bias = mlp.layers(critic)[-1]
    weight[...] = weight * (before.scale / after.scale)
    bias[...] = after.normalise(before.denormalise(bias.astype(np.float64)))


def taught_policy(lessons: Lessons, base: int) -> tuple[dict[str, Array], dict[str, float]]:
    """The base's policy taught to act for every member as the member's own policy does, and how far it is from that."""
    context, group, legal = lessons.context, lessons.group, lessons.legal()
    batch, tensors = context.batch, context.tensors

    def seen(agent: int) -> Array:
        return with_identity(context, agent, batch.of(batch.observations, agent))

    def own(agent: int) -> Array:
        return forward(layers_of(tensors, f"policy/{group_name(agent)}"), seen(agent))[-1]

    inputs, log_taught = pooled(context, group, seen), distil.log_probabilities(pooled(context, group, own), legal)
    mlp, flat = from_tensors(tensors, f"policy/{group_name(base)}")
    taught = np.exp(log_taught)

    def error(logits: Array, rows: NDArray[np.int64]) -> Array:
        return distil.imitation_error(logits, taught[rows], None if legal is None else legal[rows])

    def distance() -> float:
        found = distil.log_probabilities(forward(mlp.layers(flat), inputs)[-1], legal)
        return distil.divergence(log_taught, found)

    before = distance()
    lessons.teach(mlp, flat, inputs, error)
    figures = {"distil_kl_before": before, "distil_kl_after": distance()}
    return to_tensors(mlp, flat, f"policy/{group_name(group)}"), figures


def _rows(array: Array) -> Array:
    return array.reshape(-1, array.shape[-1])
