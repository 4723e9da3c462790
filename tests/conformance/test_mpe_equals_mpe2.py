"""A thousand random episodes of the batched Multi-Particle Environments, each played again in mpe2."""

import numpy as np
import pytest
from mpe2 import simple_adversary_v3, simple_spread_v3

from functions.environments.base import Task
from functions.environments.mpe import WorldState, make

EPISODES = 63  # for each of two tasks and eight team sizes: 1,008 in all
CASES = [("mpe/simple_spread", n, n, simple_spread_v3) for n in range(1, 9)]
CASES += [("mpe/simple_adversary", n, n + 1, simple_adversary_v3) for n in range(1, 9)]


def drawn(engine, rng):
    """Starts as drawn, every third with the agents so close that they collide."""
    engine.reset(rng)
    state = engine.snapshot()
    agents = len(engine.spec.agents)
    state.position[::3, :agents] *= 0.3
    state.velocity[::3] = rng.normal(size=state.velocity[::3].shape)
    return WorldState(state.position, state.velocity, state.goals, cycle=0)


def place(world, state, copy):
    for body, position in zip([*world.agents, *world.landmarks], state.position[copy], strict=True):
        body.state.p_pos = position.copy()
    for agent, velocity in zip(world.agents, state.velocity[copy], strict=True):
        agent.state.p_vel = velocity.copy()
        if state.goals.size:
            agent.goal_a = world.landmarks[state.goals[copy, 0]]


def played(engine, actions):
    """Per step: rewards, observations per class and the state, which the last step has already replaced."""
    for chosen in actions:
        step = engine.step(chosen)
        yield step.rewards, (step.final or step.observation).values, engine.snapshot()


@pytest.mark.conformance
@pytest.mark.parametrize(("name", "n", "agents", "module"), CASES, ids=[f"{name}-{n}" for name, n, _, _ in CASES])
def test_an_episode_equals_mpe2_step_by_step(name, n, agents, module):
    rng = np.random.default_rng([n, agents])
    engine = make(Task(name=name, agents=agents), copies=EPISODES)
    start = drawn(engine, rng)
    engine.restore(start)
    classes, horizon = engine.spec.classes, engine.spec.horizon
    actions = [tuple(rng.integers(0, 5, (EPISODES, len(c.agents))) for c in classes) for _ in range(horizon)]
    steps = list(played(engine, actions))
    reference = module.parallel_env(N=n)
    for copy in range(EPISODES):
        reference.reset(seed=0)
        world = reference.unwrapped.world
        place(world, start, copy)
        for number, (chosen, (rewards, values, state)) in enumerate(zip(actions, steps, strict=True), start=1):
            joint = np.concatenate([numbers[copy] for numbers in chosen]).tolist()
            observed, expected, *_ = reference.step(dict(zip(engine.spec.agents, joint, strict=True)))
            np.testing.assert_allclose(rewards[copy], list(expected.values()), rtol=0, atol=1e-8)
            seen = np.concatenate([rows[copy].ravel() for rows in values])
            np.testing.assert_allclose(seen, np.concatenate(list(observed.values())), rtol=0, atol=1e-6)
            if number < horizon:
                positions = [body.state.p_pos for body in [*world.agents, *world.landmarks]]
                np.testing.assert_allclose(state.position[copy], positions, rtol=0, atol=1e-8)
                velocities = [agent.state.p_vel for agent in world.agents]
                np.testing.assert_allclose(state.velocity[copy], velocities, rtol=0, atol=1e-8)
