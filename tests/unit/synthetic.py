"""Rounds made up at random, for agents of any kind; nobody played them, and rows end in every way in which they can."""

import itertools

import numpy as np

from functions.algorithms import registry as algorithms
from functions.algorithms.base import Context
from functions.contract import Team
from functions.environments.base import AgentClass, Spec
from functions.learner.batch import Batch

SIZE = 4  # of an observation
KINDS = {
    "one choice": {"actions": 3},
    "several choices": {"actions": 5, "branches": (3, 2)},
    "numbers": {"actions": 2, "low": (-1.0, -2.0), "high": (1.0, 3.0)},
}


def spec(kind, masked=False, sides=()):
    """Three agents: two of this kind, one that makes one choice."""
    return Spec(
        agents=("a", "b", "c"),
        classes=(
            AgentClass(name="these", agents=(0, 2), observation_size=SIZE, **KINDS[kind]),
            AgentClass(name="other", agents=(1,), observation_size=SIZE, actions=3),
        ),
        horizon=50, state_size=5, masked=masked, sides=sides,
    )  # fmt: skip


def episodes(rng, agents, steps, copies):
    """`terminated`, `alive` ``[N, T, E]``, `ended`, `truncated` ``[T, E]``: deaths, ends by the rules, time limits."""
    terminated, alive = np.zeros((agents, steps, copies), bool), np.ones((agents, steps, copies), bool)
    ended, truncated = np.zeros((steps, copies), bool), np.zeros((steps, copies), bool)
    for t, e in np.ndindex(steps, copies):
        if t:
            alive[:, t, e] = True if ended[t - 1, e] else alive[:, t - 1, e] & ~terminated[:, t - 1, e]
        terminated[:, t, e] = alive[:, t, e] & (rng.random(agents) < 0.08)
        over = not (alive[:, t, e] & ~terminated[:, t, e]).any()
        truncated[t, e] = not over and rng.random() < 0.08
        ended[t, e] = over or truncated[t, e]
    return terminated, alive, ended, truncated


def _acted(rng, kind, shape, masked):
    """Random legal actions, what was legal, and log-probabilities beside those of a policy that has learnt nothing."""
    legal, told = np.ones((*shape, kind.actions), bool), 0.1 * rng.standard_normal(shape)
    if kind.continuous:
        normal = rng.standard_normal((*shape, kind.actions))
        width = np.exp(-0.5)
        return width * normal, legal, told - (normal**2 / 2 + np.log(width * np.sqrt(2 * np.pi))).sum(axis=-1)
    chosen, sizes = [], kind.branches or (kind.actions,)
    ends = list(itertools.accumulate(sizes, initial=0))
    for start, end in itertools.pairwise(ends):
        part = rng.random((*shape, end - start)) < (0.6 if masked else 2)
        taken = rng.integers(end - start, size=shape)
        np.put_along_axis(part, taken[..., None], True, axis=-1)
        legal[..., start:end] = part
        told -= np.log(part.sum(axis=-1))
        chosen.append(taken)
    return np.stack(chosen, axis=-1) if kind.branches else chosen[0], legal, told


def round_of(spec, rng, steps=14, copies=4, units=2, precision=np.float64):
    """A round's batch; `copies` are those of all units."""
    agents, shape = len(spec.agents), (steps, copies)
    terminated, alive, ended, truncated = episodes(rng, agents, steps, copies)
    cut = np.argwhere(truncated | ((np.arange(steps) == steps - 1)[:, None] & ~ended))
    acted = [_acted(rng, kind, (len(kind.agents), *shape), spec.masked) for kind in spec.classes]

    def drawn(*size):
        return rng.standard_normal(size).astype(precision)

    return Batch(
        spec=spec,
        units=units,
        observations=tuple(drawn(len(kind.agents), *shape, SIZE) for kind in spec.classes),
        actions=tuple(
            a.astype(precision if k.continuous else np.int32) for (a, _, _), k in zip(acted, spec.classes, strict=True)
        ),
        log_probability=tuple(told.astype(precision) for _, _, told in acted),
        masks=tuple(legal for _, legal, _ in acted) if spec.masked else None,
        rewards=drawn(agents, *shape),
        terminated=terminated,
        alive=alive,
        ended=ended,
        state=drawn(*shape, spec.state_size),
        cut=cut,
        cut_observations=tuple(drawn(len(kind.agents), len(cut), SIZE) for kind in spec.classes),
        cut_masks=None,
        cut_state=drawn(len(cut), spec.state_size),
    )


def context(name, spec, settings, seed=3, precision=np.float64, **fields):
    """A first round of an algorithm: agents 0 and 2 learn together."""
    team = Team(groups=(0, 1, 0), identity=True)
    algorithm = algorithms.algorithm(name)
    config = algorithms.configuration(algorithm, settings).resolved(spec)
    code, state = algorithms.implementation(algorithm), {}
    for group in (0, 1):
        state |= code.initialise(spec, team, config, seed, group)
    state = {key: array.astype(precision) if array.dtype == np.float32 else array for key, array in state.items()}
    joined = round_of(spec, np.random.default_rng(seed), precision=precision, **fields)
    return Context(spec, team, config, seed, 0, joined, state), algorithm
