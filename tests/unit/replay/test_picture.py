"""Pictures of states: bodies of MPE against mpe2, grids by hand."""

import numpy as np
import pytest

pytest.importorskip("PIL")

from against_mpe2 import MODULES

from marless.coordinator.errors import UserError
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.environments.mpe.engine import WorldState
from marless.functions.environments.scene import BLACK, Disc, Scene
from marless.replays.environment_picture import picture, rendering
from marless.replays.scene_drawing import SIZE, camera, draw

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
    for body, place in zip(world.entities, position, strict=True):
        body.state.p_pos = place.copy()
    state = engine.snapshot()
    goals = np.array([goals_of(name, world)], np.int64).reshape(state.goals.shape)
    return WorldState(position[None], state.velocity, goals, state.said, cycle=state.cycle)


# Bodies in other colours than mpe2's: red and green are hard to tell apart for many people.
RECOLOURED = {
    "mpe/simple_tag": ("adversary", "agent"),
    "mpe/simple_world_comm": ("adversary", "agent"),
    "mpe/simple_crypto": ("bob", "landmark"),
    "mpe/simple_push": ("adversary",),
}


@pytest.mark.parametrize("name", MODULES)
def test_bodies_of_mpe_are_those_of_mpe2(name):
    reference = MODULES[name].parallel_env()
    engine = registry.make(EnvTask(name=name), 1)
    engine.reset(np.random.default_rng(0))
    reference.reset(seed=0)
    world = reference.unwrapped.world
    position = np.random.default_rng(0).uniform(-1, 1, (len(world.entities), 2))
    engine.restore(as_state(name, engine, world, position))
    scene = engine.render(0)
    centre = scene.width / 2, scene.height / 2
    expected = [
        (centre[0] + x, centre[1] - y, body.size) for body, (x, y) in zip(world.entities, position, strict=True)
    ]
    np.testing.assert_allclose([(disc.x, disc.y, disc.radius) for disc in scene.shapes], expected)
    for disc, body, ours in zip(scene.shapes, world.entities, engine.bodies, strict=True):
        if not ours.name.startswith(RECOLOURED.get(name, "none")):
            np.testing.assert_allclose(disc.colour, body.color, err_msg=ours.name)


def test_agents_of_one_name_have_their_number():
    engine = registry.make(EnvTask(name="mpe/simple_tag"), 1)
    engine.reset(np.random.default_rng(0))
    assert [disc.label for disc in engine.render(0).shapes] == ["0", "1", "2", "", "", ""]


def test_camera_shows_every_disc_around_same_centre():
    """The field is 2 wide and the disc reaches 3 from its centre: the picture shows 6."""
    scene = Scene(2, 2, (Disc(3.5, 1, 0.5, BLACK), Disc(1, 1, 0.1, BLACK)), walls=False)
    assert camera([scene, Scene(2, 2, ())]) == 3
    drawn = draw(scene, camera([scene])) < 128
    middle = drawn[SIZE // 2, :, 0]
    inked = np.flatnonzero(middle) * 6 / SIZE
    assert inked[0] == pytest.approx(2.9, abs=0.03) and inked[-1] == pytest.approx(6, abs=0.03)


def test_messages_are_letters_silence_and_numbers():
    engine = registry.make(EnvTask(name="mpe/simple_speaker_listener"), 1)
    engine.reset(np.random.default_rng(0))
    assert engine.render(0).texts == ("speaker_0 sends _",)
    engine.step((np.array([[2]]), np.array([[0]])))
    assert engine.render(0).texts == ("speaker_0 sends C",)
    assert (picture(rendering(engine))[-20:, :160] < 100).any()
    task = EnvTask(name="mpe/simple_speaker_listener", options={"continuous_actions": True})
    engine = registry.make(task, 1)
    engine.reset(np.random.default_rng(0))
    engine.step((np.array([[[0.1, 0.25, 0.0]]], np.float32), np.zeros((1, 1, 5), np.float32)))
    assert engine.render(0).texts == ("speaker_0 sends [0.10,0.25,0.00]",)


def test_agents_of_hidden_role_have_landmark_colour():
    engine = registry.make(EnvTask(name="roles/blind_spread"), 1)
    colours = [body.colour for body in engine.bodies]
    agents, landmarks = colours[:6], colours[6:]
    assert agents == [landmarks[role] for role in engine.roles]
    assert len(set(landmarks)) == 3


def test_food_and_players_are_in_their_cells():
    environment = registry.make(EnvTask(name="lbf/8x8-2p-3f"), 1)
    environment.reset(np.random.default_rng(0))
    drawn, cell = picture(rendering(environment)), SIZE // 8
    assert drawn.shape == (SIZE, SIZE, 3)
    food, players = (
        {(row, column) for row, column, _ in environment.arrays[name][0].tolist()} for name in ("food", "players")
    )
    for row in range(8):
        for column in range(8):
            # Beside the level, which is at the centre.
            pixel = drawn[row * cell + cell // 2, column * cell + cell // 4].tolist()
            expected = FOOD if (row, column) in food else PLAYER if (row, column) in players else [255, 255, 255]
            assert pixel == expected
    assert len(food) == 3 and len(players) == 2


def test_a_warehouse_shows_goals_requested_shelves_and_robots():
    environment = registry.make(EnvTask(name="rware/tiny-2ag"), 1)
    environment.reset(np.random.default_rng(0))
    shelf_at, requested, robots = (environment.arrays[name][0] for name in ("shelf_at", "requested", "robots"))
    rows, columns = shelf_at.shape
    scale, drawn = SIZE / max(rows, columns), picture(rendering(environment))
    assert drawn.shape == (SIZE, round(columns * scale), 3)

    def corner(x, y):
        return drawn[int((y + 0.2) * scale), int((x + 0.2) * scale)].tolist()

    assert corner(4, 10) == corner(5, 10) == GOAL
    for y, x in np.argwhere(shelf_at):
        assert corner(x, y) == (REQUESTED if requested[shelf_at[y, x]] else SHELF)
    before = picture(rendering(environment))
    robots[0, 2] = 1  # it carries the first shelf
    y, x = divmod(int(robots[0, 0]), columns)
    places = [picture(rendering(environment)), before]
    # Off the line that points ahead, within the disc.
    found = [part[int((y + 0.36) * scale), int((x + 0.36) * scale)].tolist() for part in places]
    assert found == [[255, 0, 0], [255, 140, 0]]


def test_a_picture_of_another_kind_is_refused():
    class Grey:
        num_envs = 1

        def render(self, index):
            return np.zeros((4, 4), np.uint8)

    with pytest.raises(UserError, match=r"render\(0\) gave uint8 \(4, 4\); a picture is uint8 \[H, W, 3\]"):
        rendering(Grey())


def test_a_task_without_a_picture_says_so():
    environment = registry.make(EnvTask(name="matrix/climbing"), 1)
    with pytest.raises(UserError, match="cannot be drawn"):
        picture(rendering(environment))
