"""The games pay like in their papers, and time limits act in the corridor as its module documents."""

import itertools

import numpy as np
import pytest

from marless.functions.algorithms.off_policy import td
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.testing.environments import check

CLIMBING = [[11, -30, 0], [-30, 7, 6], [0, 0, 5]]
PENALTY = [[10, 0, -7], [0, 2, 0], [-7, 0, 10]]
GAMES = [
    EnvTask(name="matrix/climbing"),
    EnvTask(name="matrix/penalty", agents=2, options={"k": -7}),
    EnvTask(name="matrix/two_step"),
]


@pytest.mark.parametrize("task", GAMES, ids=str)
def test_a_game_keeps_every_promise_of_an_environment(task):
    check(lambda num_envs: registry.make(task, num_envs), random_starts=False)


def all_pairs(actions):
    return np.array(list(itertools.product(range(actions), repeat=2)))


@pytest.mark.parametrize(("task", "table"), [(GAMES[0], CLIMBING), (GAMES[1], PENALTY)], ids=str)
def test_action_pair_earns_half_of_table_each(task, table):
    environment = registry.make(task, 9)
    seen = environment.reset(np.random.default_rng(0))
    np.testing.assert_array_equal(seen.values[0], np.ones((9, 2, 1)))
    step = environment.step((all_pairs(3),))
    np.testing.assert_array_equal(step.rewards, np.repeat(np.ravel(table)[:, None] / 2, 2, axis=1))
    assert step.terminated.all() and step.ended.all() and not step.truncated.any()


def test_penalty_is_hundred_by_default():
    environment = registry.make(EnvTask(name="matrix/penalty"), 1)
    environment.reset(np.random.default_rng(0))
    assert environment.step((np.array([[0, 2]]),)).rewards.sum() == -100


def test_the_two_steps_pay_what_the_paper_says():
    environment = registry.make(GAMES[2], 16)
    plans = np.array(list(itertools.product(range(2), repeat=4)))  # agent_0, agent_1 now, then again
    seen = environment.reset(np.random.default_rng(0))
    np.testing.assert_array_equal(seen.state, np.tile([1, 0, 0], (16, 1)))
    step = environment.step((plans[:, :2],))
    assert not step.rewards.any() and not step.ended.any()
    expected = np.where(plans[:, :1] == 0, [[0, 1, 0]], [[0, 0, 1]])  # only agent_0's action counts
    np.testing.assert_array_equal(step.observation.state, expected)
    np.testing.assert_array_equal(step.observation.values[0], np.repeat(expected[:, None], 2, axis=1))
    step = environment.step((plans[:, 2:],))
    one, two = plans[:, 2], plans[:, 3]
    paid = np.where(plans[:, 0] == 0, 7, np.where(one & two, 8, one + two))
    np.testing.assert_array_equal(step.rewards.sum(axis=1), paid)
    assert step.terminated.all() and step.ended.all()
    assert paid.max() == 8
    np.testing.assert_array_equal(step.observation.state, np.tile([1, 0, 0], (16, 1)))


def test_no_sum_of_utilities_prefers_better_game():
    # The additive fit that the module names, by least squares over the four pairs of actions.
    pairs = all_pairs(2)
    features = np.concatenate([np.eye(2)[pairs[:, 0]], np.eye(2)[pairs[:, 1]]], axis=1)
    fitted = features @ np.linalg.lstsq(features, np.array([0.0, 1, 1, 8]), rcond=None)[0]
    np.testing.assert_allclose(fitted, [-1.5, 2.5, 2.5, 6.5], atol=1e-12)
    assert fitted.max() < 7


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (EnvTask(name="matrix/climbing", agents=3), "matrix/climbing: task.agents is 3; the game is for 2"),
        (
            EnvTask(name="matrix/penalty", options={"k": 1.0}),
            r"matrix/penalty: task.options.k: it is not a number of at most 0",
        ),
        (EnvTask(name="matrix/two_step", options={"k": 1.0}), "matrix/two_step: task.options: there is no k here"),
        (EnvTask(name="toy/corridor", agents=0), "task.agents is 0; at least 1 walks"),
        (
            EnvTask(name="toy/corridor", options={"legs": 1}),
            r"toy/corridor: task.options.legs: it is not a whole number of at least 2",
        ),
        (
            EnvTask(name="toy/corridor", options={"prize": 2}),
            r"prize is 2.0; at the corridor's start it is worth 1.46, less than 1.5",  # 2 · 0.9³
        ),
    ],
)
def test_a_game_says_what_it_cannot_be(task, message):
    with pytest.raises(ValueError, match=message):
        registry.make(task, 1)


