"""Games with turns, through our protocol."""

import masked_games
import numpy as np
import pytest
from challenges import OUT, challenge

from marless.functions.algorithms.sac.distributions import sample
from marless.functions.environments import registry
from marless.functions.environments.base import EnvironmentFault, EnvTask, Unsupported
from marless.functions.environments.pettingzoo import adapter
from marless.functions.nn.losses import clipped_policy_loss
from marless.testing.environments import check

FIRST = [True, False, False]


def opened(**options):
    environment = adapter.make(challenge(**options), 1)
    return environment, environment.reset(np.random.default_rng(0))


def turn(environment, *choices):
    return environment.step((np.array([choices]),))


@pytest.mark.parametrize("masks", ["observation", "info", "none"])
@pytest.mark.parametrize("leaving", ["at once", "in turn"])
def test_turn_game_keeps_every_environment_promise(masks, leaving):
    task = challenge(masks=masks, leaving=leaving, limit=20)
    check(lambda num_envs: adapter.make(task, num_envs))


def test_game_has_one_class_of_masked_agents():
    spec = registry.spec(challenge(sides="player_0,player_1,player_2"))
    (kind,) = spec.classes
    assert (kind.agents, kind.observation_size, kind.observation_shape, kind.actions) == ((0, 1, 2), 4, (2, 2), 3)
    assert (spec.masked, spec.sides, spec.horizon, spec.state_size) == (True, (0, 1, 2), 30, 0)


@pytest.mark.parametrize("masks", ["observation", "info"])
def test_only_agent_on_turn_has_a_choice(masks):
    environment, seen = opened(masks=masks)
    assert seen.masks[0][0].tolist() == [[True] * 3, FIRST, FIRST]
    seen = turn(environment, 1, 0, 0).observation
    assert seen.masks[0][0].tolist() == [FIRST, [True] * 3, FIRST]
    turn(environment, 0, 0, 0)
    seen = turn(environment, 0, 0, 1).observation
    assert seen.masks[0][0].tolist() == [[True, False, True], FIRST, FIRST]  # its last action is illegal now


def test_without_masks_everything_is_legal_in_a_turn():
    environment, _ = opened(masks="none")
    for player in (0, 1, 2, 0):
        seen = turn(environment, 1, 1, 1).observation
        legal = [FIRST] * 3
        legal[(player + 1) % 3] = [True] * 3
        assert seen.masks[0][0].tolist() == legal


def test_waiting_agents_act_without_effect():
    (one, _), (other, _) = opened(), opened()
    first, second = turn(one, 1, 0, 0), turn(other, 1, 2, 2)
    assert first.rewards.tolist() == second.rewards.tolist() == [[1, -0.5, -0.5]]
    assert first.observation.values[0].tobytes() == second.observation.values[0].tobytes()


@pytest.mark.parametrize("leaving", ["at once", "in turn"])
def test_waiting_agents_are_paid_and_expelled_is_gone(leaving):
    environment, _ = opened(leaving=leaving)
    played = [
        turn(environment, 1, 0, 0),
        turn(environment, 0, OUT, 0),  # the next in order is player 2
        turn(environment, 0, 0, 0),
        turn(environment, 0, 1, 0),
        turn(environment, OUT, 0, 0),
    ]
    assert [step.rewards[0].tolist() for step in played] == [
        [1, -0.5, -0.5],
        [0, 0, -1],
        [0, 0, 0],
        [-0.5, 1, 0],
        [2, -1, 0],
    ]
    assert [step.terminated[0].tolist() for step in played] == [
        [False, False, False],
        [False, False, True],
        [False, False, False],
        [False, False, False],
        [True, True, False],
    ]
    gone = played[1].observation
    assert gone.alive[0].tolist() == [True, True, False]
    assert not gone.values[0][0, 2].any()
    # Number, turns. Players, and the last choice, which is -1 before the first.
    first = gone.values[0][0, 1, 3] - OUT
    assert gone.values[0][0, 0].tolist()[:2] == [0, 2]
    assert gone.values[0][0, 0, 3] == first + 1
    assert [bool(step.ended[0]) for step in played] == [False, False, False, False, True]
    assert not any(step.truncated[0] for step in played)


def test_game_time_limit_shows_last_observations():
    environment, _ = opened(limit=2)
    turn(environment, 1, 0, 0)
    step = turn(environment, 0, 1, 0)
    assert step.truncated.tolist() == [True]
    assert not step.terminated.any()
    assert step.final.alive.all()
    assert step.final.values[0][0, :, 1].tolist() == [2, 2, 2]  # turns
    assert step.observation.values[0][0, :, 1].tolist() == [0, 0, 0]


