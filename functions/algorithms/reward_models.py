"""Models of agents' rewards, and how well one agent's model predicts another's rewards.

Christianos et al., "Scaling Multi-Agent Reinforcement Learning with Selective Parameter Sharing", 2021, find agents
that should not share a network. They train an autoencoder of observations and rewards once, before training. Here every
agent gets a model of its reward from its observations and actions, in milliseconds. It is ridge regression on random
Fourier features (Rahimi and Recht, "Random Features for Large-Scale Kernel Machines", 2007).
"""

import numpy as np
from numpy.typing import NDArray

# Features, and the weight of the penalty in mean squares of a feature.
FEATURES, PENALTY = 256, 0.01
# The most blocks of environments in the mean of the errors. A block has environments of both halves of the data.
BLOCKS = 8
# The most steps used of an agent, and the most numbers of all agents' inputs. More would cost more than learning, and
# images more memory.
ROWS, NUMBERS = 2_048, 2**24

Array = NDArray[np.float32]
Indices = NDArray[np.intp]


def sample_grid(steps: int, num_envs: int, numbers: int) -> tuple[Indices, Indices]:
    """Indices of steps and environments, spread evenly, of at most `ROWS` pairs. One pair has so many `numbers`.

    Every step counts unless fewer than two environments per block would be left.
    """
    most = min(ROWS, NUMBERS // numbers)
    envs = min(num_envs, max(2 * BLOCKS, most // steps))
    return spread(steps, min(steps, max(1, most // envs))), spread(num_envs, envs)


def spread(count: int, size: int) -> Indices:
    """Return `size` of the first `count` numbers, spread evenly."""
    return np.linspace(0, count, size, endpoint=False).astype(np.intp)


def errors(
    inputs: Array, rewards: NDArray[np.floating], alive: NDArray[np.bool_], rng: np.random.Generator
) -> NDArray[np.float32] | None:
    """Mean squared errors ``[i, j, blocks]`` of the model of agent i on steps of agent j.

    `inputs` ``[n, T, E, F]`` are agents' observations and actions, others ``[n, T, E]``. Only living steps count. A
    model is fitted on one half of the environments and tested on the other, in both ways. So the models of two agents
    with one reward function have equal errors on average, however badly they fit. None with fewer than four
    environments, or if an agent is dead in all steps of a block.
    """
    agents, _, num_envs, _ = inputs.shape
    blocks = min(BLOCKS, num_envs // 2)
    if blocks < 2:
        return None
    block, half = np.arange(num_envs) // 2 % blocks, np.arange(num_envs) % 2
    features = _features(inputs, rng)
    total, count = np.zeros((agents, agents, blocks)), np.zeros((agents, blocks))
    for train in (0, 1):
        weights = [
            _ridge(features[i][alive[i] & (half == train)], rewards[i][alive[i] & (half == train)])
            for i in range(agents)
        ]
        models = np.stack(weights, axis=1).astype(np.float32)
        for j in range(agents):
            test_mask = alive[j] & (half != train)
            squares = (features[j][test_mask] @ models - rewards[j][test_mask][:, np.newaxis]).astype(np.float64) ** 2
            block_rows = np.broadcast_to(block, test_mask.shape)[test_mask]
            count[j] += np.bincount(block_rows, minlength=blocks)
            for i in range(agents):
                total[i, j] += np.bincount(block_rows, squares[:, i], blocks)
    return (total / count).astype(np.float32) if count.all() else None


def _features(inputs: Array, rng: np.random.Generator) -> Array:
    """The random features ``[n, T, E, features]`` of inputs in units of their standard deviation."""
    axes = (0, 1, 2)
    deviation = inputs.std(axis=axes)
    varies = deviation > 1e-6
    return random_features(
        (inputs[..., varies] - inputs[..., varies].mean(axis=axes)) / deviation[varies], FEATURES, rng
    )


def random_features(z_scores: Array, count: int, rng: np.random.Generator) -> Array:
    """Return `count` cosines, a 1, and the inputs themselves if they are not more than the cosines."""
    width = z_scores.shape[-1]
    # The squared distance of two inputs is about twice their width, so the kernel's width is of the same order.
    frequencies = rng.standard_normal((width, count), np.float32) / np.float32(np.sqrt(max(1, width)))
    phases = rng.uniform(0, 2 * np.pi, count).astype(np.float32)
    cosines = np.cos(z_scores @ frequencies + phases) * np.float32(np.sqrt(2))
    ones = np.ones_like(cosines[..., :1])
    return np.concatenate([cosines, ones, *([z_scores] if width <= count else [])], axis=-1)


def _ridge(features: Array, rewards: NDArray[np.floating]) -> NDArray[np.float64]:
    """The weights ``[features]`` with the least squared error plus penalty, or zeros without rows."""
    gram = (features.T @ features).astype(np.float64)
    gram[np.diag_indices_from(gram)] += PENALTY * np.trace(gram) / len(gram) + np.finfo(np.float32).eps
    return np.asarray(np.linalg.solve(gram, features.T @ rewards), np.float64)
