"""The rules of the warehouse in C, by hand."""

import numpy as np
import pytest
from built_kernels import needs_kernels

from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.environments.games.halls import hall_of_blocks
from marless.functions.environments.scene import Box, Disc
from marless.testing.environments import check

pytestmark = needs_kernels
STAY, FORWARD, LEFT, RIGHT, TOGGLE = range(5)
UP, DOWN, WEST, EAST = range(4)
COLUMNS = 6
# Shelves 1 to 4, with goals in the last row.
LAYOUT = """
......
.xx...
.xx...
......
..gg..
"""


def made(robots=2, num_envs=1, **options):
    options = {"layout": LAYOUT, "request_queue_size": 1, **options}
    environment = registry.make(EnvTask(name=f"rware/tiny-{robots}ag", options=options), num_envs)
    environment.reset(np.random.default_rng(0))
    return environment


def placed(*robots, requested=(4,), **options):
    """A hall with robots, each as row, column, heading and the shelf that it carries, or 0."""
    environment = made(len(robots), request_queue_size=len(requested), **options)
    shelf_at, robot_at = environment.arrays["shelf_at"][0], environment.arrays["robot_at"][0]
    robot_at[:] = 0
    for number, (row, column, heading, shelf) in enumerate(robots):
        environment.arrays["robots"][0, number] = row * COLUMNS + column, heading, shelf, 0, 0
        robot_at[row, column] = number + 1
        if shelf:
            shelf_at[shelf_at == shelf] = 0
            shelf_at[row, column] = shelf
    environment.arrays["requested"][0] = np.isin(np.arange(5), requested)
    return environment


def play(environment, *actions):
    return environment.step((np.array([actions]),))


def cells(environment):
    return [divmod(cell, COLUMNS) for cell in environment.arrays["robots"][0, :, 0].tolist()]


def headings(environment):
    return environment.arrays["robots"][0, :, 1].tolist()


def seen(environment, robot=0):
    return environment.resume(environment.save(), np.random.default_rng(0)).values[0][0, robot]


@pytest.mark.parametrize(
    ("robots", "moving"),
    [
        ([(3, 1, EAST, 0), (3, 2, EAST, 0)], "01"),
        ([(3, 1, EAST, 0), (3, 2, WEST, 0)], ""),
        ([(3, 1, EAST, 0), (3, 2, DOWN, 0), (4, 2, WEST, 0), (4, 1, UP, 0)], "0123"),
        # Behind a circle, and behind two robots that want to exchange their cells.
        ([(3, 1, EAST, 0), (3, 2, DOWN, 0), (4, 2, WEST, 0), (4, 1, UP, 0), (2, 1, DOWN, 0)], "0123"),
        ([(3, 1, EAST, 0), (3, 2, WEST, 0), (3, 0, EAST, 0)], ""),
        # The longer queue to an empty cell.
        ([(3, 3, EAST, 0), (3, 5, WEST, 0), (2, 5, DOWN, 0)], "12"),
        # Equally long queues: the robot with the lower number,
        ([(3, 3, EAST, 0), (3, 5, WEST, 0)], "0"),
        # but not if an earlier robot wants the cell of the other.
        ([(2, 5, DOWN, 0), (3, 3, EAST, 0), (3, 5, WEST, 0), (3, 2, EAST, 0)], "02"),
        # A wall is a robot that stays.
        ([(0, 0, UP, 0), (1, 0, UP, 0)], ""),
    ],
    ids=["queue", "exchange", "circle", "at circle", "at exchange", "longer queue", "tie", "earlier cell", "wall"],
)
def test_robots_in_conflict_move_by_the_rules(robots, moving):
    environment = placed(*robots)
    play(environment, *[FORWARD] * len(robots))
    after = [number for number, (row, column, *_) in enumerate(robots) if cells(environment)[number] != (row, column)]
    assert after == [int(number) for number in moving]
    places = environment.arrays["robot_at"][0]
    assert {(row, column): places[row, column] for row, column in cells(environment)} == {
        cell: number + 1 for number, cell in enumerate(cells(environment))
    }


def test_a_robot_behind_a_standing_robot_stays():
    environment = placed((3, 1, EAST, 0), (3, 2, EAST, 0))
    play(environment, FORWARD, STAY)
    assert cells(environment) == [(3, 1), (3, 2)]


def test_robots_turn():
    environment = placed((3, 1, UP, 0), (3, 4, UP, 0))
    turns = []
    for _ in range(4):
        play(environment, RIGHT, LEFT)
        turns.append(tuple(headings(environment)))
    assert turns == [(EAST, WEST), (DOWN, DOWN), (WEST, EAST), (UP, UP)]


