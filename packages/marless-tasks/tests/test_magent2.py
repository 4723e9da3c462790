"""MAgent2: sides, walls and empty groups, against the package's own grid."""

import importlib
import inspect

import numpy as np
import pytest

from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.errors import BadRequest
from marless.testing.environments import check
from marless_tasks.magent2 import GAMES, Grid
from scripts.reference import markdown

SMALLEST = {"adversarial_pursuit": 12, "battle": 12, "battlefield": 46, "combined_arms": 16, "tiger_deer": 12}


def grids(game="adversarial_pursuit", num_envs=1, **options):
    return registry.make(EnvTask(name=f"magent2/{game}", options=options), num_envs)


@pytest.fixture
def package():
    return pytest.importorskip("magent2")


def random_actions(environment, rng):
    return tuple(rng.integers(kind.actions, size=(1, len(kind.agents))) for kind in environment.spec.classes)


@pytest.mark.parametrize(
    ("name", "meant"), [("batle", "magent2/battle.*"), ("xyz", "magent2/adversarial_pursuit, .*magent2/tiger_deer")]
)
def test_unknown_game_lists_known_games(name, meant):
    with pytest.raises(BadRequest, match=f"magent2 has no game '{name}'; there are {meant}$"):
        grids(name)


@pytest.mark.packages
@pytest.mark.parametrize("game", SMALLEST)
def test_agents_have_sides_of_their_names(package, game):
    spec = grids(game, map_size=SMALLEST[game]).spec
    first, second = GAMES[game].sides.split(",")
    assert {*spec.sides} == {0, 1}
    for agent, side in zip(spec.agents, spec.sides, strict=True):
        assert agent.startswith((first, second)[side])


@pytest.mark.packages
def test_all_who_gather_are_one_team(package):
    assert GAMES["gather"].sides == "" and grids("gather", horizon=2).spec.sides == ()


@pytest.mark.packages
def test_other_sides_can_be_named(package):
    spec = grids("combined_arms", map_size=16, sides="redmelee,redranged,blue").spec
    assert {*spec.sides} == {0, 1, 2}


@pytest.mark.packages
@pytest.mark.parametrize("game", GAMES)
def test_options_are_documented_with_the_packages_defaults(package, game):
    module = importlib.import_module(f"magent2.environments.{GAMES[game].module}")
    own = {name: one.default for name, one in inspect.signature(module.parallel_env).parameters.items()}
    rows = {row[0]: row[3] for row in markdown.data("environments.toml")["options"]["magent2"]}
    assert rows.keys() - {"horizon", "sides", "map_size"} == own.keys() - {
        "map_size",
        "max_cycles",
        "render_mode",
        "seed",
        "reward_args",
        "env_args",
    }
    assert [rows["minimap_mode"], rows["extra_features"]] == ["false", "false"]
    assert (own["minimap_mode"], own["extra_features"]) == (False, False)
    text = next(row[4] for row in markdown.data("environments.toml")["options"]["magent2"] if row[0] == "map_size")
    assert str(own.get("map_size", 200)) in text
    horizons = {"battle": 1000, "battlefield": 1000, "combined_arms": 1000, "tiger_deer": 300}
    assert own["max_cycles"] == horizons.get(game, 500)


@pytest.mark.packages
def test_the_state_shows_the_walls_of_the_episode(package):
    environment, rng = grids(map_size=16, horizon=2), np.random.default_rng(0)
    walls = []
    seen = environment.reset(np.random.default_rng(1))
    for _ in range(4):
        shown = seen.state[0].reshape(16, 16, -1)[:, :, 0]
        there = np.zeros((16, 16))
        there[tuple(environment._guards[0].environment._walls().T)] = 1
        assert np.array_equal(shown, there) and there[1:-1, 1:-1].any()
        walls.append(there)
        environment.step(random_actions(environment, rng))
        seen = environment.step(random_actions(environment, rng)).observation
    assert not np.array_equal(walls[0], walls[1])


@pytest.mark.packages
def test_group_without_agents_is_absent_from_state(package):
    from magent2.environments.combined_arms.combined_arms import _parallel_env, default_reward_args

    class Arms(_parallel_env):
        """Combined arms with an agent in each group from `first` on."""

        first = 0

        def generate_map(self):
            for number, group in list(enumerate(self.handles))[self.first :]:
                self.env.add_agents(group, method="custom", pos=[[3 + 2 * number, 4]])

    game = Arms(16, False, default_reward_args, 10, False)
    grid = Grid(game)
    game.first = 1
    grid.reset(seed=0)
    with pytest.raises(ValueError):
        game.state()
    # Channels are walls, and presence and health of each group.
    presence = grid.state()[:, :, 1::2]
    assert np.argwhere(presence).tolist() == [[5, 4, 1], [7, 4, 2], [9, 4, 3]]


@pytest.mark.packages
@pytest.mark.parametrize("game", ["adversarial_pursuit", "tiger_deer", "battle", "combined_arms"])
def test_grids_keep_every_promise(package, game):
    walls = game in ("adversarial_pursuit", "tiger_deer")
    check(lambda num_envs: grids(game, num_envs, map_size=SMALLEST[game], horizon=40), episodes=2, random_starts=walls)


@pytest.mark.packages
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"map_size": 3}, "size of map must be at least 7"),
        ({"mapsize": 3}, "refuses task.options"),
        ({"horizon": 0}, "the horizon is 0; it must be a whole number"),
        ({"sides": "red"}, "lists how the agents' names start"),
    ],
)
def test_invalid_grid_options_are_one_line(package, options, message):
    with pytest.raises(BadRequest, match=message) as refused:
        grids(**options)
    assert "\n" not in str(refused.value)


@pytest.mark.packages
def test_grid_shows_walls_and_agents_to_scale(package):
    environment = grids(map_size=12)
    environment.reset(np.random.default_rng(0))
    scene, game = environment.render(0), environment._guards[0].environment
    boxes = {(box.x, box.y): (box.width, box.height) for box in scene.shapes}
    predators, prey = (game.env.get_pos(group).tolist() for group in game.handles)
    assert {boxes[x, y] for x, y in predators} == {(2, 2)} and {boxes[x, y] for x, y in prey} == {(1, 1)}
    assert len(scene.shapes) == len(predators) + len(prey) + len(game._walls())
