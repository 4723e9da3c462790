"""The batched Multi-Particle Environments against mpe2 and the vector-environment protocol."""

import numpy as np
import pytest
from mpe2 import simple_adversary_v3, simple_speaker_listener_v4, simple_spread_v3, simple_tag_v3

from functions.environments.base import AgentClass, Task
from functions.environments.mpe import SCENARIOS, Engine, WorldState, make
from functions.environments.mpe.engine import Body, Scenario

BOTH = ("mpe/simple_spread", "mpe/simple_adversary")


def random_actions(engine, rng):
    return tuple(rng.integers(0, group.actions, (engine.copies, len(group.agents))) for group in engine.spec.classes)


def crowded(engine, rng):
    """A state in which the agents of most copies overlap and move."""
    state = engine.snapshot()
    position = rng.uniform(-1, 1, state.position.shape)
    position[:, : state.velocity.shape[1]] *= 0.3
    return WorldState(position, rng.normal(size=state.velocity.shape), state.goals, cycle=0)


def place(world, state, copy):
    """Puts one copy's state into a world of mpe2."""
    for body, position in zip([*world.agents, *world.landmarks], state.position[copy], strict=True):
        body.state.p_pos = position.copy()
    for agent, velocity in zip(world.agents, state.velocity[copy], strict=True):
        agent.state.p_vel = velocity.copy()
        if state.goals.size:
            goal = "goal_b" if hasattr(agent, "_goal_b") else "goal_a"
            setattr(agent, goal, world.landmarks[state.goals[copy, 0]])


def assert_equals(engine, reference, rng):
    """Plays one episode in every copy, and each again in `reference`, a parallel environment of mpe2."""
    start = engine.snapshot()
    actions = [random_actions(engine, rng) for _ in range(engine.spec.horizon)]
    steps, states = [], []
    for chosen in actions:
        steps.append(engine.step(chosen))
        states.append(engine.snapshot())
    for copy in range(engine.copies):
        reference.reset(seed=0)
        world = reference.unwrapped.world
        place(world, start, copy)
        for number, (chosen, step, state) in enumerate(zip(actions, steps, states, strict=True), start=1):
            given = {}
            for group, numbers in zip(engine.spec.classes, chosen, strict=True):
                given |= {engine.spec.agents[a]: n for a, n in zip(group.agents, numbers[copy].tolist(), strict=True)}
            observed, rewards, terminated, truncated, _ = reference.step(given)
            assert list(observed) == list(engine.spec.agents)
            np.testing.assert_allclose(step.rewards[copy], list(rewards.values()), rtol=0, atol=1e-8)
            ended = number == engine.spec.horizon
            assert [*truncated.values()] == [bool(step.truncated[copy])] * len(truncated) == [ended] * len(truncated)
            assert [*terminated.values()] == step.terminated[copy].tolist()
            seen = step.final if ended else step.observation
            for group, values in zip(engine.spec.classes, seen.values, strict=True):
                expected = [observed[engine.spec.agents[agent]] for agent in group.agents]
                np.testing.assert_allclose(values[copy], expected, rtol=0, atol=1e-6)
            if not ended:
                positions = [body.state.p_pos for body in [*world.agents, *world.landmarks]]
                np.testing.assert_allclose(state.position[copy], positions, rtol=0, atol=1e-8)
                velocities = [agent.state.p_vel for agent in world.agents]
                np.testing.assert_allclose(state.velocity[copy], velocities, rtol=0, atol=1e-8)


@pytest.mark.parametrize("start", ["drawn", "crowded"])
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_simple_spread_equals_mpe2_step_by_step(n, start):
    rng = np.random.default_rng(n)
    engine = make(Task(name="mpe/simple_spread", agents=n, options={"local_ratio": 0.3}), copies=4)
    engine.reset(rng)
    if start == "crowded":
        engine.restore(crowded(engine, rng))
    assert_equals(engine, simple_spread_v3.parallel_env(N=n, local_ratio=0.3), rng)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_simple_adversary_equals_mpe2_step_by_step(n):
    rng = np.random.default_rng(n)
    engine = make(Task(name="mpe/simple_adversary", agents=n + 1), copies=4)
    engine.reset(rng)
    assert_equals(engine, simple_adversary_v3.parallel_env(N=n), rng)


def test_the_defaults_are_those_of_mpe2():
    for name, module in (("mpe/simple_spread", simple_spread_v3), ("mpe/simple_adversary", simple_adversary_v3)):
        engine, reference = make(Task(name=name), copies=1), module.parallel_env()
        assert engine.spec.agents == tuple(reference.possible_agents)
        assert engine.spec.horizon == reference.unwrapped.max_cycles
        for group in engine.spec.classes:
            for agent in group.agents:
                assert reference.observation_space(engine.spec.agents[agent]).shape == (group.observation_size,)
                assert reference.action_space(engine.spec.agents[agent]).n == group.actions
    assert simple_spread_v3.parallel_env().unwrapped.local_ratio == 0.5