def test_the_horizon_is_in_turns():
    environment, _ = opened(horizon=4)
    cut = [bool(turn(environment, t % 2, t % 2, t % 2).truncated[0]) for t in (0, 0, 0, 1)]
    assert cut == [False, False, False, True]


def test_several_choices_wait_with_the_first_of_each():
    _, seen = opened(masks="none", space="choices")
    assert seen.masks[0][0].tolist() == [[True] * 5, [*FIRST, True, False], [*FIRST, True, False]]


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (challenge(space="numbers"), "'player_0' takes turns with continuous actions, which cannot be masked$"),
        (challenge(parallelizable=True), "makes an AECEnv whose agents can act at once; name its parallel_env instead"),
    ],
)
def test_unsupported_games_are_refused_by_name(task, message):
    with pytest.raises(Unsupported, match=message) as refused:
        adapter.make(task, 1)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("fault", "kind", "message"),
    [
        ("late agent", Unsupported, r"step 0, reset: an episode starts without agents \['player_0'\]"),
        ("joins", EnvironmentFault, r"step 1, step: KeyError: 'stranger'"),
        ("a ghost's turn", EnvironmentFault, r"step 2, step: RuntimeError: it is the turn of agent 'player_2', which"),
        ("stays", EnvironmentFault, r"step 2, step: RuntimeError: agent 'player_2' does not leave by step\(None\)"),
    ],
)
def test_games_that_break_turn_rules_are_faults(fault, kind, message):
    with pytest.raises(kind, match=message) as said:
        environment, _ = opened(fault=fault)
        turn(environment, 1, 0, 0)
        turn(environment, 0, OUT, 0)
    assert "\n" not in str(said.value)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("None", r"reset: RuntimeError: observe\('b'\) returned None; agents observe something in every turn"),
        ("no mask", r"step: RuntimeError: observe\('a'\) returned no action_mask, which the agent's observation space"),
    ],
)
def test_missing_player_observation_is_one_line_with_name(form, message):
    task = masked_games.turns(form)
    with pytest.raises(EnvironmentFault, match=message) as raised:
        environment = adapter.make(task, 1)
        environment.reset(np.random.default_rng(0))
        for _ in range(3):
            environment.step((np.zeros((1, 2), np.int64),))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("leaving", ["at once", "in turn"])
def test_returning_player_is_refused_in_that_step(leaving):
    environment, _ = opened(fault="comes back", leaving=leaving)
    turn(environment, 1, 0, 0)
    turn(environment, 0, OUT, 0)
    with pytest.raises(Unsupported, match=r"step 3, step: agents \['player_2'\] are back in `agents`"):
        turn(environment, 0, 0, 0)


def test_a_game_without_a_horizon_asks_for_one():
    with pytest.raises(ValueError, match=r"does not say how long an episode is: add task\.options\.horizon, in steps"):
        adapter.make(EnvTask(name="pettingzoo:challenges:Challenge"), 1)


def test_waiting_gives_no_gradient_to_the_policy():
    outputs = np.array([[0.3, -1.2, 2.0], [0.3, -1.2, 2.0]], dtype=np.float32)
    legal = np.array([FIRST, [True] * 3])
    actions, advantage = np.array([0, 1]), np.array([5.0, 5.0], dtype=np.float32)
    loss = clipped_policy_loss(outputs, actions, np.zeros(2, np.float32), advantage, 0.2, 0.01, legal)
    assert not loss.grad_output[0].any()
    assert loss.grad_output[1].all()


def test_waiting_gives_no_gradient_through_relaxed_samples():
    outputs = np.array([[0.3, -1.2, 2.0], [0.3, -1.2, 2.0]], dtype=np.float32)
    kind = registry.spec(challenge()).classes[0]
    samples = sample(kind, outputs, np.array([FIRST, [True] * 3]), np.random.default_rng(0))
    assert samples.entropy[0] == 0 < samples.entropy[1]
    assert samples.actions[0].tolist() == [1, 0, 0]
    gradient = samples.backward(np.array([[3, -1, 2], [3, -1, 2]], np.float32), np.ones(2, np.float32))
    assert not gradient[0].any()
    assert gradient[1].all()


@pytest.mark.filterwarnings("ignore")
def test_a_game_draws_itself():
    """Tic-tac-toe: a stone in the first cell changes pixels there and nowhere else."""
    pytest.importorskip("pygame")
    task = EnvTask(
        name="pettingzoo:pettingzoo.classic.tictactoe_v3:env", options={"horizon": 9, "render_mode": "rgb_array"}
    )
    game = registry.make(task, 1)
    game.reset(np.random.default_rng(0))
    before = game.render(0)
    game.step((np.zeros((1, 2), np.int64),))
    changed = np.argwhere((game.render(0) != before).any(axis=2))
    third = np.array(before.shape[:2]) / 3
    assert len(changed) and (changed < third).all()
    game.close()
