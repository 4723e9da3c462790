"""Overcooked: soups served by hand, and distances and views against the package's own."""

import sys

import numpy as np
import pytest

from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.errors import BadRequest, MissingExtra
from marless.testing.environments import check
from marless_tasks.overcooked.distances import Distances

UP, DOWN, RIGHT, LEFT, STAY, INTERACT = range(6)
# In cramped_room the pot is above the middle, onions are at both sides; the first cook stands beside the dishes.
ONION = [RIGHT, INTERACT, LEFT, UP, INTERACT]
COOK = [*ONION * 3, INTERACT, RIGHT, *[STAY] * 25]
SERVE = [*[STAY] * 16, DOWN, INTERACT, UP, RIGHT, UP, *[STAY] * 15, INTERACT, DOWN, RIGHT, DOWN, INTERACT, STAY]
PAPER = (
    "cramped_room",
    "asymmetric_advantages",
    "coordination_ring",
    "forced_coordination",
    "counter_circuit_o_1order",
)


class Hall:
    """A gridworld of two free cells side by side, with walls all around."""

    def get_valid_player_positions(self):
        return [(1, 1), (2, 1)]


def kitchen(layout="cramped_room", num_envs=1, **options):
    return registry.make(EnvTask(name=f"overcooked/{layout}", options=options), num_envs)


@pytest.fixture
def package():
    """The package's module of gridworlds; it is imported with its notice swallowed."""
    pytest.importorskip("overcooked_ai_py.mdp.overcooked_mdp")
    return sys.modules["overcooked_ai_py.mdp.overcooked_mdp"]


def serve(environment):
    """The rewards ``[steps, 2]`` of two cooks who serve one soup."""
    environment.reset(np.random.default_rng(0))
    steps = [environment.step((np.array([pair]),)) for pair in zip(SERVE, COOK, strict=True)]
    return np.array([step.rewards[0] for step in steps]), steps


def test_turning_moving_and_interacting_are_a_step_each():
    distances = Distances(Hall())
    right = (1, 0)
    # It looks right, at the free cell: turning left and interacting; moving right and interacting with what is ahead.
    assert distances.min_cost_to_feature(((1, 1), right), [(0, 1)]) == (2, (0, 1))
    assert distances.min_cost_to_feature(((1, 1), right), [(3, 1)]) == (2, (3, 1))
    assert distances.min_cost_to_feature(((2, 1), right), [(3, 1)]) == (1, (3, 1))
    assert distances.min_cost_to_feature(((1, 1), right), [(2, 0)]) == (3, (2, 0))


def test_the_first_of_the_nearest_tiles_counts_and_none_where_none_can_be_reached():
    distances = Distances(Hall())
    assert distances.min_cost_to_feature(((1, 1), (1, 0)), [(3, 1), (0, 1)]) == (2, (3, 1))
    assert distances.min_cost_to_feature(((1, 1), (1, 0)), [(9, 9)]) == (np.inf, None)


def test_a_missing_package_is_named_with_what_installs_it_alone(shell):
    shell.uninstall("overcooked_ai_py")
    with pytest.raises(MissingExtra, match=r"needs the package .*: pip install --no-deps overcooked-ai gym$"):
        kitchen()


@pytest.mark.packages
def test_a_soup_pays_both_cooks_and_steps_on_the_way_pay_who_takes_them(package):
    rewards, _ = serve(kitchen())
    # Three onions in the pot: 3 each. A dish: 3. The soup taken: 5. The soup served: 20 for both.
    assert rewards.sum(axis=0).tolist() == [3 + 5 + 20, 3 * 3 + 20]
    assert rewards[-2].tolist() == [20, 20]


@pytest.mark.packages
@pytest.mark.parametrize(("shaping", "paid"), [(0, [20, 20]), (0.5, [24, 24.5])])
def test_shaping_is_the_share_of_the_pay_on_the_way(package, shaping, paid):
    assert serve(kitchen(shaping=shaping))[0].sum(axis=0).tolist() == paid


@pytest.mark.packages
def test_the_metric_of_an_episode_is_what_soups_paid_the_team(package):
    _, steps = serve(kitchen(horizon=len(SERVE)))
    assert [step.env_metrics for step in steps[:-1]] == [{}] * (len(SERVE) - 1)
    assert steps[-1].env_metrics["sparse_return"].tolist() == [20]
    assert steps[-1].truncated.tolist() == [True] and not steps[-1].terminated.any()


@pytest.mark.packages
def test_a_kitchen_keeps_its_recipes_while_another_layout_is_played(package):
    environment = kitchen()
    kitchen("cramped_room_tomato")  # its soups of three onions pay 45 and cook for 30 steps
    assert serve(environment)[0][-2].tolist() == [20, 20]