def test_shelves_stop_loaded_robots_only():
    environment = placed((1, 0, EAST, 3), (2, 3, WEST, 0))
    play(environment, FORWARD, FORWARD)
    assert cells(environment) == [(1, 0), (2, 2)]


def test_a_loaded_robot_follows_a_loaded_robot():
    environment = placed((3, 1, EAST, 1), (3, 2, EAST, 2))
    play(environment, FORWARD, FORWARD)
    assert cells(environment) == [(3, 2), (3, 3)]
    assert environment.arrays["shelf_at"][0, 3].tolist() == [0, 0, 1, 2, 0, 0]


def test_loaded_robot_waits_for_unloaded_robot_under_shelf():
    environment = placed((1, 0, EAST, 3), (1, 1, EAST, 0))
    play(environment, FORWARD, FORWARD)
    assert cells(environment) == [(1, 0), (1, 2)]


def test_shelves_are_put_down_off_highways_only():
    environment = placed((3, 1, UP, 3), (1, 1, UP, 0))
    play(environment, TOGGLE, TOGGLE)
    assert environment.arrays["robots"][0, :, 2].tolist() == [3, 1]
    play(environment, FORWARD, TOGGLE)
    assert environment.arrays["robots"][0, :, 2].tolist() == [3, 0]
    play(environment, TOGGLE, STAY)
    assert environment.arrays["robots"][0, :, 2].tolist() == [0, 0]
    assert environment.arrays["shelf_at"][0, 2, 1] == 3


@pytest.mark.parametrize(
    ("kind", "paid"),
    [("individual", [1.0, 0.0]), ("global", [1.0, 1.0]), ("two_stage", [0.5, 0.0])],
)
def test_a_delivery_pays_and_is_replaced(kind, paid):
    environment = placed((3, 2, DOWN, 4), (0, 5, UP, 0), reward_type=kind)
    assert play(environment, FORWARD, STAY).rewards.tolist() == [paid]
    requested = environment.arrays["requested"][0]
    assert requested.sum() == 1 and not requested[4]


def test_two_stages_pay_half_for_the_return():
    environment = placed((3, 2, DOWN, 4), (0, 5, UP, 0), reward_type="two_stage")
    play(environment, FORWARD, STAY)
    # Without this it would be delivered again if its shelf was requested again.
    environment.arrays["requested"][0] = [0, 1, 0, 0, 0]
    actions = [RIGHT, RIGHT, FORWARD, FORWARD, TOGGLE]
    assert [play(environment, action, STAY).rewards[0, 0] for action in actions] == [0.0, 0.0, 0.0, 0.0, 0.5]


def test_two_shelves_are_delivered_in_one_step():
    environment = placed((3, 2, DOWN, 4), (3, 3, DOWN, 3), requested=(3, 4))
    assert play(environment, FORWARD, FORWARD).rewards.tolist() == [[1.0, 1.0]]
    assert environment.arrays["requested"][0].sum() == 2


def test_robot_sees_itself_and_surrounding_cells():
    environment = placed((3, 1, EAST, 0), (2, 2, DOWN, 4))
    nobody = [0, 1, 0, 0, 0]  # a cell without a robot has the heading "up"
    assert seen(environment).tolist() == [
        *(1, 3, 0, 0, 0, 0, 1, 1),
        *(*nobody, 0, 0, *nobody, 1, 0, 1, 0, 1, 0, 0, 1, 1),
        *(*nobody, 0, 0, 1, 0, 0, 0, 1, 0, 0, *nobody, 0, 0),
        *(*nobody, 0, 0) * 3,
    ]


def test_cells_outside_the_hall_look_empty():
    environment = placed((0, 0, UP, 0), (4, 5, UP, 0), normalised_coordinates=True)
    cells_seen = seen(environment)[8:].reshape(3, 3, 7)
    assert (cells_seen[0] == [0, 1, 0, 0, 0, 0, 0]).all() and (cells_seen[:, 0] == [0, 1, 0, 0, 0, 0, 0]).all()
    assert seen(environment, 1)[:2].tolist() == [1, 1]


def test_messages_are_those_of_this_step():
    environment = placed((3, 1, EAST, 0), (3, 2, WEST, 0), msg_bits=2)
    right = slice(8 + 5 * 9, 8 + 6 * 9)  # the cell to the right
    assert seen(environment)[right].tolist() == [1, 0, 0, 1, 0, 0, 0, 0, 0]
    step = environment.step((np.array([[[STAY, 0, 0], [STAY, 0, 1]]]),))
    assert step.observation.values[0][0, 0, right].tolist() == [1, 0, 0, 1, 0, 0, 1, 0, 0]
    step = environment.step((np.array([[[STAY, 0, 0], [STAY, 1, 0]]]),))
    assert step.observation.values[0][0, 0, right].tolist() == [1, 0, 0, 1, 0, 1, 0, 0, 0]


