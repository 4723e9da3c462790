"""The rules of level-based foraging in C, by hand."""

import numpy as np
import pytest
from built_kernels import needs_kernels

from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.environments.scene import Box, Disc
from marless.testing.environments import check

pytestmark = needs_kernels
STAY, NORTH, SOUTH, WEST, EAST, LOAD = range(6)
# An entry for a missing food or player.
NONE = [-1, -1, 0]


def made(name="lbf/8x8-2p-1f", num_envs=1, **options):
    environment = registry.make(EnvTask(name=name, options=options), num_envs)
    environment.reset(np.random.default_rng(0))
    return environment


def placed(players, food, name=None, **options):
    """A field of 8 x 8 with players and food, each as row, column and level."""
    environment = made(name or f"lbf/8x8-{len(players)}p-{len(food)}f", **options)
    for key, things in (("players", players), ("food", food)):
        environment.arrays[key][0] = things
    environment.arrays["spawned"][0] = sum(level for *_, level in food)
    return environment


def play(environment, *actions):
    return environment.step((np.array([actions]),))


def cells(environment):
    return environment.arrays["players"][0, :, :2].tolist()


def seen(environment, player):
    """Return the observation of a player as rows of three numbers."""
    saved = environment.save()
    return environment.resume(saved, np.random.default_rng(0)).values[0][0, player].reshape(-1, 3).tolist()


FAR = [(6, 6, 2)]


@pytest.mark.parametrize(
    ("players", "actions", "expected"),
    [
        ([(2, 2, 1), (2, 3, 1)], (EAST, WEST), [[2, 3], [2, 2]]),
        ([(2, 2, 1), (2, 4, 1)], (EAST, WEST), [[2, 2], [2, 4]]),
        ([(2, 2, 1), (2, 3, 1)], (EAST, STAY), [[2, 2], [2, 3]]),
        ([(2, 2, 1), (2, 3, 1)], (EAST, EAST), [[2, 3], [2, 4]]),
        # The second and the third want one cell, so both stay, and the first enters the cell of the second.
        ([(2, 2, 1), (2, 3, 1), (2, 5, 1)], (EAST, EAST, WEST), [[2, 3], [2, 3], [2, 5]]),
        ([(0, 0, 1), (7, 7, 1)], (NORTH, EAST), [[0, 0], [7, 7]]),
        ([(5, 6, 1), (6, 5, 1)], (SOUTH, EAST), [[5, 6], [6, 5]]),
    ],
    ids=["exchange", "same cell", "standing", "queue", "failed leave", "walls", "food"],
)
def test_players_move_unless_another_wants_the_cell(players, actions, expected):
    environment = placed(players, FAR)
    play(environment, *actions)
    assert cells(environment) == expected


def test_players_share_food_by_their_levels():
    environment = placed([(2, 3, 1), (3, 2, 2), (4, 3, 2)], [(3, 3, 3), (6, 6, 1)])
    step = play(environment, LOAD, LOAD, STAY)
    # Levels 1 and 2 of 3, for food of level 3 of 4.
    assert step.rewards.tolist() == [[1 * 3 / (3 * 4), 2 * 3 / (3 * 4), 0.0]]
    assert environment.arrays["food"][0].tolist() == [[3, 3, 0], [6, 6, 1]] and not step.ended.any()


def test_unnormalised_pay_is_the_product_of_levels():
    environment = placed([(2, 3, 1), (3, 2, 2)], [(3, 3, 3), (6, 6, 1)], normalize_reward=False)
    assert play(environment, LOAD, LOAD).rewards.tolist() == [[3.0, 6.0]]


def test_loading_too_heavy_food_costs_the_penalty():
    environment = placed([(2, 3, 1), (3, 2, 2), (0, 0, 2)], [(3, 3, 3)], penalty=0.25)
    assert play(environment, STAY, LOAD, LOAD).rewards.tolist() == [[0.0, -0.25, 0.0]]
    assert environment.arrays["food"][0, 0, 2] == 3


def test_food_is_seen_in_sight_players_in_window():
    """At the corner the window of sight 2 has five rows and columns. Food is seen in three of them."""
    environment = placed([(0, 0, 1), (4, 4, 2), (5, 0, 1)], [(2, 2, 3), (3, 0, 1)], "lbf/2s-8x8-3p-2f")
    assert seen(environment, 0) == [[2, 2, 3], NONE, [0, 0, 1], [4, 4, 2], NONE]
    # Around the second player the window begins at row and column 2.
    assert seen(environment, 1) == [[0, 0, 3], NONE, [2, 2, 2], NONE, NONE]


