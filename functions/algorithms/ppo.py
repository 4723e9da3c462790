"""The PPO family as a stage graph: post-process, then critic and policy side by side.

Values, advantages and targets are computed once with the round's incoming weights and normaliser; the normaliser then
updates once; critic and policy then train independently, each with an optimiser and a norm cap of its own. Schulman et
al., 2017; the details after Huang et al., "The 37 Implementation Details of PPO", 2022, and Yu et al., "The Surprising
Effectiveness of PPO in Cooperative Multi-Agent Games", 2022.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Annotated, Any, NamedTuple, Self

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from functions.algorithms.advantages import gae
from functions.algorithms.base import AlgorithmConfig, Context, Stage, StageResult, StageSpec
from functions.algorithms.losses import PolicyLoss, clipped_policy_loss, clipped_value_loss
from functions.algorithms.networks import Mlp, backward, forward, from_tensors, initialise, layers_of, to_tensors
from functions.algorithms.normaliser import Normaliser
from functions.algorithms.optimiser import Adam
from functions.contract import Team
from functions.environments.base import Spec
from functions.keys import group_name
from functions.learner.batch import Batch
from functions.randomness import generator

Array = NDArray[Any]
Count = Annotated[int, Meta(ge=1)]


class PpoConfig(AlgorithmConfig, frozen=True, kw_only=True):
    """The settings of the PPO family.

    MPE needs a short horizon: with gamma 0.99 separate networks sit on a plateau for a time that depends on the seed.
    """

    lr: Annotated[float, Meta(gt=0, description="Adam's step; default 1e-3, 7e-4 from six agents on")] | None = None
    gamma: Annotated[float, Meta(ge=0, le=1, description="discount per environment step")] = 0.9
    gae_lambda: Annotated[float, Meta(ge=0, le=1, description="λ of generalised advantage estimation")] = 0.95
    clip: Annotated[float, Meta(gt=0, description="how far the probability ratio may move from 1")] = 0.2
    entropy: Annotated[float, Meta(ge=0, description="weight of the entropy bonus")] = 0.01
    epochs: Annotated[int, Meta(ge=1, description="passes over the round's data")] = 4
    minibatches: Annotated[int, Meta(ge=1, description="optimiser steps per pass")] = 8
    value_clip: Annotated[float, Meta(gt=0, description="how far a value may move, in normalised units")] = 0.2
    huber: Annotated[float, Meta(gt=0, description="where the value loss turns linear, in normalised units")] = 10.0
    value_decay: Annotated[float, Meta(ge=0, lt=1, description="memory of the value normaliser per round")] = 0.99
    norm_cap: Annotated[float, Meta(gt=0, description="cap on each network's gradient norm")] = 10.0
    adam_epsilon: Annotated[float, Meta(gt=0, description="Adam's denominator guard")] = 1e-5
    hidden: Annotated[tuple[Count, ...], Meta(min_length=1, description="widths of the tanh layers")] = (
        64,
        64,
    )

    def resolved(self, agents: int) -> Self:
        """Fills in the step size: larger teams move each other's targets, so they step more carefully."""
        return self if self.lr is not None else msgspec.structs.replace(self, lr=1e-3 if agents < 6 else 7e-4)


PPO_PARTS = ("policy", "policy_optimiser", "critic", "critic_optimiser", "normaliser")
PPO_STAGES = (
    StageSpec("postprocess", (), "team", reads=("critic", "normaliser"), writes=("normaliser",)),
    StageSpec("critic", ("postprocess",), "group", ("critic", "critic_optimiser"), ("critic", "critic_optimiser")),
    StageSpec("policy", ("postprocess",), "group", ("policy", "policy_optimiser"), ("policy", "policy_optimiser")),
)


class CriticView(NamedTuple):
    """What an algorithm's critic sees: its width for an agent, and its inputs ``[T, E, width]`` and, after each cut,
    ``[K, width]``; the one-hot identity is added here."""

    width: Callable[[Spec, int], int]
    inputs: Callable[[Batch, int], tuple[Array, Array]]


