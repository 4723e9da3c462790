"""Episodes of the batched Multi-Particle Environments, each played again in mpe2 from the same start."""

from dataclasses import dataclass, field

import numpy as np
from mpe2 import (
    simple_adversary_v3,
    simple_crypto_v3,
    simple_push_v3,
    simple_reference_v3,
    simple_speaker_listener_v4,
    simple_spread_v3,
    simple_tag_v3,
    simple_v3,
    simple_world_comm_v3,
)

from marless.functions.environments.base import EnvTask
from marless.functions.environments.mpe.engine import WorldState
from marless.functions.environments.registry import make

MODULES = {
    "mpe/simple": simple_v3,
    "mpe/simple_adversary": simple_adversary_v3,
    "mpe/simple_crypto": simple_crypto_v3,
    "mpe/simple_push": simple_push_v3,
    "mpe/simple_reference": simple_reference_v3,
    "mpe/simple_speaker_listener": simple_speaker_listener_v4,
    "mpe/simple_spread": simple_spread_v3,
    "mpe/simple_tag": simple_tag_v3,
    "mpe/simple_world_comm": simple_world_comm_v3,
}


@dataclass(frozen=True)
class Case:
    """A task of ours. `counts` are mpe2's options for our option `agents`."""

    name: str
    agents: int | None = None
    options: dict = field(default_factory=dict)
    counts: dict = field(default_factory=dict)

    def __str__(self):
        return "-".join([self.name, *(f"{name}={value}" for name, value in (self.counts | self.options).items())])

    def engine(self, num_envs, continuous=False):
        options = self.options | ({"continuous_actions": True} if continuous else {})
        return make(EnvTask(name=self.name, agents=self.agents, options=options), num_envs)

    def reference(self, continuous=False):
        return MODULES[self.name].parallel_env(**self.options, **self.counts, continuous_actions=continuous)


def spread(n, **options):
    return Case("mpe/simple_spread", n, options, {"N": n})


def adversary(n):
    return Case("mpe/simple_adversary", n + 1, {}, {"N": n})


def tag(good, adversaries, obstacles):
    options = {"num_good": good, "num_adversaries": adversaries, "num_obstacles": obstacles}
    return Case("mpe/simple_tag", None, options)


def world_comm(good, adversaries, obstacles, food, forests):
    options = {"num_good": good, "num_adversaries": adversaries, "num_obstacles": obstacles}
    return Case("mpe/simple_world_comm", None, options | {"num_food": food, "num_forests": forests})


FIXED = [
    Case("mpe/simple"),
    Case("mpe/simple_crypto"),
    Case("mpe/simple_push"),
    Case("mpe/simple_reference"),
    Case("mpe/simple_reference", options={"local_ratio": 0.3}),
    Case("mpe/simple_speaker_listener"),
]


def random_actions(engine, rng):
    """Choices, or numbers that include zeros, ones and agents at rest."""
    actions = []
    for kind in engine.spec.classes:
        shape = (engine.num_envs, len(kind.agents))
        if not kind.continuous:
            actions.append(rng.integers(0, kind.actions, shape))
            continue
        numbers = rng.uniform(kind.low, kind.high, (*shape, kind.actions)).astype(np.float32)
        numbers[rng.random(numbers.shape) < 0.1] = 0
        numbers[rng.random(numbers.shape) < 0.1] = 1
        numbers[rng.random(shape) < 0.1] = 0
        actions.append(numbers)
    return tuple(actions)


def crowded(engine, rng, every=1):
    state = engine.snapshot()
    position, velocity = state.position.copy(), state.velocity.copy()
    some = position[::every]
    some[:] = rng.uniform(-1, 1, some.shape)
    some[:, : velocity.shape[1]] *= 0.3
    velocity[::every] = rng.normal(size=velocity[::every].shape)
    return WorldState(position, velocity, state.goals, state.said, cycle=0)


def place(name, world, state, copy):
    for body, position in zip([*world.agents, *world.landmarks], state.position[copy], strict=True):
        body.state.p_pos = position.copy()
    for agent, velocity in zip(world.agents, state.velocity[copy], strict=True):
        agent.state.p_vel = velocity.copy()
    single_out(name, world, [world.landmarks[number] for number in state.goals[copy]])


def single_out(name, world, goals):
    """Set `goals` to the draws of the scenario's own reset."""
    if name == "mpe/simple_reference":
        for agent, goal in zip(world.agents, goals, strict=True):
            agent.goal_b = goal
    elif name == "mpe/simple_speaker_listener":
        world.agents[0].goal_b = goals[0]
    elif goals:
        for agent in world.agents:
            agent.goal_a = goals[0]
    if name == "mpe/simple_crypto":
        world.agents[2].key = goals[1].color
    if name == "mpe/simple_push":
        world.agents[1].color = np.full(3, 0.25)
        world.agents[1].color[goals[0].index + 1] += 0.5


def assert_equals(case, engine, reference, rng):
    """Plays one episode in every environment from `engine`'s state, and each again in `reference`.

    Rewards, observations and messages are equal to the last bit. Positions and velocities may differ by forces below
    1e-300: the engine avoids slow denormals in exp there, and mpe2 has zeros.
    """
    start = engine.snapshot()
    actions = [random_actions(engine, rng) for _ in range(engine.spec.horizon)]
    steps, states = [], []
    for chosen in actions:
        steps.append(engine.step(chosen))
        states.append(engine.snapshot())
    for copy in range(engine.num_envs):
        reference.reset(seed=0)
        place(case.name, reference.unwrapped.world, start, copy)
        for number, (chosen, step, state) in enumerate(zip(actions, steps, states, strict=True), start=1):
            answer = reference.step(actions_by_agent(engine.spec, chosen, copy))
            assert_same_step(engine.spec, step, copy, answer, ended=number == engine.spec.horizon)
            if number < engine.spec.horizon:
                assert_same_state(state, copy, reference.unwrapped.world)


def actions_by_agent(spec, actions, copy):
    given = {}
    for kind, chosen in zip(spec.classes, actions, strict=True):
        for agent, action in zip(kind.agents, chosen[copy], strict=True):
            given[spec.agents[agent]] = action.copy() if kind.continuous else int(action)
    return given


def assert_same_step(spec, step, copy, answer, ended):
    """Check the step of environment `copy` against PettingZoo's `answer`. `ended`: it is an episode's last step."""
    observed, rewards, terminated, truncated, _ = answer
    assert list(observed) == list(spec.agents)
    np.testing.assert_array_equal(step.rewards[copy], list(rewards.values()))
    assert [*truncated.values()] == [bool(step.truncated[copy])] * len(truncated) == [ended] * len(truncated)
    assert [*terminated.values()] == step.terminated[copy].tolist()
    seen = step.final if ended else step.observation
    for kind, values in zip(spec.classes, seen.values, strict=True):
        np.testing.assert_array_equal(values[copy], [observed[spec.agents[agent]] for agent in kind.agents])


def assert_same_state(state, copy, world):
    positions = [body.state.p_pos for body in [*world.agents, *world.landmarks]]
    velocities = [agent.state.p_vel for agent in world.agents]
    np.testing.assert_allclose(state.position[copy], positions, rtol=0, atol=1e-300)
    np.testing.assert_allclose(state.velocity[copy], velocities, rtol=0, atol=1e-300)
    for said, agent in zip(state.said[copy], world.agents, strict=True):
        if not agent.silent:
            np.testing.assert_array_equal(said, agent.state.c)