CORRIDORS = [
    EnvTask(name="toy/corridor"),
    EnvTask(name="toy/corridor", agents=1, options={"horizon": 1, "legs": 3}),
    EnvTask(name="toy/corridor", agents=4, options={"horizon": 3, "legs": 2, "prize": 20}),
]


@pytest.mark.parametrize("task", CORRIDORS, ids=str)
def test_a_corridor_keeps_every_promise_of_an_environment(task):
    check(lambda num_envs: registry.make(task, num_envs), episodes=8)


def transitions(task, steps):
    """Random play of a single agent: cell, action, reward, next cell, terminated, truncated, each ``[rows]``."""
    environment = registry.make(EnvTask(name=task.name, agents=1, options=task.options), 50)
    rng = np.random.default_rng(0)
    seen = environment.reset(rng)
    rows = []
    for _ in range(steps):
        actions = rng.integers(2, size=(50, 1))
        step = environment.step((actions,))
        after = step.observation.values[0]
        if step.final is not None:
            after = np.where(step.ended[:, None, None], step.final.values[0], after)
        cells = (values[:, 0].argmax(axis=1) for values in (seen.values[0], after))
        rows.append(
            [next(cells), actions[:, 0], step.rewards[:, 0], next(cells), step.terminated[:, 0], step.truncated]
        )
        seen = step.observation
    return [np.concatenate(part) for part in zip(*rows, strict=True)]


def learned(task, over):
    """Action values ``[cells, 2]`` by dynamic programming on the transitions. `over` selects the end flags."""
    cell, action, reward, following, terminated, truncated = transitions(task, 40)
    values = np.zeros((cell.max() + 1, 2))
    for _ in range(len(values) + 1):  # the corridor's length bounds the number of iterations
        targets = td.one_step(reward, values.max(axis=1)[following], over(terminated, truncated), 0.9)
        values[cell, action] = targets  # the task is deterministic, so all rows of a pair agree
    return values


def test_bootstrapping_at_cut_finds_right_player_ending_wrong():
    right = learned(CORRIDORS[0], lambda terminated, truncated: terminated)
    np.testing.assert_allclose(right, [[1, 7.29], [1, 8.1], [1, 9], [1, 10]], rtol=1e-12)
    wrong = learned(CORRIDORS[0], lambda terminated, truncated: terminated | truncated)
    np.testing.assert_allclose(wrong, [[1, 0.9], [1, 0], [1, 9], [1, 10]], rtol=1e-12)


@pytest.mark.parametrize("task", CORRIDORS, ids=str)
def test_readings_of_cut_differ_before_last_leg(task):
    horizon, legs = task.options.get("horizon", 2), task.options.get("legs", 2)
    right = learned(task, lambda terminated, truncated: terminated).argmax(axis=1)
    wrong = learned(task, lambda terminated, truncated: terminated | truncated).argmax(axis=1)
    np.testing.assert_array_equal(right, np.ones(horizon * legs))
    np.testing.assert_array_equal(wrong, np.arange(horizon * legs) >= horizon * (legs - 1))


def test_distance_is_reported_and_walker_cut_at_horizon():
    environment = registry.make(EnvTask(name="toy/corridor"), 400)
    starts = environment.reset(np.random.default_rng(3)).values[0].argmax(axis=2)
    assert {*starts.ravel().tolist()} == {0, 2}
    act = (np.tile([1, 0], (400, 1)),)  # agent_0 moves, agent_1 takes
    step = environment.step(act)
    np.testing.assert_array_equal(step.rewards, np.tile([0, 1], (400, 1)))
    np.testing.assert_array_equal(step.terminated, np.tile([False, True], (400, 1)))
    assert not step.ended.any()
    step = environment.step(act)
    first = starts[:, 0] == 0
    np.testing.assert_array_equal(step.rewards[:, 0], np.where(first, 0, 10))
    np.testing.assert_array_equal(step.truncated, first)
    np.testing.assert_array_equal(step.terminated[:, 0], ~first)
    assert step.ended.all()
    np.testing.assert_array_equal(step.final.values[0][first, 0].argmax(axis=1), 2)  # cut where the next leg begins
    np.testing.assert_allclose(step.env_metrics["walked"], 2 / 3)