class Ppo:
    """The stages of a PPO algorithm whose critic sees what `view` gives it."""

    def __init__(self, view: CriticView) -> None:
        self._view = view
        self.stages: dict[str, Stage] = {"postprocess": self.postprocess, "critic": self.critic, "policy": policy}

    def initialise(self, spec: Spec, team: Team, config: PpoConfig, seed: int, group: int) -> dict[str, Array]:
        """Networks, empty optimiser moments and normaliser of a group at round 0."""
        agent = members(team, group)[0]
        kind = next(kind for kind in spec.classes if agent in kind.agents)
        identity = len(spec.agents) if team.identity else 0
        name, rng = group_name(group), generator(seed, "initialise", group)
        actor = Mlp((kind.observation_size + identity, *config.hidden, kind.actions))
        critic = Mlp((self._view.width(spec, agent) + identity, *config.hidden, 1))
        return {
            **to_tensors(actor, initialise(actor, rng, output_gain=0.01), f"policy/{name}"),
            **to_tensors(critic, initialise(critic, rng, output_gain=1.0), f"critic/{name}"),
            **_moments(f"policy_optimiser/{name}", actor.parameters),
            **_moments(f"critic_optimiser/{name}", critic.parameters),
            f"normaliser/{name}": np.zeros(3),
        }

    def postprocess(self, context: Context, group: int) -> StageResult:
        """Advantages ``[rows]``, normalised value targets and old values of the group's living rows."""
        name, config, batch = group_name(group), context.config, context.batch
        agents = members(context.team, group)
        normaliser = Normaliser(*context.tensors[f"normaliser/{name}"].tolist())
        layers = layers_of(context.tensors, f"critic/{name}")
        raw, after = [], []
        for agent in agents:
            inputs, cut = self._inputs(context, agent)
            raw.append(forward(layers, inputs)[-1].reshape(batch.ended.shape))
            after.append(forward(layers, cut)[-1][:, 0])
        values = normaliser.denormalise(np.stack(raw).astype(np.float64))
        following = next_values(values, normaliser.denormalise(np.stack(after).astype(np.float64)), batch.cut)
        advantages = gae(
            batch.rewards[agents].astype(np.float64),
            values,
            following,
            batch.terminated[agents],
            batch.ended,
            config.gamma,
            config.gae_lambda,
        )
        alive = batch.alive[agents].ravel()
        targets = (advantages + values).ravel()[alive]
        advantage = advantages.ravel()[alive]
        spread = float(advantage.std())
        updated = normaliser.updated(targets, config.value_decay)
        precision = raw[0].dtype  # the statistics need float64, the training goes on in that of the weights
        return StageResult(
            {
                f"advantage/{name}": ((advantage - advantage.mean()) / (spread + 1e-8)).astype(precision),
                f"target/{name}": updated.normalise(targets).astype(precision),
                f"value/{name}": np.stack(raw).ravel()[alive],
                f"normaliser/{name}": np.array([updated.mean, updated.square, updated.weight]),
            },
            {"explained_variance": _explained_variance(values.ravel()[alive], targets), "advantage_spread": spread},
        )

    def critic(self, context: Context, group: int) -> StageResult:
        """Trains the group's critic on the targets of `postprocess`."""
        name, config = group_name(group), context.config
        inputs = pooled(context, group, lambda agent: self._inputs(context, agent)[0])
        network = Trainable.load(context, "critic", name)
        old_values, targets = context.tensors[f"value/{name}"], context.tensors[f"target/{name}"]
        losses = []
        for rows, x in minibatches(inputs, context, "critic", group):
            activations = forward(network.layers, x)
            loss = clipped_value_loss(
                activations[-1][:, 0], old_values[rows], targets[rows], config.value_clip, config.huber
            )
            backward(network.layers, activations, loss.error, network.gradient_layers)
            network.optimiser.step(network.gradient)
            losses.append(loss)
        last_epoch = losses[-(len(losses) // config.epochs) :]
        return StageResult(
            network.tensors("critic", name), {"value_loss": float(np.mean([loss.loss for loss in last_epoch]))}
        )

    def _inputs(self, context: Context, agent: int) -> tuple[Array, Array]:
        """The critic's inputs ``[T * E, width]`` and ``[K, width]``, identity included."""
        inputs, cut = self._view.inputs(context.batch, agent)
        return with_identity(context, agent, inputs), with_identity(context, agent, cut)


def policy(context: Context, group: int) -> StageResult:
    """Trains the group's policy on the advantages of `postprocess`."""
    name, config = group_name(group), context.config
    known = PolicyRows.living(context, group)
    network = Trainable.load(context, "policy", name)
    losses = []
    for rows, x in minibatches(known.inputs, context, "policy", group):
        activations = forward(network.layers, x)
        loss = known.loss(activations[-1], rows, config)
        backward(network.layers, activations, loss.error, network.gradient_layers)
        network.optimiser.step(network.gradient)
        losses.append(loss)
    last_epoch = losses[-(len(losses) // config.epochs) :]
    return StageResult(
        network.tensors("policy", name),
        {
            "policy_loss": float(np.mean([loss.surrogate for loss in last_epoch])),
            "entropy": float(np.mean([loss.entropy for loss in last_epoch])),
            "clip_fraction": float(np.mean([loss.clip_fraction for loss in last_epoch])),
            "kl": float(np.mean([loss.kl for loss in last_epoch])),
        },
    )


class PolicyRows(NamedTuple):
    """What the policy's loss reads of B rows: `inputs` ``[B, F]``, `legal` ``[B, actions]`` or none, others ``[B]``."""

    inputs: Array
    actions: Array
    log_probability: Array
    advantage: Array
    legal: Array | None

    @classmethod
    def living(cls, context: Context, group: int) -> Self:
        """The group's living rows, with the advantages of `postprocess`."""
        batch, masks, joined = context.batch, context.batch.masks, pooling(context, group)
        return cls(
            inputs=joined(lambda agent: with_identity(context, agent, batch.of(batch.observations, agent))),
            actions=joined(lambda agent: batch.of(batch.actions, agent).ravel()),
            log_probability=joined(lambda agent: batch.of(batch.log_probability, agent).ravel()),
            advantage=context.tensors[f"advantage/{group_name(group)}"],
            legal=None if masks is None else joined(lambda agent: _rows(batch.of(masks, agent))),
        )

    def loss(self, logits: Array, rows: NDArray[np.integer], config: PpoConfig) -> PolicyLoss:
        """What the policy is trained on, for the `logits` of the rows with the numbers `rows`."""
        return clipped_policy_loss(
            logits,
            self.actions[rows],
            self.log_probability[rows],
            self.advantage[rows],
            config.clip,
            config.entropy,
            None if self.legal is None else self.legal[rows],
        )


class Trainable:
    """A network being trained: parameters, gradient and optimiser on flat vectors."""

    def __init__(self, mlp: Mlp, optimiser: Adam) -> None:
        self._mlp, self.optimiser = mlp, optimiser
        self.gradient = np.zeros_like(optimiser.parameters)
        self.layers, self.gradient_layers = mlp.layers(optimiser.parameters), mlp.layers(self.gradient)

    @classmethod
    def load(cls, context: Context, part: str, name: str) -> Self:
        """The network `<part>/<name>` and its moments, copied out of the context's tensors."""
        mlp, flat = from_tensors(context.tensors, f"{part}/{name}")
        prefix, config = f"{part}_optimiser/{name}", context.config
        first, second = (np.array(context.tensors[f"{prefix}/{moment}"]) for moment in ("first", "second"))
        steps = int(context.tensors[f"{prefix}/steps"][0])
        return cls(mlp, Adam(flat, first, second, steps, config.lr, config.adam_epsilon, config.norm_cap))

    def tensors(self, part: str, name: str) -> dict[str, Array]:
        """The network and its moments by name."""
        prefix = f"{part}_optimiser/{name}"
        return {
            **to_tensors(self._mlp, self.optimiser.parameters, f"{part}/{name}"),
            f"{prefix}/first": self.optimiser.first,
            f"{prefix}/second": self.optimiser.second,
            f"{prefix}/steps": np.array([self.optimiser.steps], np.int64),
        }


def members(team: Team, group: int) -> list[int]:
    """The agents of a group, ascending."""
    return [agent for agent, of in enumerate(team.groups) if of == group]


def with_identity(context: Context, agent: int, inputs: Array) -> Array:
    """Rows ``[..., F]`` as ``[rows, F]``, with the agent's one-hot appended where the team uses identities."""
    rows = _rows(inputs)
    if not context.team.identity:
        return rows
    one_hot = np.zeros((len(rows), len(context.spec.agents)), rows.dtype)
    one_hot[:, agent] = 1
    return np.concatenate([rows, one_hot], axis=1)


def pooled(context: Context, group: int, of: Callable[[int], Array]) -> Array:
    """The rows of all the group's agents, one after the other, without those where the agent was not alive."""
    return pooling(context, group)(of)


def pooling(context: Context, group: int) -> Callable[[Callable[[int], Array]], Array]:
    """`pooled` for several kinds of rows of one group."""
    agents = members(context.team, group)
    alive = context.batch.alive[agents].ravel()
    everyone = bool(alive.all())

    def joined(of: Callable[[int], Array]) -> Array:
        parts = [of(agent) for agent in agents]
        rows = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return rows if everyone else rows[alive]

    return joined


def next_values(values: Array, after_cut: Array, cut: Array) -> Array:
    """V(s_{t+1}) for ``values [n, T, E]``: the next row, or what stands after the cut ``[n, K]`` at its (t, e)."""
    following = np.empty_like(values)
    following[:, :-1] = values[:, 1:]
    following[:, -1] = 0.0
    following[:, cut[:, 0], cut[:, 1]] = after_cut
    return following


def minibatches(inputs: Array, context: Context, stage: str, group: int) -> Iterator[tuple[Array, Array]]:
    """Row numbers and inputs of every minibatch of every epoch, shuffled at the address (seed, round, stage, group)."""
    rng = generator(context.seed, context.round, stage, group)
    config = context.config
    count = min(config.minibatches, len(inputs))  # none is empty: the mean over no rows is not a number
    for _ in range(config.epochs):
        order = rng.permutation(len(inputs))
        shuffled = np.take(inputs, order, axis=0)
        bounds = np.linspace(0, len(order), count + 1).astype(int)
        for start, end in itertools.pairwise(bounds):
            yield order[start:end], shuffled[start:end]


def _rows(array: Array) -> Array:
    return array.reshape(-1, array.shape[-1])


def _moments(prefix: str, size: int) -> dict[str, Array]:
    return {
        f"{prefix}/first": np.zeros(size, np.float32),
        f"{prefix}/second": np.zeros(size, np.float32),
        f"{prefix}/steps": np.zeros(1, np.int64),
    }


def _explained_variance(values: Array, targets: Array) -> float:
    return float(1 - np.var(targets - values) / max(float(np.var(targets)), 1e-12))
