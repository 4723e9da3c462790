"""Policies and observations drawn at random, by tensor name, for agents of two classes that interleave."""

import itertools

import numpy as np

from marless.functions.environments.base import AgentClass, EnvSpec, Observation
from marless.functions.messages.team import Team

# Two classes that interleave: agents 0 and 2 are equal, agent 1 is not.
SPEC = EnvSpec(("a", "b", "c"), (AgentClass("x", (0, 2), 6, 5), AgentClass("y", (1,), 4, 3)), horizon=1)
NUMBERS = EnvSpec(
    ("a", "b", "c"),
    (AgentClass("x", (0, 2), 6, 2, low=(-1.0, 0.0), high=(1.0, 8.0)), AgentClass("y", (1,), 4, 5, branches=(2, 3))),
    horizon=1,
)
ALONE = Team(groups=(0, 1, 2))
SHARED = Team(groups=(0, 1, 0), identity=True)


def tensors_of(spec, team, hidden, recurrent=True, dtype=np.float32, gaussian=True, seed=0):
    """Random networks by tensor name. A recurrent one has its last hidden layer as GRU."""
    rng, tensors = np.random.default_rng(seed), {}

    def add(group, weight, bias, shape):
        tensors[f"policy/g{group:02d}/{weight}"] = (1.4 * rng.standard_normal(shape) / shape[0] ** 0.5).astype(dtype)
        tensors[f"policy/g{group:02d}/{bias}"] = rng.standard_normal(shape[1]).astype(dtype)

    for kind in spec.classes:
        for group in sorted({team.groups[agent] for agent in kind.agents}):
            sizes = (kind.observation_size + team.identity * len(spec.agents), *hidden, kind.actions)
            plain = len(sizes) - 1 - recurrent
            for layer in range(plain):
                last = recurrent and layer == plain - 1
                add(group, f"w{layer}", f"b{layer}", sizes[-2:] if last else sizes[layer : layer + 2])
            if recurrent:
                add(group, "gru_x", "gru_bx", (sizes[-3], 3 * hidden[-1]))
                add(group, "gru_h", "gru_bh", (hidden[-1], 3 * hidden[-1]))
            if kind.continuous and gaussian:
                tensors[f"policy/g{group:02d}/log_std"] = rng.standard_normal(kind.actions).astype(dtype) - 0.5
    return tensors


def seen_at(values, t, masks=None):
    num_envs = values[0].shape[2]
    return Observation(tuple(part[:, t].swapaxes(0, 1) for part in values), np.ones((num_envs, 3), bool), masks)


def observed(spec, steps, num_envs, dtype=np.float32, seed=1):
    rng = np.random.default_rng(seed)
    return [
        rng.standard_normal((len(kind.agents), steps, num_envs, kind.observation_size)).astype(dtype)
        for kind in spec.classes
    ]


def by_agent(spec, arrays):
    """Per class ``[E, n, ...]`` to one array ``[E, ...]`` for every agent's name."""
    return {
        spec.agents[agent]: array[:, position]
        for array, kind in zip(arrays, spec.classes, strict=True)
        for position, agent in enumerate(kind.agents)
    }


def weights(team, dtype, spec=SPEC, seed=0):
    """A network with two hidden layers for every group, by tensor name."""
    rng, tensors = np.random.default_rng(seed), {}
    for kind in spec.classes:
        for group in sorted({team.groups[agent] for agent in kind.agents}):
            inputs = kind.observation_size + team.identity * len(spec.agents)
            sizes = (inputs, 64, 64, kind.actions)
            for layer, shape in enumerate(itertools.pairwise(sizes)):
                scale = 1.4 / np.sqrt(shape[0])
                tensors[f"policy/g{group:02d}/w{layer}"] = (scale * rng.standard_normal(shape)).astype(dtype)
                tensors[f"policy/g{group:02d}/b{layer}"] = rng.standard_normal(shape[1]).astype(dtype)
    return tensors


def observation(dtype, num_envs, spec=SPEC, seed=1, masked=False):
    """Drawn observations of agents who are all alive. With `masked` half of the actions are legal, and one at least."""
    rng = np.random.default_rng(seed)
    values, masks = [], []
    for kind in spec.classes:
        shape = (num_envs, len(kind.agents))
        values.append((3 * rng.standard_normal((*shape, kind.observation_size))).astype(dtype))
        legal = rng.random((*shape, kind.actions)) < 0.5
        legal[np.arange(num_envs)[:, None], np.arange(shape[1]), rng.integers(kind.actions, size=shape)] = True
        masks.append(legal)
    alive = np.ones((num_envs, len(spec.agents)), bool)
    return Observation(tuple(values), alive, tuple(masks) if masked else None)
