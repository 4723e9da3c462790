"""The batched Multi-Particle Environments against mpe2 and the vector-environment protocol."""

import numpy as np
import pytest
from against_mpe2 import (
    FIXED,
    MODULES,
    Case,
    adversary,
    assert_equals,
    crowded,
    random_actions,
    spread,
    tag,
    world_comm,
)

from marless.functions.environments.base import EnvTask
from marless.functions.environments.mpe.engine import WorldState
from marless.functions.environments.registry import make
from marless.functions.environments.task_names import ENVIRONMENTS

ALL = sorted(name for name in ENVIRONMENTS if name.startswith("mpe/"))
FREE = ("mpe/simple_spread", "mpe/simple_adversary")
CHASES = ("mpe/simple_tag", "mpe/simple_world_comm")
COMPETING = ("adversary", "crypto", "push", "tag", "world_comm")
CASES = [
    *FIXED,
    *(spread(n, local_ratio=0.3) for n in (1, 2, 3, 4)),
    *(adversary(n) for n in (1, 2, 3, 4)),
    *(tag(1, 3, 2), tag(1, 1, 0), tag(2, 3, 3)),
    *(world_comm(2, 4, 1, 2, 2), world_comm(1, 1, 0, 1, 0), world_comm(3, 2, 2, 3, 3)),
]


def larger(name):
    """The task with more agents than by default, if it has the option."""
    return EnvTask(name=name, agents=9 if name in (*FREE, *CHASES) else None)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("start", ["drawn", "crowded"])
