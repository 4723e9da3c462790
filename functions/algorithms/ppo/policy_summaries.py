"""Summaries that learners of the PPO family report of their policies.

Distances between policies are computed from `behaviour`, `gaussian` and `density`. `curvature` and `noise` estimate how
much data a policy can use. `rewards` tells members of a group apart by their rewards. Observations for comparing agents
are drawn at an address of the round and the class alone, so independent learners report on the same observations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from marless.functions.algorithms import reward_models, team_reward_models
from marless.functions.algorithms.advantages import team_rewards
from marless.functions.algorithms.agent_inputs import members
from marless.functions.algorithms.engine import engine_of, weights_of
from marless.functions.algorithms.group_inputs import normalise, observations, pool_rows, starts, with_identity
from marless.functions.algorithms.ppo.correction import is_corrected
from marless.functions.algorithms.ppo.curvature import (
    Derivatives,
    DifferenceHessian,
    Hessian,
    extremes,
    policy_derivatives,
)
from marless.functions.algorithms.ppo.distil import branchwise
from marless.functions.algorithms.ppo.gradient_noise import noise_estimate, sample_blocks
from marless.functions.algorithms.ppo.ppo import policy_loss, policy_samples
from marless.functions.algorithms.ppo.specs import PpoConfig
from marless.functions.algorithms.stage import Context, PolicySummary, SummaryResult, Tensors, within
from marless.functions.environments.base import AgentClass
from marless.functions.keys import group_name
from marless.functions.messages.learner import COMPARED_OBSERVATIONS, DENSITY_DIMENSIONS, DENSITY_SAMPLES, SummaryName
from marless.functions.nn import recurrent
from marless.functions.nn.continuous import Bounds, Gaussian
from marless.functions.nn.discrete import OneChoice
from marless.functions.nn.layers import Array, Linear, Tanh
from marless.functions.nn.losses import ClippedPolicyLoss
from marless.functions.nn.networks import Weights
from marless.functions.nn.shape import SHAPE
from marless.functions.randomness import generator

# The curvature is computed on one in `ONE_IN` of the group's rows, at least `LEAST`. Lanczos' method ends after
# `PRODUCTS` products, or at a residual of `RESIDUAL` that decreases with the number of rows. It takes a twentieth of
# the time of a learner of 1,600 rows.
ONE_IN, LEAST = 100, 16
PRODUCTS, RESIDUAL = 16, 0.3


def behaviour(before: Context[PpoConfig], after: Tensors, group: int) -> SummaryResult:
    """Action probabilities ``[256, actions]`` of every member's new policy on the observations of its class.

    The observations are drawn equally from all agents of the class, living ones first. Every member's policy gets each
    of them with the member's one-hot and the actions that were legal there. A recurrent policy also gets the earlier
    steps of the episode. The probabilities of several choices are divided by the number of choices, so that they sum to
    1. Continuous actions have no such summary.
    """
    batch, agents = before.batch, members(before.team, group)
    index, _ = batch.place(agents[0])
    kind = before.spec.classes[index]
    if kind.continuous:
        return SummaryResult({}, {})
    rows = draw_rows(before, index, "behaviour", COMPARED_OBSERVATIONS)
    legal = None if batch.masks is None else _at(batch.masks[index], rows)
    weights = engine_of(before.config).weights(after, f"policy/{group_name(group)}")
    new, sizes = replace(before, tensors=after), kind.branches or (kind.actions,)

    def probabilities(agent: int) -> Array:
        probability = np.exp(branchwise(_outputs(new, weights, agent, index, rows), sizes, legal))
        return probability if len(sizes) == 1 else probability / probability.dtype.type(len(sizes))

    return SummaryResult({}, {agent: probabilities(agent) for agent in agents})


def gaussian(before: Context[PpoConfig], after: Tensors, group: int) -> SummaryResult:
    """Means and standard deviations ``[256, 2, numbers]`` of every member's new policy, as drawn.

    They are for the observations of `behaviour`. Discrete actions have no such summary.
    """
    agents = members(before.team, group)
    index, _ = before.batch.place(agents[0])
    weights = engine_of(before.config).weights(after, f"policy/{group_name(group)}")
    if weights.log_std is None:
        return SummaryResult({}, {})
    rows, deviation = draw_rows(before, index, "behaviour", COMPARED_OBSERVATIONS), np.exp(weights.log_std)

    def moments(agent: int) -> Array:
        means = _outputs(replace(before, tensors=after), weights, agent, index, rows)
        return np.stack([means, np.broadcast_to(deviation, means.shape)], axis=1)

    return SummaryResult({}, {agent: moments(agent) for agent in agents})


def density(before: Context[PpoConfig], after: Tensors, group: int) -> SummaryResult:
    """Samples ``[250, 4]`` of every member's observations and actions, compressed jointly for the class.

    Section 4.3.2 of "Multi-Agent Reinforcement Learning with Serverless Computing" (SoCC 2025) compares kernel
    densities of agents' observations and actions after a principal-component analysis. The data for fitting the
    components is left open. Densities in coordinates fitted per agent would not be comparable.
    """
    batch, agents = before.batch, members(before.team, group)
    index, _ = batch.place(agents[0])
    kind = before.spec.classes[index]
    rows = draw_rows(before, index, "density", DENSITY_SAMPLES * len(kind.agents))
    clips_actions = engine_of(before.config).weights(after, f"policy/{group_name(group)}").clips_actions
    done = _features(kind, clips_actions, _at(_wide(batch.actions[index]), rows))
    joint = np.concatenate([_at(batch.observations[index], rows), done], axis=1)
    projections = compress(joint, DENSITY_DIMENSIONS).reshape(len(kind.agents), DENSITY_SAMPLES, -1)
    return SummaryResult({}, {agent: projections[kind.agents.index(agent)] for agent in agents})


def curvature(before: Context[PpoConfig], after: Tensors, group: int) -> SummaryResult:
    """`largest` and `smallest` eigenvalue of the Hessian of the policy's loss at the incoming weights.

    They are computed on a small sample of the group's rows, like the paper's (section 4.4), which does not say how
    small. The eigenvalues of such a sample are about ten times as large as the eigenvalues of all rows. The two ratios
    are almost unrelated, so any use of the ratio needs evidence that it is more than noise. Groups without rows and
    networks of a factory are left out.
    """
    data, name = policy_loss(before, group), f"policy/{group_name(group)}"
    count = len(data.actions)
    if not count or f"{name}/{SHAPE}" in before.tensors:
        return SummaryResult({}, {})
    rng = generator(before.seed, before.round, "curvature", group)
    sample_size = max(LEAST, count // ONE_IN)
    weights = recurrent.weights_of(before.tensors, name)
    ratios_are_one = not before.age or is_corrected(before)  # at the incoming weights, as `policy_derivatives` takes it
    quick = ratios_are_one and isinstance(data.head, OneChoice) and {*weights.kinds} <= {Linear, Tanh}
    hessian = (_hessian if quick else _differences)(before, group, data, sample_size, rng)
    eigenvalues = extremes(hessian.times, hessian.start(rng), PRODUCTS, RESIDUAL * LEAST / sample_size)
    return SummaryResult({"largest": eigenvalues.largest, "smallest": eigenvalues.smallest}, {})


def _hessian(
    before: Context[PpoConfig], group: int, data: ClippedPolicyLoss, sample_size: int, rng: np.random.Generator
) -> Hessian:
    """The Hessian on `sample_size` rows, for one choice and a feed-forward policy with tanh layers."""
    count = len(data.actions)
    rows = rng.integers(count, size=sample_size) if count > sample_size else np.arange(count)
    legal = None if data.legal is None else data.legal[rows]

    def loss(logits: Array) -> Derivatives:
        return policy_derivatives(logits, data.actions[rows], data.advantage[rows], before.config.ent_coef, legal)

    network, flat = recurrent.from_tensors(before.tensors, f"policy/{group_name(group)}")
    return Hessian(network, flat, pool_rows(before, group, lambda agent: observations(before, agent))[rows], loss)


def _differences(
    before: Context[PpoConfig], group: int, data: ClippedPolicyLoss, sample_size: int, rng: np.random.Generator
) -> DifferenceHessian:
    """The Hessian of any policy on about `sample_size` rows, in whole chunks for a recurrent policy."""
    network, flat = recurrent.from_tensors(before.tensors, f"policy/{group_name(group)}")
    pieces = policy_samples(before, group, recurrent.views(network, flat))
    share = min(1.0, sample_size / len(data.actions))
    sample = rng.choice(len(pieces), max(1, round(share * len(pieces))), replace=False)
    return DifferenceHessian(network, flat, pieces.part(sample), data)


def noise(before: Context[PpoConfig], after: Tensors, group: int) -> SummaryResult:
    """`trace` and `square` of the policy's gradient at the incoming weights, per rollout.

    A single rollout has no variation, so there is no such summary.
    """
    batch = before.batch
    data = policy_loss(before, group)
    steps, num_envs = batch.ended.shape
    of_row = pool_rows(before, group, lambda agent: np.tile(np.arange(num_envs), (steps, 1)))
    parts, size = sample_blocks(batch.rollouts, num_envs)
    loss_gradient = engine_of(before.config).loss_gradient(before.tensors, f"policy/{group_name(group)}")
    pieces = policy_samples(before, group, loss_gradient.weights)
    samples = [pieces.containing((of_row >= part.start) & (of_row < part.stop)) for part in parts]
    gradients = [loss_gradient.of(pieces.part(sample), data)[1].copy() for sample in samples if len(sample)]
    if len(gradients) < 2:
        return SummaryResult({}, {})
    return SummaryResult(noise_estimate(np.stack(gradients), size)._asdict(), {})


def rewards(before: Context[PpoConfig], after: Tensors, group: int) -> SummaryResult:
    """For every member ``[members, blocks]``: errors of each member's reward model on its steps, see `reward_models`.

    The errors come from `team_reward_models` if all living members get the same reward in every step, or the algorithm
    learns from the team's reward. A group of one has no such summary.
    """
    batch, agents = before.batch, members(before.team, group)
    agent_rewards, alive = batch.rewards[agents], batch.alive[agents]
    highest = np.where(alive, agent_rewards, -np.inf).max(axis=0)
    equal = bool((highest <= np.where(alive, agent_rewards, np.inf).min(axis=0)).all())
    if len(agents) < 2:
        return SummaryResult({}, {})
    if before.config.reward == "team":
        return _team_rewards(before, group, team_rewards(batch.rewards, before.spec.sides)[agents[0]])
    if equal:
        return _team_rewards(before, group, np.where(alive.any(axis=0), highest, 0))
    size = before.spec.classes[batch.place(agents[0])[0]].observation_size
    steps, envs = reward_models.sample_grid(len(batch.ended), batch.ended.shape[1], len(agents) * (size + 1))
    at = np.ix_(np.arange(len(agents)), steps, envs)
    rng = generator(before.seed, before.round, "rewards", group)
    inputs = _seen_and_done(before, group, agents, np.ix_(steps, envs))
    errors = reward_models.errors(inputs, agent_rewards[at], alive[at], rng)
    return SummaryResult({}, {} if errors is None else dict(zip(agents, errors.swapaxes(0, 1), strict=True)))


def _team_rewards(before: Context[PpoConfig], group: int, reward: Array) -> SummaryResult:
    """The errors of the members for a `reward` ``[T, E]`` that they get together, and sums for later rounds."""
    batch, agents, prefix = before.batch, members(before.team, group), team_reward_models.kept_prefix(group)
    kind = before.spec.classes[batch.place(agents[0])[0]]
    steps, num_envs = batch.ended.shape
    numbers = steps * len(kind.agents) * (kind.observation_size + 1)
    envs = reward_models.spread(num_envs, min(num_envs, reward_models.NUMBERS // numbers))
    inputs = _seen_and_done(before, group, kind.agents, np.ix_(np.arange(steps), envs))
    data = team_reward_models.TeamRewards(
        inputs, reward[:, envs], batch.alive[list(kind.agents)][..., envs], batch.ended[:, envs]
    )
    rng = generator(before.seed, "rewards")
    errors, sums = team_reward_models.errors(data, within(before.tensors, prefix), rng)
    places = [kind.agents.index(agent) for agent in agents]
    tables = {} if errors is None else dict(zip(agents, errors[places][:, places], strict=True))
    return SummaryResult({}, tables, {f"{prefix}/{name}": array for name, array in sums.items()})


def _seen_and_done(before: Context[PpoConfig], group: int, agents: Sequence[int], at: tuple[Array, ...]) -> Array:
    """Observations and actions of agents of the group's class in the steps and environments `at`, ``[n, T, E, F]``."""
    batch, index = before.batch, before.batch.place(agents[0])[0]
    clips_actions = weights_of(before, f"policy/{group_name(group)}").clips_actions

    def inputs_of(agent: int) -> Array:
        actions = batch.of(batch.actions, agent)
        flat = actions.reshape(-1, 1 if actions.ndim == 2 else actions.shape[-1])
        done = _features(before.spec.classes[index], clips_actions, flat).reshape(*actions.shape[:2], -1)
        return np.concatenate([batch.of(batch.observations, agent), done], axis=-1, dtype=np.float32)[at]

    return np.stack([inputs_of(agent) for agent in agents])


