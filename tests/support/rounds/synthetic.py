"""Random synthetic rounds for agents of any kind, with every possible end of a row."""

import itertools
from dataclasses import replace

import numpy as np

from marless.functions import codec
from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.specification import Share
from marless.functions.algorithms.stage import Context
from marless.functions.data.batch import join
from marless.functions.data.trajectory import rollout_prefix
from marless.functions.environments.base import AgentClass, EnvSpec
from marless.functions.learner import stages
from marless.functions.messages.exchange import TaskHeader
from marless.functions.messages.team import Team

SIZE = 4  # of an observation
# Settings of PPO so tight that every clip and cap binds somewhere. 14 steps are no multiple of the chunk.
TIGHT = {
    "lr": 0.01, "clip_coef": 0.05, "value_clip": 0.1, "huber_delta": 0.7, "max_grad_norm": 0.2, "ent_coef": 0.02,
    "epochs": 2, "num_minibatches": 3, "hidden": [7, 6], "value_decay": 0.9, "data_chunk_length": 4,
}  # fmt: skip
KINDS = {
    "one choice": {"actions": 3},
    "several choices": {"actions": 5, "branches": (3, 2)},
    "numbers": {"actions": 2, "low": (-1.0, -2.0), "high": (1.0, 3.0)},
}


def spec(kind, masked=False, sides=(), state_size=5):
    """Three agents: two of this kind, one with a single choice. No global state for size 0."""
    return EnvSpec(
        agents=("a", "b", "c"),
        classes=(
            AgentClass(name="these", agents=(0, 2), observation_size=SIZE, **KINDS[kind]),
            AgentClass(name="other", agents=(1,), observation_size=SIZE, actions=3),
        ),
        horizon=50, state_size=state_size, masked=masked, sides=sides,
    )  # fmt: skip


def episodes(rng, agents, steps, num_envs):
    """`terminated`, `alive` ``[N, T, E]``, `ended`, `truncated` ``[T, E]``: deaths, ends by the rules, time limits."""
    terminated, alive = np.zeros((agents, steps, num_envs), bool), np.ones((agents, steps, num_envs), bool)
    ended, truncated = np.zeros((steps, num_envs), bool), np.zeros((steps, num_envs), bool)
    for t, e in np.ndindex(steps, num_envs):
        if t:
            alive[:, t, e] = True if ended[t - 1, e] else alive[:, t - 1, e] & ~terminated[:, t - 1, e]
        terminated[:, t, e] = alive[:, t, e] & (rng.random(agents) < 0.08)
        over = not (alive[:, t, e] & ~terminated[:, t, e]).any()
        truncated[t, e] = not over and rng.random() < 0.08
        ended[t, e] = over or truncated[t, e]
    return terminated, alive, ended, truncated


def _acted(rng, kind, shape, masked):
    """Random legal actions, their masks, and log-probabilities like from an untrained policy."""
    legal, report = np.ones((*shape, kind.actions), bool), 0.1 * rng.standard_normal(shape)
    if kind.continuous:
        normal = rng.standard_normal((*shape, kind.actions))
        width = np.exp(-0.5)
        return width * normal, legal, report - (normal**2 / 2 + np.log(width * np.sqrt(2 * np.pi))).sum(axis=-1)
    chosen, sizes = [], kind.branches or (kind.actions,)
    ends = list(itertools.accumulate(sizes, initial=0))
    for start, end in itertools.pairwise(ends):
        part = rng.random((*shape, end - start)) < (0.6 if masked else 2)
        taken = rng.integers(end - start, size=shape)
        np.put_along_axis(part, taken[..., None], True, axis=-1)
        legal[..., start:end] = part
        report -= np.log(part.sum(axis=-1))
        chosen.append(taken)
    return np.stack(chosen, axis=-1) if kind.branches else chosen[0], legal, report