class Tag(Scenario):
    """simple_tag of mpe2: three chasers, one prey, obstacles, limited speeds; what a further scenario amounts to."""

    def __init__(self):
        chasers = [Body(f"adversary_{i}", 0.075, collides=True, acceleration=3.0, max_speed=1.0) for i in range(3)]
        self.agents = (*chasers, Body("agent_0", 0.05, collides=True, acceleration=4.0, max_speed=1.3))
        self.landmarks = tuple(Body(f"landmark_{i}", 0.2, collides=True) for i in range(2))
        self.classes = (AgentClass("adversary", (0, 1, 2), 16, 5), AgentClass("agent", (3,), 14, 5))

    def observe(self, world, features):
        for rows, members in zip(features, (slice(0, 3), slice(3, 4)), strict=True):
            rows[:, 0:2] = world.velocity[members]
            rows[:, 2:4] = world.position[members]
            rows[:, 4:14] = world.surroundings(members)
        features[0][:, 14:16] = world.velocity[3]

    def reward(self, world, out):
        caught = (world.distance[3, :3] < 0.075 + 0.05).sum(axis=0)
        outside = np.abs(world.position[3])
        far = np.minimum(np.exp(2 * outside - 2), 10)
        bound = np.where(outside < 0.9, 0, np.where(outside < 1.0, (outside - 0.9) * 10, far))
        out[:3] = 10 * caught
        out[3] = -10 * caught - bound.sum(axis=0)


class SpeakerListener(Scenario):
    """simple_speaker_listener of mpe2: one says which landmark, by colour, the other is to reach."""

    goals = 1
    colours = 0.15 + 0.5 * np.eye(3)

    def __init__(self):
        self.agents = (Body("speaker_0", 0.075, collides=False), Body("listener_0", 0.075, collides=False))
        self.landmarks = tuple(Body(f"landmark_{i}", 0.04, collides=False) for i in range(3))
        self.classes = (AgentClass("speaker", (0,), 3, 3), AgentClass("listener", (1,), 11, 5))
        self.said = 0.0

    def moves(self, actions):
        spoken, moved = actions
        self.said = np.eye(3)[spoken[:, 0]].T
        return np.zeros_like(spoken), moved

    def observe(self, world, features):
        features[0][0] = self.colours[world.goals[0]].T
        features[1][0, 0:2] = world.velocity[1]
        features[1][0, 2:8] = world.surroundings(slice(1, 2))[0, :6]
        features[1][0, 8:11] = self.said

    def reward(self, world, out):
        out[:] = -np.square(world.distance[1, world.bodies])


@pytest.mark.parametrize(
    ("scenario", "module"),
    [(Tag, simple_tag_v3), (SpeakerListener, simple_speaker_listener_v4)],
    ids=["tag", "speaker"],
)
def test_a_further_scenario_is_one_class_and_equals_mpe2(scenario, module):
    rng = np.random.default_rng(5)
    engine = Engine(scenario(), copies=6, max_cycles=25)
    engine.reset(rng)
    if scenario is Tag:
        engine.restore(crowded(engine, rng))
    assert_equals(engine, module.parallel_env(), rng)


@pytest.mark.parametrize("name", BOTH)
def test_starts_are_uniform_and_at_rest(name):
    engine = make(Task(name=name, agents=3), copies=20_000)
    engine.reset(np.random.default_rng(0))
    state = engine.snapshot()
    assert not state.velocity.any()
    assert np.abs(state.position).max() <= 1
    # A uniform variable on [-1, 1] has mean 0, variance 1/3 and fourth moment 1/5.
    error = 5 / np.sqrt(engine.copies)
    assert np.abs(state.position.mean(axis=0)).max() < error * np.sqrt(1 / 3)
    assert np.abs(np.square(state.position).mean(axis=0) - 1 / 3).max() < error * np.sqrt(1 / 5 - 1 / 9)
    if state.goals.size:
        assert np.abs(np.bincount(state.goals[:, 0]) / engine.copies - 1 / 2).max() < error / 2


def test_random_agents_earn_on_simple_spread_what_is_published():
    rng = np.random.default_rng(1)
    engine = make(Task(name="mpe/simple_spread"), copies=2000)
    engine.reset(rng)
    returns = sum(engine.step(random_actions(engine, rng)).rewards.sum(axis=1) for _ in range(25))
    error = 3 * returns.std() / np.sqrt(len(returns))
    assert -81 - error < returns.mean() < -79 + error


@pytest.mark.parametrize("name", BOTH)
def test_every_copy_is_cut_and_starts_anew_after_max_cycles(name):
    rng = np.random.default_rng(2)
    engine = make(Task(name=name, options={"max_cycles": 3}), copies=5)
    engine.reset(rng)
    for _ in range(2):
        for _ in range(2):
            step = engine.step(random_actions(engine, rng))
            assert step.final is None
            assert not step.truncated.any()
            assert not step.ended.any()
        step = engine.step(random_actions(engine, rng))
        assert step.truncated.all()
        assert step.ended.all()
        assert not step.terminated.any()
        assert not np.array_equal(step.final.values[0], step.observation.values[0])
        assert not engine.snapshot().velocity.any()
        assert engine.snapshot().cycle == 0


