"""Random rollouts and a team that learns from them: `Scene`, for tests of off-policy learning."""

import numpy as np
from synthetic import episodes

from marless.coordinator.placement.placement_rules import LEARNER_PLACEMENTS
from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.specification import Share
from marless.functions.algorithms.stage import Context
from marless.functions.data.replay_buffer import ReplayBuffer, RolloutKey
from marless.functions.environments.base import AgentClass, EnvSpec
from marless.functions.learner import stages
from marless.functions.messages.team import Team

STEPS, NUM_ENVS, ROLLOUTS, FIRST = 6, 3, 3, 2
TIGHT, WIDE = 0.05, 1e9  # gradient-norm caps that clip every network, and none


def spec(sides=(), masked=True, state_size=3):
    """Four agents of two classes that interleave. Agents die, episodes are cut."""
    return EnvSpec(
        agents=("a", "b", "c", "d"),
        classes=(AgentClass("x", (0, 2), 3, 3), AgentClass("y", (1, 3), 2, 4)),
        horizon=STEPS, state_size=state_size, masked=masked, sides=sides,
    )  # fmt: skip


def rollout(spec, seed, dtype=np.float64):
    rng = np.random.default_rng(seed)
    shape = (STEPS, NUM_ENVS)
    terminated, alive, ended, truncated = episodes(rng, len(spec.agents), *shape)
    cut = np.argwhere(truncated | ((np.arange(STEPS) == STEPS - 1)[:, None] & ~ended))

    def drawn(*size):
        return rng.standard_normal(size).astype(dtype)

    made = {
        "terminated": terminated, "alive": alive, "ended": ended, "cut": cut, "reward": drawn(len(spec.agents), *shape),
    }  # fmt: skip
    if spec.state_size:
        made |= {"state": drawn(*shape, spec.state_size), "cut_state": drawn(len(cut), spec.state_size)}
    for index, kind in enumerate(spec.classes):
        n = len(kind.agents)
        actions = rng.integers(kind.actions, size=(n, *shape))
        made |= {
            f"observation/{index}": drawn(n, *shape, kind.observation_size),
            f"cut_observation/{index}": drawn(n, len(cut), kind.observation_size),
            f"action/{index}": actions.astype(np.int32),
        }
        if spec.masked:
            legal = rng.random((n, *shape, kind.actions)) < 0.5
            np.put_along_axis(legal, actions[..., None], True, axis=-1)
            beyond = rng.random((n, len(cut), kind.actions)) < 0.5
            beyond[..., 0] |= ~beyond.any(axis=-1)
            made |= {f"mask/{index}": legal, f"cut_mask/{index}": beyond}
    return made


APART = Team(groups=(0, 1, 2, 3))
PAIRED = Team(groups=(0, 1, 0, 3), identity=True)
TOGETHER = Team(groups=(0, 1, 0, 1), identity=True)


class Scene:
    """Some rollouts, a team, and its initial tensors. Targets and moments belong to a later round. The scale of rewards
    is unset only in the `first` update."""

    def __init__(
        self, name, team=PAIRED, sides=(), dtype=np.float64, rollouts=None, state_size=3, first=False, **settings
    ):
        self.name, self.team, self.spec = name, team, spec(sides, state_size=state_size)
        self.algorithm = algorithms.algorithm(name)
        replays = {"updates_per_round": 2, "batch_size": 7} if self.algorithm.config().replayed_steps else {}
        given = {"hidden": [5, 4], **replays, "lr": 0.02, "gamma": 0.9, "max_grad_norm": TIGHT}
        self.config = algorithms.configuration(self.algorithm, given | settings)
        self.rollouts = rollouts or [rollout(self.spec, seed, dtype) for seed in range(ROLLOUTS)]
        self.replay_buffer = ReplayBuffer(self.spec)
        wanted = [RolloutKey(index, 0, "x") for index in range(len(self.rollouts))]
        self.replay_buffer.load(wanted, lambda missing: dict(zip(wanted, self.rollouts, strict=True)))
        self.tensors = self.drawn(1, dtype)
        other = self.drawn(2, dtype)
        self.tensors |= {key: array for key, array in other.items() if key.split("/")[0].endswith("target")}
        for key in self.tensors:
            if key.startswith("normaliser/") and not first:
                self.tensors[key] = np.array([0.002, 0.01, 0.004, 0.3])

    def drawn(self, seed, dtype):
        code, made = algorithms.implementation(self.algorithm), {}
        for group in sorted(set(self.team.groups)):
            made |= code.initialise(self.spec, self.team, self.config, seed, group)
        return {key: array.astype(dtype) if array.dtype == np.float32 else array for key, array in made.items()}

    def context(self, round_, tensors, update=0):
        batch = self.replay_buffer.segments_from(np.arange(NUM_ENVS), STEPS)
        return Context(self.spec, self.team, self.config, 5, round_, batch, tensors, self.replay_buffer, update)

    def run(self, rule="packed", rounds=2, stored=lambda tensors: tensors):
        """The tensors after some rounds, with tasks placed by a rule. `stored` changes them between tasks."""
        return self.learned(rule, rounds, stored)[0]

    def learned(self, rule="packed", rounds=2, stored=lambda tensors: tensors):
        known, code = dict(self.tensors), algorithms.implementation(self.algorithm)
        groups = sorted(set(self.team.groups))
        for round_ in range(FIRST, FIRST + rounds):
            metrics = {}
            for wave in LEARNER_PLACEMENTS[rule](self.algorithm.stages, groups, self.config.updates_per_round):
                passed = {}
                for work in wave:
                    share = Share(work.stages, work.groups, range(work.first, work.first + work.updates))
                    outcome = stages.run(self.algorithm, code, self.context(round_, known), share)
                    passed |= stored(outcome.tensors)
                    metrics |= outcome.metrics
                known |= passed
        return {key: array for key, array in known.items() if key.split("/")[0] in self.algorithm.parts}, metrics