@pytest.mark.packages
@pytest.mark.parametrize("layout", PAPER)
def test_distances_are_those_of_the_packages_planner(package, layout):
    pytest.importorskip("scipy")
    np.Inf = np.inf  # the package is older than NumPy 2
    from overcooked_ai_py.planning.planners import MotionPlanner

    gridworld = package.OvercookedGridworld.from_layout_name(layout)
    planner = MotionPlanner(gridworld, counter_goals=gridworld.get_counter_locations())
    ours = Distances(gridworld)
    tiles = [place for kind, places in gridworld.terrain_pos_dict.items() if kind != " " for place in places]
    for pose in gridworld.get_valid_player_positions_and_orientations():
        for tile in tiles:
            assert ours.min_cost_to_feature(pose, [tile]) == planner.min_cost_to_feature(pose, [tile], True)
        assert ours.min_cost_to_feature(pose, tiles) == planner.min_cost_to_feature(pose, tiles, True)


@pytest.mark.packages
def test_features_and_images_are_the_packages_own(package):
    features, image = kitchen(), kitchen(observation="image")
    assert features.spec.classes[0].observation_shape == ()
    assert image.spec.classes[0].observation_shape == (4, 5, 26)
    serve(features), serve(image)
    game = image._guards[0].environment
    own = np.array(game._gridworld.lossless_state_encoding(game._state, 400))
    step = image.step((np.array([[STAY, STAY]]),))
    seen = step.observation.values[0][0].reshape(2, 4, 5, 26)
    assert (seen == own.transpose(0, 2, 1, 3)).all()
    # cook_0 stands at (3, 2) and looks down, at the counter where soups are served.
    assert seen[0, 2, 3, 0] == 1 and seen[1, 2, 3, 1] == 1
    numbers = features.step((np.array([[STAY, STAY]]),)).observation.values[0][0]
    assert numbers.shape == (2, 96)
    # The last two are where a cook stands, those before it where the other one is from there.
    assert numbers[:, -4:].tolist() == [[0, -1, 3, 2], [0, 1, 3, 1]]


@pytest.mark.packages
def test_the_last_layer_of_the_image_says_that_time_runs_out(package):
    # In the last 40 steps of an episode.
    early, late = (
        environment.reset(np.random.default_rng(0)).values[0].reshape(-1, 26)[:, 25]
        for environment in (kitchen(observation="image"), kitchen(observation="image", horizon=39))
    )
    assert not early.any() and late.all()


@pytest.mark.packages
@pytest.mark.parametrize("layout", PAPER)
@pytest.mark.parametrize("observation", ["features", "image"])
def test_a_kitchen_keeps_every_promise(package, layout, observation):
    check(lambda num_envs: kitchen(layout, num_envs, observation=observation, horizon=9), random_starts=False)


@pytest.mark.packages
@pytest.mark.parametrize(
    ("layout", "options", "message"),
    [
        ("cramped_rom", {}, "overcooked-ai has no layout 'cramped_rom' .*; nearest: overcooked/cramped_room"),
        ("xyz", {}, "write it as overcooked/<layout>, such as overcooked/cramped_room$"),
        ("../layouts/cramped_room", {}, "overcooked-ai has no layout"),
        ("cramped_room_single", {}, "is a kitchen for 1; only those for two"),
        ("multiplayer_schelling", {}, "is a kitchen for 4; only those for two"),
        ("cramped_room", {"observation": "picture"}, "observation is 'picture'; there are features, image"),
        ("cramped_room", {"shaping": -1}, "shaping is -1; it must be a number from 0"),
        ("cramped_room", {"shapping": 1}, "refuses task.options {'shapping': 1}"),
        ("cramped_room", {"horizon": 0}, "the horizon is 0; it must be a whole number"),
    ],
)
def test_what_a_user_gets_wrong_in_a_kitchen_is_answered_in_one_line(package, layout, options, message):
    with pytest.raises(BadRequest, match=message) as refused:
        kitchen(layout, **options)
    assert "\n" not in str(refused.value)


@pytest.mark.packages
def test_a_kitchen_shows_tiles_things_and_cooks(package):
    environment = kitchen()
    environment.reset(np.random.default_rng(0))
    for pair in zip([STAY] * 5 + [DOWN, INTERACT], ONION + [STAY] * 2, strict=True):
        environment.step((np.array([pair]),))
    scene = environment.render(0)
    assert (scene.width, scene.height) == (5, 4)
    tiles = {(shape.x, shape.y): shape.label for shape in scene.shapes if hasattr(shape, "height")}
    assert {place: label for place, label in tiles.items() if label} == {
        (2, 0): "P",
        (0, 1): "O",
        (4, 1): "O",
        (1, 3): "D",
        (3, 3): "S",
    }
    discs = [(disc.x, disc.y, disc.label) for disc in scene.shapes if hasattr(disc, "radius")]
    # A soup of one onion in the pot, two cooks, and the dish that the first one holds, at its side of the counter.
    assert discs == [(2.5, 0.5, "1"), (1.5, 2.5, ""), (1.5, 2.72, ""), (2.5, 1.5, "")]