def draw_rows(context: Context[PpoConfig], index: int, purpose: str, count: int) -> list[NDArray[np.int64]]:
    """Indices of steps (t, e) of every agent of a class, equally many of each agent and `count` in all.

    They are steps of living agents if there are any, and none repeats before all are drawn. The address (seed, round,
    `purpose`, class) makes them the same in every function of the round, for all groups.
    """
    rng = generator(context.seed, context.round, purpose, index)
    agents = context.spec.classes[index].agents
    bounds = np.linspace(0, count, len(agents) + 1).astype(int)
    indices = []
    for agent, share in zip(agents, np.diff(bounds).tolist(), strict=True):
        alive = context.batch.alive[agent].ravel()
        rows = np.flatnonzero(alive if alive.any() else ~alive)
        few = len(rows) < share
        indices.append(np.resize(rng.permutation(rows), share) if few else rng.choice(rows, share, replace=False))
    return indices


def compress(vectors: Array, dimensions: int) -> NDArray[np.float64]:
    """``[rows, features]`` as their first principal components ``[rows, dimensions]``, fewer if there are no more.

    Features are divided by their standard deviation. Constant features do not count. Each axis has the sign that makes
    its largest weight positive, so that equal vectors give equal components.
    """
    wide = vectors.astype(np.float64)
    spread = wide.std(axis=0)  # exactly 0 for equal numbers of single precision
    wide -= wide.mean(axis=0)
    wide /= np.where(spread > 0, spread, 1.0)
    _, axes = np.linalg.eigh(wide.T @ wide)
    axes = axes[:, ::-1][:, :dimensions]
    largest = np.abs(axes).argmax(axis=0)
    axes = axes * np.sign(axes[largest, np.arange(axes.shape[1])])
    return np.asarray(wide @ axes)