@pytest.mark.parametrize("name", BOTH)
def test_arrays_have_the_promised_shapes_and_types(name):
    engine = make(Task(name=name, agents=4), copies=5)
    first = engine.reset(np.random.default_rng(0))
    step = engine.step(random_actions(engine, np.random.default_rng(1)))
    for observation in (first, step.observation):
        for group, values in zip(engine.spec.classes, observation.values, strict=True):
            assert values.shape == (5, len(group.agents), group.observation_size)
            assert values.dtype == np.float32
        assert observation.alive.shape == (5, 4)
        assert observation.alive.all()
        assert observation.masks is None
        assert observation.state is None
    assert (step.rewards.shape, step.rewards.dtype) == ((5, 4), np.float64)
    assert step.terminated.shape == (5, 4)
    assert step.truncated.shape == step.ended.shape == (5,)


@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("name", BOTH)
def test_what_a_step_returned_is_not_written_again(name, copies):
    rng = np.random.default_rng(3)
    engine = make(Task(name=name, agents=2), copies=copies)
    engine.reset(rng)
    step = engine.step(random_actions(engine, rng))
    before = [array.copy() for array in (*step.observation.values, step.rewards)]
    engine.step(random_actions(engine, rng))
    for array, copy in zip((*step.observation.values, step.rewards), before, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("name", BOTH)
def test_the_same_generator_gives_the_same_bytes(name):
    played = []
    for _ in range(2):
        rng = np.random.default_rng(4)
        engine = make(Task(name=name, options={"max_cycles": 4}), copies=3)
        engine.reset(rng)
        steps = [engine.step(random_actions(engine, rng)) for _ in range(6)]
        played.append([array.tobytes() for step in steps for array in (*step.observation.values, step.rewards)])
    assert played[0] == played[1]


@pytest.mark.parametrize("name", BOTH)
def test_a_copy_does_not_depend_on_the_other_copies(name):
    rng = np.random.default_rng(6)
    many, one = (make(Task(name=name, agents=9), copies=copies) for copies in (37, 1))
    many.reset(rng)
    one.reset(rng)
    state = crowded(many, rng)
    many.restore(state)
    one.restore(WorldState(state.position[20:21], state.velocity[20:21], state.goals[20:21], cycle=0))
    for _ in range(20):
        actions = random_actions(many, rng)
        among, alone = many.step(actions), one.step(tuple(numbers[20:21] for numbers in actions))
        assert among.rewards[20].tobytes() == alone.rewards[0].tobytes()
        for left, right in zip(among.observation.values, alone.observation.values, strict=True):
            assert left[20].tobytes() == right[0].tobytes()


def test_a_restored_state_continues_as_the_first_time():
    rng = np.random.default_rng(7)
    engine = make(Task(name="mpe/simple_adversary", agents=6), copies=4)
    engine.reset(rng)
    actions = [random_actions(engine, rng) for _ in range(5)]
    seen = engine.step(actions[0]).observation
    state = engine.snapshot()
    first = [engine.step(chosen).rewards for chosen in actions[1:]]
    engine.reset(rng)
    np.testing.assert_array_equal(engine.restore(state).values[1], seen.values[1])
    np.testing.assert_array_equal([engine.step(chosen).rewards for chosen in actions[1:]], first)
    assert engine.snapshot().cycle == 5


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (Task(name="mpe/simple_sprawl"), "no task 'mpe/simple_sprawl' .*mpe/simple_adversary, mpe/simple_spread"),
        (Task(name="mpe/simple_spread", agents=0), "agents is a whole number from 1"),
        (Task(name="mpe/simple_adversary", agents=1), "agents is a whole number from 2"),
        (Task(name="mpe/simple_spread", options={"speed": 1}), "no option 'speed' .*local_ratio, max_cycles"),
        (Task(name="mpe/simple_adversary", options={"local_ratio": 0.5}), "no option 'local_ratio' .*: max_cycles"),
        (Task(name="mpe/simple_spread", options={"local_ratio": 1.5}), "local_ratio is a number from 0 to 1"),
        (Task(name="mpe/simple_spread", options={"local_ratio": "half"}), "local_ratio is a number from 0 to 1"),
        (Task(name="mpe/simple_spread", options={"max_cycles": 0}), "max_cycles is a whole number"),
        (Task(name="mpe/simple_spread", options={"max_cycles": True}), "max_cycles is a whole number"),
    ],
)
def test_an_impossible_task_is_refused_in_one_line(task, message):
    with pytest.raises(ValueError, match=message) as refusal:
        make(task, copies=1)
    assert "\n" not in str(refusal.value)


def test_no_copies_are_refused():
    with pytest.raises(ValueError, match="copies is a whole number from 1"):
        make(Task(name="mpe/simple_spread"), copies=0)


def test_an_environment_that_was_not_reset_does_not_step():
    engine = make(Task(name="mpe/simple_spread"), copies=2)
    with pytest.raises(RuntimeError, match="reset"):
        engine.step(random_actions(engine, np.random.default_rng(0)))


def test_every_task_is_listed():
    assert sorted(SCENARIOS) == sorted(BOTH)
