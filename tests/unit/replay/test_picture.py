"""Pictures of states: those of MPE against mpe2's own, those of grids by hand."""

import numpy as np
import pytest

pytest.importorskip("PIL")

from against_mpe2 import MODULES

from coordinator.errors import UserError
from functions.environments import registry
from functions.environments.base import EnvTask
from functions.environments.mpe.engine import WorldState
from marless.replays.environment_picture import picture
from marless.replays.scene_drawing import SIZE

FOOD, PLAYER = [242, 128, 115], [115, 153, 242]
GOAL, SHELF, REQUESTED = [61, 61, 61], [71, 61, 140], [0, 128, 128]


def goals_of(name, world):
    """The landmarks that are goals of mpe2's episode, as our state numbers them."""
    if name == "mpe/simple_reference":
        return [world.landmarks.index(agent.goal_b) for agent in world.agents]
    if name == "mpe/simple_speaker_listener":
        return [world.landmarks.index(world.agents[0].goal_b)]
    goals = [world.landmarks.index(world.agents[-1].goal_a)] if hasattr(world.agents[-1], "goal_a") else []
    return [*goals, 0] if name == "mpe/simple_crypto" else goals


def as_state(name, engine, world, position):
    """Both worlds with bodies at `position` ``[bodies, 2]``."""
    for body, place in zip(world.entities, position, strict=True):
        body.state.p_pos = place.copy()
    state = engine.snapshot()
    goals = np.array([goals_of(name, world)], np.int64).reshape(state.goals.shape)
    return WorldState(position[None], state.velocity, goals, state.said, cycle=state.cycle)


def probes(world, position, zoom):
    """The centre of every body, a place well inside and one well outside, in parts of the picture."""
    furthest = np.abs(position).max()
    for body, (x, y) in zip(world.entities, position, strict=True):
        for radii in (0, 0.4, 1.6):
            right = 0.45 * x / furthest + radii * body.size * 0.45 * zoom
            yield 0.5 + right, 0.5 - 0.45 * y / furthest


def at(drawn, x, y):
    """The pixel at parts of the picture; at the edge if it is outside."""
    height, width, _ = drawn.shape
    return drawn[min(int(y * height), height - 1), min(int(x * width), width - 1)].tolist()


@pytest.mark.parametrize("name", MODULES)
def test_mpe_is_drawn_as_mpe2_draws_it(name):
    reference = MODULES[name].parallel_env(render_mode="rgb_array")
    engine = registry.make(EnvTask(name=name), 1)
    engine.reset(np.random.default_rng(0))
    reference.reset(seed=0)
    world, rng = reference.unwrapped.world, np.random.default_rng(0)
    # Messages are written over the lower half.
    start = rng.uniform((-1, 0), (1, 1), (len(world.entities), 2))
    reference.unwrapped.original_cam_range = np.abs(start).max()
    for position, zoom in ((start, 1.0), (start * 1.25, 0.8), (start / 2, 2.0)):
        engine.restore(as_state(name, engine, world, position))
        drawn, expected = picture(engine), reference.render()
        assert drawn.shape == (SIZE, SIZE, 3)
        found = [(at(drawn, x, y), at(expected, x, y)) for x, y in probes(world, position, zoom)]
        # mpe2 rounds down.
        assert [pair for pair in found if np.abs(np.subtract(*pair)).max() > 1] == []
        # The camera keeps the first picture's range.
        state = engine.snapshot()
        engine.restore(WorldState(state.position, state.velocity, state.goals, state.said, cycle=1))


def test_messages_are_letters_silence_and_numbers():
    engine = registry.make(EnvTask(name="mpe/simple_speaker_listener"), 1)
    engine.reset(np.random.default_rng(0))
    assert engine.render(0).texts == ("speaker_0 sends _",)
    engine.step((np.array([[2]]), np.array([[0]])))
    assert engine.render(0).texts == ("speaker_0 sends C",)
    assert (picture(engine)[-20:, :160] < 100).any()
    task = EnvTask(name="mpe/simple_speaker_listener", options={"continuous_actions": True})
    engine = registry.make(task, 1)
    engine.reset(np.random.default_rng(0))
    engine.step((np.array([[[0.1, 0.25, 0.0]]], np.float32), np.zeros((1, 1, 5), np.float32)))
    assert engine.render(0).texts == ("speaker_0 sends [0.10,0.25,0.00]",)


def test_agents_of_a_hidden_role_have_the_colour_of_their_landmark():
    engine = registry.make(EnvTask(name="roles/blind_spread"), 1)
    colours = [body.colour for body in engine.bodies]
    agents, landmarks = colours[:6], colours[6:]
    assert agents == [landmarks[role] for role in engine.roles]
    assert len(set(landmarks)) == 3


def test_food_and_players_are_in_their_cells():
    environment = registry.make(EnvTask(name="lbf/8x8-2p-3f"), 1)
    environment.reset(np.random.default_rng(0))
    game = environment._guards[0].environment._environment
    drawn, cell = picture(environment), SIZE // 8
    assert drawn.shape == (SIZE, SIZE, 3)
    players = {tuple(player.position) for player in game.players}
    for row in range(8):
        for column in range(8):
            # Beside the level, which is at the centre.
            pixel = drawn[row * cell + cell // 2, column * cell + cell // 4].tolist()
            expected = FOOD if game.field[row, column] else PLAYER if (row, column) in players else [255, 255, 255]
            assert pixel == expected
    assert np.count_nonzero(game.field) == 3 and len(players) == 2


def test_a_warehouse_shows_goals_requested_shelves_and_robots():
    environment = registry.make(EnvTask(name="rware/tiny-2ag"), 1)
    environment.reset(np.random.default_rng(0))
    warehouse = environment._guards[0].environment._environment
    rows, columns = warehouse.grid_size
    scale, drawn = SIZE / max(rows, columns), picture(environment)
    assert drawn.shape == (SIZE, round(columns * scale), 3)

    def corner(x, y):
        return drawn[int((y + 0.2) * scale), int((x + 0.2) * scale)].tolist()

    assert all(corner(x, y) == GOAL for x, y in warehouse.goals)
    for shelf in warehouse.shelfs:
        assert corner(shelf.x, shelf.y) == (REQUESTED if shelf in warehouse.request_queue else SHELF)
    for robot in warehouse.agents:
        robot.carrying_shelf = None
    before = picture(environment)
    warehouse.agents[0].carrying_shelf = warehouse.shelfs[0]
    x, y = warehouse.agents[0].x, warehouse.agents[0].y
    places = [picture(environment), before]
    # Off the line that points ahead, within the disc.
    found = [part[int((y + 0.36) * scale), int((x + 0.36) * scale)].tolist() for part in places]
    assert found == [[255, 0, 0], [255, 140, 0]]


def test_a_picture_of_another_kind_is_refused():
    class Grey:
        num_envs = 1

        def render(self, index):
            return np.zeros((4, 4), np.uint8)

    with pytest.raises(UserError, match=r"render\(0\) gave uint8 \(4, 4\); a picture is uint8 \[H, W, 3\]"):
        picture(Grey())


def test_a_task_without_a_picture_says_so():
    environment = registry.make(EnvTask(name="matrix/climbing"), 1)
    with pytest.raises(UserError, match="cannot be drawn"):
        picture(environment)