def test_players_come_in_order_behind_the_observer():
    environment = placed([(1, 1, 1), (2, 2, 2), (3, 3, 1)], FAR)
    assert seen(environment, 1) == [[6, 6, 2], [2, 2, 2], [1, 1, 1], [3, 3, 1]]


def test_a_grid_shows_levels_food_and_free_cells():
    environment = placed([(0, 0, 2), (1, 0, 1)], [(1, 1, 3)], "lbf/grid-1s-8x8-2p-1f")
    observation = environment.resume(environment.save(), np.random.default_rng(0))
    assert environment.spec.classes[0].observation_shape == (3, 3, 3)
    assert observation.values[0][0, 0].reshape(3, 3, 3).tolist() == [
        [[0, 0, 0], [0, 2, 0], [0, 1, 0]],
        [[0, 0, 0], [0, 0, 0], [0, 0, 3]],
        [[0, 0, 0], [0, 0, 1], [0, 0, 0]],
    ]


def test_the_last_food_terminates_and_time_truncates():
    environment = placed([(2, 3, 2), (0, 0, 1)], [(3, 3, 2)], horizon=2)
    play(environment, STAY, STAY)
    step = play(environment, STAY, STAY)
    assert step.truncated.tolist() == [True] and not step.terminated.any() and step.final.alive.all()
    environment = placed([(2, 3, 2), (0, 0, 1)], [(3, 3, 2)], horizon=1)
    step = play(environment, LOAD, STAY)
    assert step.terminated.tolist() == [[True, True]] and not step.truncated.any()
    assert step.rewards.tolist() == [[1.0, 0.0]] and not step.final.alive.any()


def test_cooperative_food_needs_the_three_weakest():
    environment = made("lbf/10x10-5p-2f-coop", num_envs=50, max_player_level=9)
    levels = np.sort(environment.arrays["players"][..., 2], axis=1)
    assert (environment.arrays["food"][..., 2] == levels[:, :3].sum(axis=1)[:, None]).all()


def test_food_lies_apart_inside_and_on_no_player():
    environment = made("lbf/7x7-6p-4f", num_envs=300)
    for players, food in zip(environment.arrays["players"].tolist(), environment.arrays["food"].tolist(), strict=True):
        places = [(row, column) for row, column, level in food if level]
        assert len({(row, column) for row, column, _ in players} | {*places}) == 6 + len(places)
        assert all(1 <= number <= 5 for place in places for number in place) and places == sorted(places)
        for number, (row, column) in enumerate(places):
            for y, x in places[:number]:
                apart = sorted((abs(row - y), abs(column - x)))
                assert apart[1] > 1 and apart not in ([0, 2], [1, 1])


def test_food_without_a_place_is_left_out():
    environment = made("lbf/3x3-1p-2f", num_envs=30)
    inside = (environment.arrays["players"][:, 0, :2] == 1).all(axis=1)
    assert np.array_equal((environment.arrays["food"][..., 2] > 0).sum(axis=1), 1 - inside)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("lbf/5x5-2p-1f", {"horizon": 12}),
        ("lbf/2s-5x5-3p-2f-coop", {"horizon": 12, "penalty": 0.1}),
        ("lbf/grid-2s-5x5-2p-1f", {"horizon": 9}),
        ("lbf/3x3-1p-1f", {"horizon": 5, "observe_agent_levels": False}),
    ],
)
def test_foraging_keeps_every_promise(name, options):
    check(lambda num_envs: registry.make(EnvTask(name=name, options=options), num_envs), episodes=5)


def test_pictures_show_food_and_players_with_levels():
    scene = placed([(0, 1, 1), (2, 2, 2)], [(3, 4, 3), (6, 6, 0)]).render(0)
    discs = [(shape.x, shape.y, shape.label) for shape in scene.shapes if isinstance(shape, Disc)]
    boxes = [(round(shape.x), round(shape.y), shape.label) for shape in scene.shapes if isinstance(shape, Box)]
    assert (scene.width, scene.height, discs) == (8, 8, [(4.5, 3.5, "3")])
    assert boxes == [(1, 0, "1"), (2, 2, "2")]
