"""Our foraging equals the package `lbforaging` step by step, if the package draws our random numbers."""

from dataclasses import dataclass

import numpy as np
import pytest
from counted_draws import ForagingGenerator

from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask

ForagingEnv = pytest.importorskip("lbforaging.foraging").ForagingEnv

LEVELS = {"min_player_level": 2, "max_player_level": 5, "min_food_level": 3, "max_food_level": 9}
PLAIN = {"min_player_level": 1, "max_player_level": 2, "min_food_level": 1, "max_food_level": None}


def named(rows, columns, players, food, sight, coop=False):
    """The arguments of the package that a task's name says."""
    return {
        "field_size": (rows, columns), "players": players, "max_num_food": food, "sight": sight, "force_coop": coop
    }  # fmt: skip


# The task, its options, and the arguments of the package that its name says.
TASKS = [
    ("lbf/8x8-2p-3f", {}, named(8, 8, 2, 3, 8)),
    ("lbf/10x10-3p-3f", {}, named(10, 10, 3, 3, 10)),
    ("lbf/2s-8x8-2p-2f-coop", {}, named(8, 8, 2, 2, 2, coop=True)),
    ("lbf/5x5-4p-2f", {"penalty": 0.1}, named(5, 5, 4, 2, 5)),
    ("lbf/3s-6x9-5p-4f", {**LEVELS, "normalize_reward": False, "observe_agent_levels": False}, named(6, 9, 5, 4, 3)),
    ("lbf/7x7-4p-2f-coop", {**LEVELS, "sight": 1, "horizon": 20, "penalty": 0.5}, named(7, 7, 4, 2, 7, coop=True)),
    ("lbf/grid-8x8-3p-2f", {}, named(8, 8, 3, 2, 8)),
    ("lbf/grid-2s-6x7-4p-2f-coop", {"observe_agent_levels": False}, named(6, 7, 4, 2, 2, coop=True)),
]
NORTH, SOUTH, WEST, EAST, LOAD = range(1, 6)


class Anything:
    """A space for grids and for fields that are no squares: the package gives both wrong bounds."""

    def __init__(self, shape):
        self.shape = shape

    def contains(self, _):
        return True


def package_of(task, options, arguments):
    """An environment of the package with the options of ours."""
    numbers = PLAIN | arguments | options
    numbers["max_episode_steps"] = numbers.pop("horizon", 50)
    game = ForagingEnv(**numbers)
    game._grid_observation = "grid" in task
    if game._grid_observation or game.rows != game.cols:
        game.observation_space = [Anything(game.observation_space[0].shape)] * len(game.players)
    return game


def restarted(game, environment, row):
    """The first observations of an episode with the same draws."""
    for player in game.players:
        player.position = None  # else it blocks cells of the next episode
    game._np_random = ForagingGenerator(environment.arrays["keys"][row], environment.arrays["episode"][row])
    return np.stack(game.reset()[0]).reshape(len(game.players), -1)


def random(game, rng):
    return rng.integers(6, size=len(game.players)).tolist()


def greedy(game, rng):
    """Players go to the nearest food and load it. One in ten does something else."""
    actions = [_towards_food(game, player) for player in game.players]
    return [rng.integers(6) if rng.random() < 0.1 else action for action in actions]


def crowded(game, rng):
    """Players push into the first corner and into each other."""
    return rng.choice([0, NORTH, WEST, NORTH, WEST, SOUTH, EAST, LOAD], size=len(game.players)).tolist()


def _towards_food(game, player):
    places = np.argwhere(game.field)
    if not len(places):
        return 0
    y, x = places[np.abs(places - player.position).sum(axis=1).argmin()] - player.position
    if abs(y) + abs(x) == 1:
        return LOAD
    if abs(y) >= abs(x):
        return SOUTH if y > 0 else NORTH
    return EAST if x > 0 else WEST


@dataclass
class Compared:
    """The compared episodes and steps, with joint loads of food and players in one cell."""

    episodes: int = 0
    steps: int = 0
    joint_loads: int = 0
    shared_cells: int = 0


def compare(task, options, arguments, policy, num_envs, steps, seed=0):
    """Plays both. Raises `AssertionError` where they differ."""
    environment = registry.make(EnvTask(name=task, options=options), num_envs)
    observation, rng, result = (
        environment.reset(np.random.default_rng(seed)),
        np.random.default_rng(seed + 1),
        Compared(),
    )
    games = [package_of(task, options, arguments) for _ in range(num_envs)]
    for row, game in enumerate(games):
        assert np.array_equal(observation.values[0][row], restarted(game, environment, row))
    for _ in range(steps):
        actions = np.array([policy(game, rng) for game in games])
        step = environment.step((actions,))
        for row, game in enumerate(games):
            expected, rewards, ended, *_ = game.step(actions[row].tolist())
            _require_equal(step, row, game, np.stack(expected).reshape(len(game.players), -1), rewards, ended)
            result.joint_loads += sum(reward > 0 for reward in rewards) > 1
            result.shared_cells += len({player.position for player in game.players}) < len(game.players)
            if ended:
                result.episodes += 1
                assert np.array_equal(step.observation.values[0][row], restarted(game, environment, row))
    result.steps = num_envs * steps
    return result


def _require_equal(step, row, game, expected, rewards, ended):
    terminated = not game.field.any()
    assert step.rewards[row].tolist() == rewards
    assert step.ended[row] == ended and step.truncated[row] == (ended and not terminated)
    assert (step.terminated[row] == terminated).all()
    shown = step.final if ended else step.observation
    # Where no agent is left, our protocol shows zeros.
    assert np.array_equal(shown.values[0][row], np.zeros_like(expected) if terminated else expected)


@pytest.mark.parametrize("policy", [random, greedy, crowded])
@pytest.mark.parametrize(("task", "options", "arguments"), TASKS, ids=[task for task, *_ in TASKS])
def test_every_step_equals_the_packages(task, options, arguments, policy):
    result = compare(task, options, arguments, policy, num_envs=4, steps=110)
    assert result.episodes >= 4
    if policy is greedy and "sight" not in options:
        assert result.joint_loads
