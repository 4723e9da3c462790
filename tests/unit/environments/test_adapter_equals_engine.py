"""The PettingZoo adapter on mpe2 and the batched engine are the same task: whole rounds, learning included."""

import dataclasses

import numpy as np

from marless.functions.actor.rollout import collect
from marless.functions.algorithms.registry import algorithm, implementation
from marless.functions.algorithms.specification import Share
from marless.functions.algorithms.stage import Context
from marless.functions.data import batch
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.environments.pettingzoo import adapter
from marless.functions.learner import stages
from marless.functions.messages.team import Team
from marless.functions.policies import Policy

NUM_ENVS, SEED = 8, 7
ALGORITHM = algorithm("mappo")
CONFIG = ALGORITHM.config(epochs=2, num_minibatches=2).resolved(
    registry.make(EnvTask(name="mpe/simple_spread"), 1).spec
)
CODE = implementation(ALGORITHM)
TEAM = Team(groups=(0, 1, 2))


class Recording:
    def __init__(self, environment):
        self.environment, self.spec, self.num_envs = environment, environment.spec, environment.num_envs
        self.actions, self.rewards = [], []

    def reset(self, rng):
        return self.environment.reset(rng)

    def step(self, actions):
        step = self.environment.step(actions)
        self.actions.append(np.array(actions[0]))
        self.rewards.append(np.array(step.rewards))
        return step


class StartedLikeTheEngine:
    """mpe2 through the adapter. Every episode starts in the engine's start state for the same generator."""

    def __init__(self):
        self.environment = adapter.make(EnvTask(name="pettingzoo:mpe2.simple_spread_v3:parallel_env"), NUM_ENVS)
        self.spec, self.num_envs, self.step = self.environment.spec, NUM_ENVS, self.environment.step

    def reset(self, rng):
        engine = registry.make(EnvTask(name="mpe/simple_spread"), NUM_ENVS)
        engine.reset(rng)
        state = engine.snapshot()
        self.environment.reset(np.random.default_rng(0))
        frames = []
        for row, copy in enumerate(self.environment._copies):
            world = copy._guard.environment.unwrapped.world
            for body, position in zip([*world.agents, *world.landmarks], state.position[row], strict=True):
                body.state.p_pos = position.copy()
            scenario = copy._guard.environment.unwrapped.scenario
            frames.append([scenario.observation(agent, world).astype(np.float32) for agent in world.agents])
        seen = engine.restore(state)
        np.testing.assert_array_equal(seen.values[0], np.array(frames))
        # mpe2's global state concatenates all observations. With the engine, the learner concatenates them.
        return dataclasses.replace(seen, state=np.array(frames).reshape(NUM_ENVS, -1))


def three_rounds(environment):
    recording, tensors = Recording(environment), {}
    for group in range(3):
        tensors |= CODE.initialise(recording.spec, TEAM, CONFIG, SEED, group)
    for round_ in range(3):
        rollout = collect(recording, Policy(recording.spec, TEAM, tensors), 25, SEED, round_, 0)
        context = Context(
            recording.spec, TEAM, CONFIG, SEED, round_, batch.join(recording.spec, rollout.tensors, [0]), tensors
        )
        share = Share(("postprocess", "critic", "policy"), (0, 1, 2))
        tensors |= stages.run(ALGORITHM, CODE, context, share)[0]
    return np.array(recording.actions), np.array(recording.rewards)


def test_three_rounds_have_actions_and_rewards_of_engine():
    actions, rewards = three_rounds(registry.make(EnvTask(name="mpe/simple_spread"), NUM_ENVS))
    actions_mpe2, rewards_mpe2 = three_rounds(StartedLikeTheEngine())
    np.testing.assert_array_equal(actions, actions_mpe2)
    np.testing.assert_allclose(rewards, rewards_mpe2, rtol=0, atol=1e-8)
