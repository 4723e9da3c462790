"""What learners of the PPO family tell of their policies.

`behaviour` and `density` are what distances between policies are worked out from, `curvature` and `noise` say how much
data a policy can use. Whatever agents are compared on is drawn at an address of the round and the class alone, so that
learners which know nothing of each other tell of the same observations.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from functions.algorithms.base import Context, Summary, SummaryResult, Tensors
from functions.algorithms.curvature import Derivatives, Hessian, extremes, policy_derivatives
from functions.algorithms.distil import log_probabilities
from functions.algorithms.networks import Array, backward, forward, from_tensors, layers_of
from functions.algorithms.noise import blocks, estimate
from functions.algorithms.ppo import PolicyRows, members, pooled, with_identity
from functions.contract import SummaryName
from functions.keys import group_name
from functions.randomness import generator

# Observations that policies are compared on, over all agents of a class.
OBSERVATIONS = 256
# Steps of every agent that its density is estimated from, and the dimensions that are kept of them.
SAMPLES, DIMENSIONS = 250, 4
# Of the group's rows, those that the curvature is worked out on: one in so many, but no fewer than the least; and what
# ends Lanczos' method, a residual that is the smaller the more rows there are. A learner of 1,600 rows can do this in a
# twentieth of its time.
ONE_IN, LEAST = 100, 16
PRODUCTS, RESIDUAL = 16, 0.3


def behaviour(before: Context, after: Tensors, group: int) -> SummaryResult:
    """Action probabilities ``[256, actions]`` of every member's new policy on the observations of its class.

    The observations are drawn equally from all agents of the class, living ones first; each is shown to every member
    as its own, with the member's one-hot and the actions that were legal there.
    """
    batch, agents = before.batch, members(before.team, group)
    index, _ = batch.place(agents[0])
    rows = drawn(before, index, "behaviour", OBSERVATIONS)
    seen = _at(batch.observations[index], rows)
    legal = None if batch.masks is None else _at(batch.masks[index], rows)
    layers = layers_of(after, f"policy/{group_name(group)}")

    def probabilities(agent: int) -> Array:
        logits = forward(layers, with_identity(before, agent, seen))[-1]
        return np.exp(log_probabilities(logits, legal))

    return SummaryResult({}, {agent: probabilities(agent) for agent in agents})


def density(before: Context, after: Tensors, group: int) -> SummaryResult:
    """Samples ``[250, 4]`` of what every member saw and did, compressed alike for all agents of the class.

    Section 4.3.2 of "Multi-Agent Reinforcement Learning with Serverless Computing" (SoCC 2025) compares kernel
    densities of agents' observations and actions after a principal-component analysis; it leaves open on what the
    components are fitted, and densities in coordinates of each agent's own could not be compared.
    """
    batch, agents = before.batch, members(before.team, group)
    index, _ = batch.place(agents[0])
    kind = before.spec.classes[index]
    rows = drawn(before, index, "density", SAMPLES * len(kind.agents))
    done = np.eye(kind.actions)[_at(batch.actions[index][..., np.newaxis], rows)[:, 0]]
    joint = np.concatenate([_at(batch.observations[index], rows), done], axis=1)
    compressed = compress(joint, DIMENSIONS).reshape(len(kind.agents), SAMPLES, -1)
    return SummaryResult({}, {agent: compressed[kind.agents.index(agent)] for agent in agents})


def curvature(before: Context, after: Tensors, group: int) -> SummaryResult:
    """`largest` and `smallest` eigenvalue of the Hessian of the policy's loss at the incoming weights.

    On few of the group's rows, as in the paper (section 4.4), which does not say how few. The ends of so small a sample
    lie some ten times as far out as those of all rows, and their ratio was found to say next to nothing of that of all
    rows: whoever builds on it has to show that it is more than noise. Nothing of a group without rows.
    """
    known = PolicyRows.living(before, group)
    count = len(known.actions)
    if not count:
        return SummaryResult({}, {})
    rng = generator(before.seed, before.round, "curvature", group)
    wanted = max(LEAST, count // ONE_IN)
    rows = rng.integers(count, size=wanted) if count > wanted else np.arange(count)
    legal = None if known.legal is None else known.legal[rows]

    def loss(logits: Array) -> Derivatives:
        return policy_derivatives(logits, known.actions[rows], known.advantage[rows], before.config.entropy, legal)

    mlp, flat = from_tensors(before.tensors, f"policy/{group_name(group)}")
    hessian = Hessian(mlp, flat, known.inputs[rows], loss)
    found = extremes(hessian.times, hessian.start(rng), PRODUCTS, RESIDUAL * LEAST / wanted)
    return SummaryResult({"largest": found.largest, "smallest": found.smallest}, {})


def noise(before: Context, after: Tensors, group: int) -> SummaryResult:
    """`trace` and `square` of the policy's gradient at the incoming weights, per unit of sampling.

    Nothing of a single unit, which shows no variation.
    """
    batch = before.batch
    known = PolicyRows.living(before, group)
    steps, copies = batch.ended.shape
    of_row = pooled(before, group, lambda agent: np.tile(np.arange(copies), steps))
    parts, size = blocks(batch.units, copies)
    samples = [np.flatnonzero((of_row >= part.start) & (of_row < part.stop)) for part in parts]
    samples = [rows for rows in samples if len(rows)]
    if len(samples) < 2:
        return SummaryResult({}, {})
    mlp, flat = from_tensors(before.tensors, f"policy/{group_name(group)}")
    layers, gradients = mlp.layers(flat), np.empty((len(samples), len(flat)), flat.dtype)
    for rows, gradient in zip(samples, gradients, strict=True):
        activations = forward(layers, known.inputs[rows])
        error = known.loss(activations[-1], rows, before.config).error
        backward(layers, activations, error, mlp.layers(gradient))
    return SummaryResult(estimate(gradients, size)._asdict(), {})


def drawn(context: Context, index: int, purpose: str, count: int) -> list[NDArray[np.int64]]:
    """Numbers of steps (t, e) of every agent of a class, equally many of each and `count` in all.

    Living steps where the agent has any, each once before any twice. Drawn at (seed, round, `purpose`, class): the same
    in every function of the round, whatever the groups are.
    """
    rng = generator(context.seed, context.round, purpose, index)
    agents = context.spec.classes[index].agents
    bounds = np.linspace(0, count, len(agents) + 1).astype(int)
    found = []
    for agent, share in zip(agents, np.diff(bounds).tolist(), strict=True):
        alive = context.batch.alive[agent].ravel()
        rows = np.flatnonzero(alive if alive.any() else ~alive)
        few = len(rows) < share
        found.append(np.resize(rng.permutation(rows), share) if few else rng.choice(rows, share, replace=False))
    return found


def compress(vectors: Array, dimensions: int) -> NDArray[np.float64]:
    """``[rows, features]`` as their first principal components ``[rows, dimensions]``, fewer if there are no more.

    Features count in units of their standard deviation; those that never change count nothing. An axis points to where
    its largest weight is positive, so that equal vectors give equal components.
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


def _at(arrays: Array, rows: list[NDArray[np.int64]]) -> Array:
    """Of ``[n, T, E, width]`` the steps `rows` of every agent, one agent after the other: ``[sum of rows, width]``."""
    return np.concatenate([array.reshape(-1, array.shape[-1])[own] for array, own in zip(arrays, rows, strict=True)])


PPO_SUMMARIES: Mapping[SummaryName, Summary] = {
    "behaviour": behaviour,
    "density": density,
    "curvature": curvature,
    "noise": noise,
}
