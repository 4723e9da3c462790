"""The toy's rules, and its derived best return."""

import itertools

import numpy as np
import pytest

from marless.functions.environments import toy
from marless.functions.environments.base import AgentClass, EnvTask


def task(agents: int | None = None, **options: int | bool) -> EnvTask:
    return EnvTask(name="toy/signal", agents=agents, options=options)


def right_answers(observation, environment):
    return tuple(values.argmax(axis=-1) for values in observation.values)


def play(environment, seed, player):
    """Returns [E], summed over agents, of the first episode of every environment, and its length [E]."""
    observation = environment.reset(np.random.default_rng(seed))
    returns, lengths = np.zeros(environment.num_envs), np.zeros(environment.num_envs, dtype=int)
    running = np.ones(environment.num_envs, dtype=bool)
    while running.any():
        step = environment.step(player(observation, environment))
        returns += running * step.rewards.sum(axis=1)
        lengths += running
        running &= ~step.ended
        observation = step.observation
    return returns, lengths


@pytest.mark.parametrize("agents", [2, 3])
@pytest.mark.parametrize("options", [{}, {"masked": True}, {"elimination": True}, {"mixed": True, "horizon": 7}])
def test_player_that_names_observation_gets_best_return(agents, options):
    returns, lengths = play(toy.make(task(agents, **options), 50), 1, right_answers)
    np.testing.assert_allclose(returns, agents * options.get("horizon", 5), rtol=1e-12)
    assert (lengths == options.get("horizon", 5)).all()


@pytest.mark.parametrize("elimination", [False, True])
def test_only_one_joint_sequence_reaches_best_return(elimination):
    chosen = task(2, signals=3, horizon=3, elimination=elimination)
    joint = list(itertools.product(range(3), repeat=2))
    for seed in range(2):
        returns = []
        for plan in itertools.product(joint, repeat=3):
            moves = iter(plan)
            player = lambda *_, moves=moves: (np.array([next(moves)]),)  # noqa: E731
            returns.append(play(toy.make(chosen, 1), seed, player)[0][0])
        assert max(returns) == 6.0
        assert returns.count(6.0) == 1


def test_random_answers_get_hand_computed_return():
    # Two agents, three signals: each is right with q = 1/3. At least one is right with p = 1 - (2/3)^2 = 5/9, and the
    # episode continues. A step gives 2q = 2/3 on average. The mean is 2/3 (1 + p + ... + p^4) = 2/3 (1 - p^5) / (1 - p)
    # = 1.42061.
    actions = np.random.default_rng(6)
    num_envs = 20_000
    returns, _ = play(toy.make(task(2), num_envs), 5, lambda *_: (actions.integers(3, size=(num_envs, 2)),))
    error = returns.std() / np.sqrt(num_envs)
    assert abs(returns.mean() - 1.42061) < 4 * error


def test_agents_share_right_answers_of_all():
    environment = toy.make(task(4, signals=4), 1)
    right = environment.reset(np.random.default_rng(0)).values[0].argmax(axis=-1)
    wrong = (right + 1) % 4
    step = environment.step((np.where([[True, False, True, True]], right, wrong),))
    np.testing.assert_array_equal(step.rewards, [[0.75, 0.75, 0.75, 0.75]])
    assert not step.ended.any() and step.final is None


def test_step_without_right_answer_terminates_only_its_environment():
    environment = toy.make(task(2), 2)
    right = environment.reset(np.random.default_rng(0)).values[0].argmax(axis=-1)
    step = environment.step((np.stack([(right[0] + 1) % 3, right[1]]),))
    np.testing.assert_array_equal(step.terminated, [[True, True], [False, False]])
    np.testing.assert_array_equal(step.truncated, [False, False])
    np.testing.assert_array_equal(step.ended, [True, False])
    np.testing.assert_array_equal(step.final.alive[0], [False, False])
    assert step.env_metrics["accuracy"][0] == 0.0
    assert step.observation.alive.all()


def test_environment_at_horizon_is_truncated_with_final_observation():
    environment = toy.make(task(2, horizon=2), 1)
    observation = environment.reset(np.random.default_rng(0))
    for _ in range(2):
        step = environment.step(right_answers(observation, environment))
        observation = step.observation
    assert step.truncated.all() and step.ended.all() and not step.terminated.any()
    np.testing.assert_array_equal(step.final.alive, [[True, True]])
    np.testing.assert_array_equal(step.final.values[0].sum(axis=-1), [[1.0, 1.0]])
    assert step.final.state[0, -1] == 0.0
    assert observation.state[0, -1] == 1.0
    assert step.env_metrics["accuracy"][0] == 1.0


def test_elimination_ends_episode_only_of_wrong_agent():
    environment = toy.make(task(2, elimination=True), 1)
    right = environment.reset(np.random.default_rng(0)).values[0].argmax(axis=-1)
    step = environment.step(((right + np.array([[1, 0]])) % 3,))
    np.testing.assert_array_equal(step.terminated, [[True, False]])
    np.testing.assert_array_equal(step.observation.alive, [[False, True]])
    np.testing.assert_array_equal(step.observation.values[0][0, 0], [0.0, 0.0, 0.0])
    step = environment.step(right_answers(step.observation, environment))
    np.testing.assert_array_equal(step.rewards, [[0.0, 0.5]])
    assert not step.ended.any()


def test_mask_forbids_wrong_action_and_toy_refuses_it():
    environment = toy.make(task(2, masked=True), 20)
    observation = environment.reset(np.random.default_rng(0))
    mask, right = observation.masks[0], observation.values[0].argmax(axis=-1)
    assert (mask.sum(axis=-1) == 2).all()
    assert np.take_along_axis(mask, right[..., None], axis=-1).all()
    with pytest.raises(ValueError, match="mask forbids"):
        environment.step((mask.argmin(axis=-1),))


def test_mixed_signals_make_two_classes():
    spec = toy.make(task(3, mixed=True), 1).spec
    assert spec.classes == (AgentClass("signal3", (0, 2), 3, 3), AgentClass("signal4", (1,), 4, 4))
    assert spec.state_size == 3 + 4 + 3 + 1


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (task(1), "task.agents is 1; a ring of partners needs at least 2"),
        (task(signal=3), "there is no signal here"),
        (task(horizon=0), "task.options.horizon: it is not a whole number of at least 1"),
    ],
)
def test_unknown_toy_options_are_refused_in_one_line(chosen, message):
    with pytest.raises(ValueError, match=message) as refused:
        toy.make(chosen, 1)
    assert str(refused.value).startswith("toy/signal: ") and "\n" not in str(refused.value)