def test_joint_actions_number_moves_and_bits():
    environment = placed((3, 1, EAST, 0), (3, 4, UP, 0), msg_bits=2, joint_actions=True)
    assert environment.spec.classes[0].actions == 20
    play(environment, 4 * FORWARD + 1, 4 * LEFT + 2)
    assert environment.arrays["robots"][0].tolist() == [
        [3 * COLUMNS + 2, EAST, 0, 0, 1],
        [3 * COLUMNS + 4, WEST, 0, 0, 2],
    ]


@pytest.mark.parametrize("heading", [UP, DOWN, WEST, EAST])
@pytest.mark.parametrize("turns", [True, False])
def test_images_look_ahead(heading, turns):
    environment = placed(
        (3, 1, heading, 0), (3, 2, UP, 4), observation_type="image", image_observation_directional=turns
    )
    layers = {
        "shelves": [[0, 1, 0], [0, 0, 1], [0, 0, 0]],
        "requested": [[0, 0, 0], [0, 0, 1], [0, 0, 0]],
        "robots": [[0, 0, 0], [0, 1, 1], [0, 0, 0]],
        "goals": [[0, 0, 0], [0, 0, 0], [0, 0, 1]],
        "free": [[1, 1, 1], [1, 0, 0], [1, 1, 1]],
    }
    # Quarters against the clock that bring ahead to the top.
    quarters = {UP: 0, EAST: 1, DOWN: 2, WEST: 3}[heading] if turns else 0
    picture = seen(environment).reshape(5, 3, 3)
    assert picture.tolist() == [np.rot90(layer, quarters).tolist() for layer in layers.values()]


def test_images_with_features_end_with_the_robot_itself():
    environment = placed((3, 1, EAST, 4), (3, 4, UP, 0), observation_type="image_dict")
    assert environment.spec.classes[0].observation_shape == (5, 3, 3)
    assert seen(environment)[45:].tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(("options", "steps"), [({"horizon": 3}, 3), ({"max_inactivity_steps": 2}, 2)])
def test_time_or_inactivity_truncates(options, steps):
    environment = placed((3, 1, EAST, 0), (3, 4, UP, 0), **options)
    ends = [play(environment, STAY, STAY).truncated.tolist() for _ in range(steps)]
    assert ends == [[False]] * (steps - 1) + [[True]]


def test_robots_start_in_different_cells_and_requests_differ():
    environment = made(12, num_envs=200, request_queue_size=3)
    starts = environment.arrays["robots"][..., 0]
    assert all(len({*row}) == 12 for row in starts.tolist()) and {*starts.ravel().tolist()} == {*range(30)}
    assert (environment.arrays["requested"].sum(axis=1) == 3).all()
    assert np.array_equal((environment.arrays["robot_at"] > 0).sum(axis=(1, 2)), np.full(200, 12))


def test_the_tiny_hall_is_drawn_as_published():
    """Papoudakis et al. (2021): blocks of two by eight, without the one above the goals."""
    rows = ["".join("x.?g"[cell] for cell in row) for row in hall_of_blocks(3, 1, 8).floor]
    assert rows == ["..........", *[".xx....xx."] * 8, "..........", "....gg...."]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"msg_bits": 2},
        {"msg_bits": 2, "joint_actions": True},
        {"observation_type": "dict"},
        {"observation_type": "image"},
        {"observation_type": "image_dict"},
    ],
    ids=str,
)
def test_a_warehouse_keeps_every_promise(options):
    task = EnvTask(name="rware/tiny-2ag", options=options | {"horizon": 8})
    check(lambda num_envs: registry.make(task, num_envs))


def test_pictures_show_requested_shelves_and_loaded_robots():
    scene = placed((3, 1, EAST, 4), (0, 0, UP, 0)).render(0)
    discs = [(shape.x, shape.y, shape.colour) for shape in scene.shapes if isinstance(shape, Disc)]
    boxes = [(int(shape.x), int(shape.y), shape.colour) for shape in scene.shapes if isinstance(shape, Box)]
    assert discs == [(1.5, 3.5, (1.0, 0.0, 0.0)), (0.5, 0.5, (1.0, 0.55, 0.0))]
    grey, blue, teal = (0.24, 0.24, 0.24), (0.28, 0.24, 0.55), (0.0, 0.5, 0.5)
    assert boxes == [(2, 4, grey), (3, 4, grey), (1, 1, blue), (2, 1, blue), (1, 2, blue), (1, 3, teal)]