def _outputs(
    context: Context[PpoConfig], weights: Weights, agent: int, index: int, rows: list[NDArray[np.int64]]
) -> Array:
    """The outputs ``[sum of rows, width]`` of the policy in `context` for the steps `rows` of the agents of class
    `index`, with the identity of `agent`."""

    def policy_inputs(observations: Array) -> Array:
        return with_identity(context, agent, normalise(context, "policy", agent, observations))

    arrays = context.batch.observations[index]
    if not weights.hidden_size:
        return weights.forward(policy_inputs(_at(arrays, rows))).outputs
    begins, outputs = starts(context), []
    for array, agent_rows in zip(arrays, rows, strict=True):
        steps, columns = np.divmod(agent_rows, begins.shape[1])
        environments, column = np.unique(columns, return_inverse=True)
        inputs = policy_inputs(array[:, environments])
        outputs.append(weights.forward(inputs, begins[:, environments]).outputs[steps, column])
    return np.concatenate(outputs)


def _features(kind: AgentClass, clips_actions: bool, actions: Array) -> Array:
    """Actions ``[rows, 1 or more]`` as comparable features: continuous actions in [-1, 1], choices as one-hots."""
    if kind.continuous:
        return Gaussian(Bounds(kind.low, kind.high), clips_actions).within(actions)
    sizes = kind.branches or (kind.actions,)
    return np.concatenate([np.eye(size)[actions[:, branch]] for branch, size in enumerate(sizes)], axis=1)


def _wide(actions: Array) -> Array:
    """``[n, T, E]`` or ``[n, T, E, numbers]`` as the latter."""
    return actions[..., np.newaxis] if actions.ndim == 3 else actions


def _at(arrays: Array, rows: list[NDArray[np.int64]]) -> Array:
    """The steps `rows` of every agent in ``[n, T, E, width]``, one agent after the other: ``[sum of rows, width]``."""
    return np.concatenate(
        [array.reshape(-1, array.shape[-1])[index] for array, index in zip(arrays, rows, strict=True)]
    )


PPO_SUMMARIES: Mapping[SummaryName, PolicySummary] = {
    "behaviour": behaviour,
    "gaussian": gaussian,
    "density": density,
    "curvature": curvature,
    "noise": noise,
    "rewards": rewards,
}
