"""Blind-particle spread: its rules, the returns of standing still and of a scripted player, and its true partition."""

import numpy as np
import pytest

from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.environments.roles.partition import roles_of
from marless.functions.errors import BadRequest

NAME = "roles/blind_spread"
STEPS, AGENTS = 25, 6


def task(agents=None, **options):
    return EnvTask(name=NAME, agents=agents, options=options)


def play(num_envs, player):
    """Returns [E], summed over agents, and the first distances [E, N] from agents' own landmarks."""
    environment = registry.make(task(), num_envs)
    roles = np.array(environment.roles)
    observation = environment.reset(np.random.default_rng(3))
    first = np.linalg.norm(own_landmark(observation.values[0], roles), axis=-1)
    returns = np.zeros(num_envs)
    for _ in range(STEPS):
        step = environment.step((player(observation.values[0], roles),))
        returns += step.rewards.sum(axis=1)
        observation = step.observation
    assert step.ended.all()
    return returns, first


def own_landmark(seen, roles):
    """``[E, N, 2]``: the landmark of every agent's colour, relative to it."""
    landmarks = seen[:, :, 4:].reshape(*seen.shape[:2], -1, 2)
    return landmarks[:, np.arange(len(roles)), roles]


def stands_still(seen, roles):
    return np.zeros(seen.shape[:2], dtype=np.int64)


def goes_to_its_landmark(seen, roles):
    """It pushes along the axis with the larger distance after coasting. Without a push, an agent of velocity v coasts
    by 0.1 v (1 + 0.75 + 0.75 ** 2 + ...) = 0.4 v."""
    ahead = own_landmark(seen, roles) - 0.4 * seen[:, :, :2]
    axis = np.abs(ahead).argmax(axis=-1)
    along = np.take_along_axis(ahead, axis[..., None], axis=-1)[..., 0]
    return np.where(np.abs(along) < 0.05, 0, 1 + 2 * axis + (along > 0))


def test_standing_still_loses_mean_distance_in_square():
    returns, _ = play(4000, stands_still)
    mean = 2 * (2 + np.sqrt(2) + 5 * np.log(1 + np.sqrt(2))) / 15
    assert -AGENTS * STEPS * mean == pytest.approx(-156.4, abs=0.05)
    assert abs(returns.mean() + AGENTS * STEPS * mean) < 4 * returns.std() / np.sqrt(len(returns))


def test_player_that_knows_role_nearly_reaches_bound():
    returns, first = play(1000, goes_to_its_landmark)
    # A push adds 0.5 to the velocity. Three quarters of the velocity last, and positions follow a step later.
    speeds = [0.0]
    for _ in range(STEPS - 1):
        speeds.append(0.75 * speeds[-1] + 0.5)
    reach = 0.1 * np.cumsum(speeds)
    best = -np.maximum(first[..., None] - reach, 0).sum(axis=(1, 2))
    assert (returns <= best).all()
    still = -STEPS * first.sum(axis=1)
    # A push along one axis a step cannot go straight at full speed. The way costs less than a fifth of the gain.
    assert returns.mean() > still.mean() + 0.8 * (best.mean() - still.mean())


def test_agents_with_same_view_are_paid_by_colour():
    environment = registry.make(task(2, roles=2), 1)
    environment.reset(np.random.default_rng(0))
    state = environment.snapshot()
    state.position[0, :2] = [0.1, 0.2]
    state.position[0, 2:] = [[0.4, 0.6], [0.1, -1.0]]
    seen = environment.restore(state).values[0]
    np.testing.assert_array_equal(seen[0, 0], seen[0, 1])
    np.testing.assert_allclose(seen[0, 0], [0, 0, 0.1, 0.2, 0.3, 0.4, 0.0, -1.2], rtol=1e-6, atol=1e-7)
    step = environment.step((np.zeros((1, 2), dtype=np.int64),))
    np.testing.assert_allclose(step.rewards, [[-0.5, -1.2]])


@pytest.mark.parametrize(
    ("agents", "options", "roles"),
    [
        (None, {}, (0, 1, 2, 0, 1, 2)),
        (None, {"order": "contiguous"}, (0, 0, 1, 1, 2, 2)),
        (5, {"roles": 2}, (0, 1, 0, 1, 0)),
        (5, {"roles": 2, "order": "contiguous"}, (0, 0, 0, 1, 1)),
        (3, {"roles": 1}, (0, 0, 0)),
    ],
)
def test_the_true_partition_can_be_read(agents, options, roles):
    assert roles_of(task(agents, **options)) == roles
    assert len(registry.spec(task(agents, **options)).agents) == len(roles)


def test_too_few_agents_or_roleless_tasks_are_refused():
    with pytest.raises(BadRequest, match=r"agents is 2; 3 roles \(task.options.roles\) need as many agents"):
        registry.make(task(2), 1)
    with pytest.raises(ValueError, match="mpe/simple: its agents have no hidden roles"):
        roles_of(EnvTask(name="mpe/simple"))


@pytest.mark.parametrize("name", [NAME, "roles/apprentices"])
def test_team_is_paid_mean_reward_immediately_or_finally(name):
    def rewards(pay):
        environment = registry.make(EnvTask(name=name, options={"pay": pay, "horizon": 4}), 3)
        environment.reset(np.random.default_rng(5))
        steps = [environment.step((np.full((3, AGENTS), turn % 5),)) for turn in range(8)]
        return np.array([step.rewards for step in steps])

    own, team, end = (rewards(pay) for pay in ("own", "team", "end"))
    mean = np.broadcast_to(own.mean(axis=2, keepdims=True), own.shape)
    np.testing.assert_array_equal(team, mean)
    assert not end[[0, 1, 2, 4, 5, 6]].any()
    np.testing.assert_allclose(end[[3, 7]], mean.reshape(2, 4, 3, AGENTS).sum(axis=1))