def rollout_of(spec, rng, steps, num_envs, precision=np.float64):
    """A rollout with actors' tensor names. Dead agents have observations, actions and rewards, too."""
    agents, shape = len(spec.agents), (steps, num_envs)
    terminated, alive, ended, truncated = episodes(rng, agents, *shape)
    cut = np.argwhere(truncated | ((np.arange(steps) == steps - 1)[:, None] & ~ended))

    def drawn(*size):
        return rng.standard_normal(size).astype(precision)

    made = {"terminated": terminated, "alive": alive, "ended": ended, "cut": cut, "reward": drawn(agents, *shape)}
    for index, kind in enumerate(spec.classes):
        members = (len(kind.agents), *shape)
        actions, legal, report = _acted(rng, kind, members, spec.masked)
        made |= {
            f"observation/{index}": drawn(*members, SIZE),
            f"cut_observation/{index}": drawn(len(kind.agents), len(cut), SIZE),
            f"action/{index}": actions.astype(precision if kind.continuous else np.int32),
            f"log_probability/{index}": report.astype(precision),
        }
        if spec.masked:
            beyond = rng.random((len(kind.agents), len(cut), kind.actions)) < 0.6
            beyond[..., -1] = True
            made |= {f"mask/{index}": legal, f"cut_mask/{index}": beyond}
    if spec.state_size:
        made |= {"state": drawn(*shape, spec.state_size), "cut_state": drawn(len(cut), spec.state_size)}
    return made


def meddled(spec, rollout):
    """The rollout with random observations, actions, masks and rewards of dead agents, and random next
    observations of agents that have just died."""
    rng, found = np.random.default_rng(9), {name: array.copy() for name, array in rollout.items()}
    there = rollout["alive"]
    left = (there & ~rollout["terminated"])[:, rollout["cut"][:, 0], rollout["cut"][:, 1]]
    found["reward"][~there] = 50 * rng.standard_normal((~there).sum())
    names = {"observation": there, "action": there, "log_probability": there, "mask": there}
    for name, living in {**names, "cut_observation": left, "cut_mask": left}.items():
        for index, kind in enumerate(spec.classes):
            if f"{name}/{index}" in found:
                array, gone = found[f"{name}/{index}"], ~living[list(kind.agents)]
                drawn = 50 * rng.standard_normal(array[gone].shape)
                array[gone] = drawn if array.dtype.kind == "f" else drawn > 0
    return found


def joined(spec, rollout, rollouts=1):
    return replace(
        join(spec, {f"{rollout_prefix(0)}/{name}": array for name, array in rollout.items()}, (0,)), rollouts=rollouts
    )


def context(
    name, spec, settings, seed=3, precision=np.float64, changed=lambda spec, rollout: rollout, steps=14, num_envs=4
):
    """A first round of an algorithm: agents 0 and 2 learn together. `changed` makes another rollout of the spec and
    it."""
    team = Team(groups=(0, 1, 0), identity=True)
    algorithm = algorithms.algorithm(name)
    config = algorithms.configuration(algorithm, settings).resolved(spec)
    code, state = algorithms.implementation(algorithm), {}
    for group in (0, 1):
        state |= code.initialise(spec, team, config, seed, group)
    state = {key: array.astype(precision) if array.dtype == np.float32 else array for key, array in state.items()}
    rollout = changed(spec, rollout_of(spec, np.random.default_rng(seed), steps, num_envs, precision))
    return Context(spec, team, config, seed, 0, joined(spec, rollout, rollouts=2), state), algorithm


def learned(context, algorithm, groups=(0, 1)):
    code = algorithms.implementation(algorithm)
    return stages.run(algorithm, code, context, Share([stage.name for stage in algorithm.stages], groups))


def through_storage(tensors):
    return codec.decode(codec.encode(tensors, TaskHeader(task="t")), "k")


def one_by_one(context, algorithm, wire=lambda tensors: tensors):
    """Runs every stage of every group in a separate call on stored objects only. Returns all metrics too."""
    code, made, metrics = algorithms.implementation(algorithm), {}, {}
    for stage, group in itertools.product(algorithm.stages, sorted(set(context.team.groups))):
        seen = replace(context, tensors=wire({**context.tensors, **made}))
        outcome = stages.run(algorithm, code, seen, Share([stage.name], [group]))
        made |= outcome.tensors
        metrics |= outcome.metrics
    return made, metrics