@pytest.mark.parametrize("continuous", [False, True], ids=["choices", "numbers"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_task_equals_mpe2_step_by_step(case, continuous, start):
    rng = np.random.default_rng(5)
    engine = case.engine(num_envs=2, continuous=continuous)
    engine.reset(rng)
    if start == "crowded":
        engine.restore(crowded(engine, rng))
    assert_equals(case, engine, case.reference(continuous), rng)


@pytest.mark.parametrize("name", ALL)
def test_the_defaults_are_those_of_mpe2(name):
    engine, reference = make(EnvTask(name=name), num_envs=1), MODULES[name].parallel_env()
    assert engine.spec.agents == tuple(reference.possible_agents)
    assert engine.spec.horizon == reference.unwrapped.max_cycles
    for group in engine.spec.classes:
        for agent in group.agents:
            assert reference.observation_space(engine.spec.agents[agent]).shape == (group.observation_size,)
            assert reference.action_space(engine.spec.agents[agent]).n == group.actions


@pytest.mark.parametrize("name", ALL)
def test_numbers_have_the_bounds_of_mpe2(name):
    spec = Case(name).engine(num_envs=1, continuous=True).spec
    reference = Case(name).reference(continuous=True)
    for group in spec.classes:
        assert group.continuous
        for agent in group.agents:
            box = reference.action_space(spec.agents[agent])
            assert (group.low, group.high) == (tuple(box.low.tolist()), tuple(box.high.tolist()))
            assert box.shape == (group.actions,)


@pytest.mark.parametrize("name", ["mpe/simple_reference", "mpe/simple_spread"])
def test_default_own_reward_weight_is_that_of_mpe2(name):
    assert MODULES[name].parallel_env().unwrapped.local_ratio == 0.5
    played = []
    for options in ({}, {"local_ratio": 0.5}):
        engine = make(EnvTask(name=name, options=options), num_envs=2)
        engine.reset(np.random.default_rng(0))
        played.append(engine.step(random_actions(engine, np.random.default_rng(1))).rewards.tolist())
    assert played[0] == played[1]


@pytest.mark.parametrize("name", ALL)
def test_agents_with_equal_spaces_and_side_are_class(name):
    spec = make(larger(name), num_envs=1).spec
    sides = spec.sides or (0,) * len(spec.agents)
    looks = [(kind.observation_size, kind.actions, {sides[agent] for agent in kind.agents}) for kind in spec.classes]
    assert all(len(found) == 1 for _, _, found in looks)
    assert all(looks.count(look) == 1 for look in looks)


@pytest.mark.parametrize("name", ALL)
def test_adversaries_are_one_side_and_the_others_another(name):
    spec = make(larger(name), num_envs=1).spec
    expected = tuple(0 if "adversary" in agent or agent == "eve_0" else 1 for agent in spec.agents)
    assert spec.sides == (expected if name.endswith(COMPETING) else ())


def final_state(name, *actions, **options):
    """A step with these actions from rest in one environment, and the state after it."""
    engine = make(EnvTask(name=name, options=options), num_envs=1)
    engine.reset(np.random.default_rng(0))
    return engine.step(tuple(np.array([chosen]) for chosen in actions)), engine.snapshot()


def test_joint_choice_is_five_words_plus_movement():
    step, state = final_state("mpe/simple_reference", [5 * 7 + 2, 5 * 9 + 3])
    # A push of length 5 for 0.1: to the right, and down.
    np.testing.assert_allclose(state.velocity[0], [[0.5, 0.0], [0.0, -0.5]])
    assert state.said[0].argmax(axis=1).tolist() == [7, 9]
    assert state.said[0].sum() == 2
    heard = step.observation.values[0][0, :, 11:21]
    assert heard.argmax(axis=1).tolist() == [9, 7]


def test_numbers_push_right_minus_left_up_minus_down():
    strengths = [[1.0, 0.25, 0.75, 0.125, 0.0]]
    _, state = final_state("mpe/simple", np.array(strengths, np.float32), continuous_actions=True)
    np.testing.assert_allclose(state.velocity[0, 0], [0.25, -0.0625])


def test_numbers_are_clipped_to_their_bounds():
    beyond, within = ([[0.0, a, b, 0.0, 0.0]] for a, b in ((-7.0, 9.0), (0.0, 1.0)))
    states = [final_state("mpe/simple", np.array(x, np.float32), continuous_actions=True)[1] for x in (beyond, within)]
    assert states[0].velocity.tolist() == states[1].velocity.tolist() == [[[0.5, 0.0]]]


@pytest.mark.parametrize(
    ("eve", "bob", "expected"), [(0, 0, (0, 0, 0)), (0, 1, (0, -2, -2)), (1, 0, (-2, 2, 2)), (1, 3, (-2, 0, 0))]
)
def test_wrong_guess_costs_two_and_good_get_it(eve, bob, expected):
    engine = make(EnvTask(name="mpe/simple_crypto"), num_envs=1)
    engine.reset(np.random.default_rng(0))
    state = engine.snapshot()
    engine.restore(WorldState(state.position, state.velocity, np.array([[0, 1]]), state.said, cycle=0))
    step = engine.step((np.array([[eve]]), np.array([[bob, 2]])))
    assert tuple(step.rewards[0]) == expected
    assert step.observation.values[0][0, 0].tolist() == [0, 0, 1, 0]  # Alice's message
    assert step.observation.values[1][0].tolist() == [[0, 1, 0, 0, 0, 0, 1, 0], [1, 0, 0, 0, 0, 1, 0, 0]]


def test_messages_do_not_outlive_the_episode():
    engine = make(EnvTask(name="mpe/simple_speaker_listener", options={"max_cycles": 1}), num_envs=2)
    engine.reset(np.random.default_rng(0))
    step = engine.step((np.ones((2, 1), int), np.zeros((2, 1), int)))
    assert step.final.values[1][:, 0, 8:].tolist() == [[0, 1, 0]] * 2
    assert step.observation.values[1][:, 0, 8:].tolist() == [[0, 0, 0]] * 2


def test_forest_agents_are_seen_inside_and_by_leader():
    engine = make(
        EnvTask(name="mpe/simple_world_comm", options={"num_good": 1, "num_adversaries": 3, "num_obstacles": 0}),
        num_envs=1,
    )
    engine.reset(np.random.default_rng(0))
    # The leader and the second follower outside, the first follower and the prey in the first of two forests.
    agents = [[0.9, 0.9], [0.1, 0.0], [-0.9, 0.9], [-0.1, 0.0]]
    landmarks = [[0.9, 0.0], [0.9, 0.2], [0.0, 0.0], [0.0, -0.9]]
    velocity = np.array([[[0.0, 0.0]] * 3 + [[0.3, 0.2]]])
    state = WorldState(np.array([agents + landmarks]), velocity, np.zeros((1, 0), int), np.zeros((1, 4, 4)), cycle=0)
    leader, followers, prey = (values[0] for values in engine.restore(state).values)
    # Columns of the others: 12 to 18, then the speed of the prey and the two forests.
    np.testing.assert_allclose(leader[0, 12:22], [-0.8, -0.9, -1.8, 0, -1, -0.9, 0.3, 0.2, -1, -1], atol=1e-7)
    np.testing.assert_allclose(followers[0, 12:22], [0, 0, 0, 0, -0.2, 0, 0.3, 0.2, 1, -1], atol=1e-7)
    np.testing.assert_allclose(followers[1, 12:22], [1.8, 0, 0, 0, 0, 0, 0, 0, -1, -1], atol=1e-7)
    np.testing.assert_allclose(prey[0, 12:20], [0, 0, 0.2, 0, 0, 0, 1, -1], atol=1e-7)


@pytest.mark.parametrize("name", ALL)
def test_starts_are_uniform_and_at_rest(name):
    engine = make(EnvTask(name=name), num_envs=20_000)
    engine.reset(np.random.default_rng(0))
    state = engine.snapshot()
    assert not state.velocity.any()
    assert not state.said.any()
    positions = state.position
    if name in CHASES:
        positions[:, len(engine.spec.agents) :] /= 0.9
    assert np.abs(positions).max() <= 1
    # A uniform variable on [-1, 1] has mean 0, variance 1/3 and fourth moment 1/5.
    error = 5 / np.sqrt(engine.num_envs)
    assert np.abs(positions.mean(axis=0)).max() < error * np.sqrt(1 / 3)
    assert np.abs(np.square(positions).mean(axis=0) - 1 / 3).max() < error * np.sqrt(1 / 5 - 1 / 9)
    landmarks = positions.shape[1] - len(engine.spec.agents)
    for goal in state.goals.T:
        assert np.abs(np.bincount(goal) / engine.num_envs - 1 / landmarks).max() < error / 2


def test_entities_are_what_is_seen_without_them():
    flat, table = (make(EnvTask(name="mpe/simple_spread", agents=4, options=o), 5) for o in ({}, {"entities": True}))
    plain, seen = (environment.reset(np.random.default_rng(3)) for environment in (flat, table))
    assert table.spec.classes[0].observation_shape == (8, 7)
    actions = np.random.default_rng(4).integers(5, size=(5, 4))
    for _ in range(6):
        rows, entities = plain.values[0], seen.values[0].reshape(5, 4, 8, 7)
        itself, others = entities[:, :, 0], entities[:, :, 1:]
        np.testing.assert_array_equal(np.concatenate([itself[..., 2:4], itself[..., :2]], axis=-1), rows[..., :4])
        np.testing.assert_array_equal(others[..., :2].reshape(5, 4, 14), rows[..., 4:18])
        # Itself, four landmarks, three others.
        np.testing.assert_array_equal(entities[0, 0, :, 4:].argmax(axis=-1), [0, 1, 1, 1, 1, 2, 2, 2])
        assert (entities[..., 4:].sum(axis=-1) == 1).all() and not others[..., 2:4].any()
        plain, seen = flat.step((actions,)).observation, table.step((actions,)).observation


def test_random_agents_earn_published_simple_spread_return():
    rng = np.random.default_rng(1)
    engine = make(EnvTask(name="mpe/simple_spread"), num_envs=2000)
    engine.reset(rng)
    returns = sum(engine.step(random_actions(engine, rng)).rewards.sum(axis=1) for _ in range(25))
    error = 3 * returns.std() / np.sqrt(len(returns))
    assert -81 - error < returns.mean() < -79 + error


@pytest.mark.parametrize("name", ALL)
def test_every_environment_restarts_after_max_cycles(name):
    rng = np.random.default_rng(2)
    engine = make(EnvTask(name=name, options={"max_cycles": 3}), num_envs=5)
    engine.reset(rng)
    for _ in range(2):
        for _ in range(2):
            assert not engine.step(random_actions(engine, rng)).ended.any()
        step = engine.step(random_actions(engine, rng))
        assert step.truncated.all()
        assert not step.terminated.any()
        assert not np.array_equal(step.final.values[0], step.observation.values[0])
        assert not engine.snapshot().velocity.any()
        assert engine.snapshot().cycle == 0


@pytest.mark.parametrize("name", ALL)
def test_environment_is_independent_of_other_environments(name):
    rng = np.random.default_rng(6)
    many, one = (make(larger(name), num_envs=num_envs) for num_envs in (37, 1))
    many.reset(rng)
    one.reset(rng)
    state = crowded(many, rng)
    many.restore(state)
    parts = (part[20:21] for part in (state.position, state.velocity, state.goals, state.said))
    one.restore(WorldState(*parts, cycle=0))
    for _ in range(20):
        actions = random_actions(many, rng)
        among, alone = many.step(actions), one.step(tuple(numbers[20:21] for numbers in actions))
        assert among.rewards[20].tobytes() == alone.rewards[0].tobytes()
        for left, right in zip(among.observation.values, alone.observation.values, strict=True):
            assert left[20].tobytes() == right[0].tobytes()


@pytest.mark.parametrize("name", ALL)
def test_environment_block_has_bytes_of_own_engine(name):
    choices = np.random.default_rng(8)
    joint, *alone = (make(EnvTask(name=name, options={"max_cycles": 3}), num_envs=num_envs) for num_envs in (10, 5, 5))
    joint.reset_blocks([np.random.default_rng(seed) for seed in range(2)])
    for seed, engine in enumerate(alone):
        engine.reset(np.random.default_rng(seed))
    for _ in range(5):  # beyond one reset
        actions = random_actions(joint, choices)
        among = joint.step(actions)
        for block, engine in zip((slice(0, 5), slice(5, 10)), alone, strict=True):
            step = engine.step(tuple(chosen[block] for chosen in actions))
            assert among.rewards[block].tobytes() == step.rewards.tobytes()
            for left, right in zip(among.observation.values, step.observation.values, strict=True):
                assert left[block].tobytes() == right.tobytes()


@pytest.mark.parametrize("name", ALL)
def test_a_restored_state_continues_as_the_first_time(name):
    rng = np.random.default_rng(7)
    engine = make(larger(name), num_envs=4)
    engine.reset(rng)
    actions = [random_actions(engine, rng) for _ in range(5)]
    seen = engine.step(actions[0]).observation
    state = engine.snapshot()
    first = [engine.step(chosen).rewards for chosen in actions[1:]]
    engine.reset(rng)
    for restored, values in zip(engine.restore(state).values, seen.values, strict=True):
        np.testing.assert_array_equal(restored, values)
    np.testing.assert_array_equal([engine.step(chosen).rewards for chosen in actions[1:]], first)
    assert engine.snapshot().cycle == 5


@pytest.mark.parametrize(
    ("name", "agents", "options", "good", "adversaries"),
    [
        ("mpe/simple_tag", None, {"num_good": 2}, 2, 3),
        ("mpe/simple_tag", 7, {}, 1, 6),
        ("mpe/simple_tag", 7, {"num_good": 3}, 3, 4),
        ("mpe/simple_tag", 7, {"num_adversaries": 2}, 5, 2),
        ("mpe/simple_tag", 7, {"num_adversaries": 2, "num_good": 5}, 5, 2),
        ("mpe/simple_world_comm", 7, {}, 2, 5),
    ],
)
def test_a_chase_s_sides_follow_from_its_agents(name, agents, options, good, adversaries):
    spec = make(EnvTask(name=name, agents=agents, options=options), num_envs=1).spec
    assert spec.sides == (0,) * adversaries + (1,) * good
    assert len(spec.agents) == good + adversaries


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (
            EnvTask(name="mpe/simple_sprawl"),
            "no environment is called mpe/simple_sprawl; did you mean mpe/simple_spread",
        ),
        (EnvTask(name="mpe/simple_spread", agents=0), "agents is a whole number from 1"),
        (EnvTask(name="mpe/simple_adversary", agents=1), "agents is a whole number from 2"),
        (EnvTask(name="mpe/simple_spread", options={"speed": 1}), "no option 'speed' .*local_ratio, max_cycles"),
        (
            EnvTask(name="mpe/simple_adversary", options={"local_ratio": 0.5}),
            "no option 'local_ratio' .*: continuous_actions, exact_physics, max",
        ),
        (EnvTask(name="mpe/simple_spread", options={"local_ratio": 1.5}), "local_ratio is a number from 0 to 1"),
        (EnvTask(name="mpe/simple_spread", options={"local_ratio": "half"}), "local_ratio is a number from 0 to 1"),
        (EnvTask(name="mpe/simple_spread", options={"max_cycles": 0}), "max_cycles is a whole number"),
        (EnvTask(name="mpe/simple_spread", options={"max_cycles": True}), "max_cycles is a whole number"),
        (
            EnvTask(name="mpe/simple_push", options={"continuous_actions": 1}),
            "continuous_actions is true or false, not 1",
        ),
        (EnvTask(name="mpe/simple_crypto", agents=4), "agents is 3, not 4"),
        (EnvTask(name="mpe/simple_tag", options={"num_good": 0}), "num_good is a whole number from 1, not 0"),
        (EnvTask(name="mpe/simple_tag", options={"num_obstacles": -1}), "num_obstacles is a whole number from 0"),
        (EnvTask(name="mpe/simple_tag", agents=1), "agents is 1; num_good .* together, not 1 and 0"),
        (EnvTask(name="mpe/simple_tag", agents=3, options={"num_good": 3}), "agents is 3; .* not 3 and 0"),
        (
            EnvTask(name="mpe/simple_tag", agents=3, options={"num_good": 3, "num_adversaries": 3}),
            "agents is 3; .* not 3 and 3",
        ),
        (EnvTask(name="mpe/simple_world_comm", options={"num_food": 0}), "num_food is a whole number from 1"),
    ],
)
def test_an_impossible_task_is_refused_in_one_line(task, message):
    with pytest.raises(ValueError, match=message) as refusal:
        make(task, num_envs=1)
    assert "\n" not in str(refusal.value)


def test_no_environments_are_refused():
    with pytest.raises(ValueError, match="num_envs is 0; at least 1 is needed"):
        make(EnvTask(name="mpe/simple_spread"), num_envs=0)


def test_environment_without_reset_does_not_step():
    engine = make(EnvTask(name="mpe/simple_spread"), num_envs=2)
    with pytest.raises(RuntimeError, match="reset"):
        engine.step(random_actions(engine, np.random.default_rng(0)))
