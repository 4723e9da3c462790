"""Kitchens in C against overcooked-ai: rewards, features, images and distances, step by step."""

import sys

import numpy as np
import pytest

from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.environments.games.kitchen_layouts import TILES, layout_of
from marless.functions.environments.games.kitchen_tables import steps_to_tiles
from marless.functions.errors import BadRequest
from marless_tasks.overcooked.distances import Distances

STAY, INTERACT, ACTIONS = 4, 5, 6
DISH, SOUP = 3, 16
FLOOR, COUNTER, POT, ONIONS, TOMATOES, DISHES, SERVING = range(7)
ENVS, HORIZON = 4, 100
# Carroll et al., and others with tomatoes, bonus orders, prices by order, two pots, or a soup at the start.
LAYOUTS = (
    "cramped_room",
    "asymmetric_advantages",
    "coordination_ring",
    "forced_coordination",
    "counter_circuit_o_1order",
    "bonus_order_test",
    "mdp_test",
    "soup_coordination",
    "tutorial_1",
    "tutorial_2",
)


class Hall:
    """A gridworld of two free cells side by side, with walls all around."""

    def get_valid_player_positions(self):
        return [(1, 1), (2, 1)]


class Walkers:
    """Cooks who walk to tiles that they draw by lot, mostly useful ones, use them, and rarely do something else."""

    def __init__(self, environment, rng):
        self._arrays, self._tables, self._rng = environment.arrays, environment._tables, rng
        self._terrain = self._tables["terrain"]
        columns = len(environment._layout.rows[0])
        self._beside = np.array([-columns, columns, 1, -1])
        self._steps = steps_to_tiles(self._terrain, columns)
        self._goals = np.full((environment.num_envs, 2), -1)

    def act(self):
        """An action of each cook ``[E, cooks]``."""
        return np.array([[self._choose(env, cook) for cook in range(2)] for env in range(len(self._goals))])

    def _choose(self, env, cook):
        if self._rng.random() < 0.1:
            return self._rng.integers(ACTIONS)
        cell, facing = (int(self._arrays[name][env, cook]) for name in ("cells", "facings"))
        goal, steps = self._goals[env, cook], self._steps[4 * cell + facing]
        if goal < 0:
            goal = self._goals[env, cook] = self._draw(env, steps, self._arrays["hands"][env, cook])
        if steps[goal] == 1:
            self._goals[env, cook] = -1
            return INTERACT
        beside = cell + self._beside
        next_cells = np.where(self._terrain[beside] == FLOOR, beside, cell)
        return int(np.argmin(self._steps[4 * next_cells + np.arange(4), goal]))

    def _draw(self, env, steps, hand):
        """A tile that can be reached, most often a useful one: empty hands fetch, others use the thing they hold."""
        things, pots = self._arrays["tiles"][env], self._terrain == POT
        started = np.zeros(len(steps), bool)
        started[self._tables["pot_cells"]] = self._arrays["cooked"][env] >= 0
        full = (things & 3) + (things >> 2 & 3) == 3
        counters = self._terrain == COUNTER
        if hand == 0:
            fetched = np.isin(self._terrain, [ONIONS, TOMATOES]) + started.any() * (self._terrain == DISHES)
            weights = 4.0 * fetched + pots * ~started * np.where(full, 9, 0.5) + 2 * counters * (things > 0)
        else:
            served = self._terrain == SERVING if hand >= SOUP else started if hand == DISH else pots * ~started * ~full
            weights = 9.0 * served + 0.3 * counters * (things == 0)
        weights = (weights + 0.01) * (steps < 2**15 - 1)
        return self._rng.choice(len(weights), p=weights / weights.sum())


def kitchens(layout, **options):
    pytest.importorskip("overcooked_ai_py.mdp.overcooked_mdp")
    names = (f"overcooked/{layout}", f"package:overcooked/{layout}")
    return [registry.make(EnvTask(name=name, options={"horizon": HORIZON, **options}), ENVS) for name in names]


def policies(environment, rng):
    """Policies by name. Each returns actions ``[E, cooks]``."""
    shape = (environment.num_envs, 2)
    return {
        "random": lambda: rng.integers(ACTIONS, size=shape),
        "walking": lambda: rng.integers(STAY, size=shape),
        "serving": Walkers(environment, rng).act,
    }


def package():
    return sys.modules["overcooked_ai_py.mdp.overcooked_mdp"]


def test_turning_moving_and_interacting_are_a_step_each():
    distances = Distances(Hall())
    right = (1, 0)
    # It looks right, at the free cell: turn left and interact, or move right and interact with the tile ahead.
    assert distances.min_cost_to_feature(((1, 1), right), [(0, 1)]) == (2, (0, 1))
    assert distances.min_cost_to_feature(((1, 1), right), [(3, 1)]) == (2, (3, 1))
    assert distances.min_cost_to_feature(((2, 1), right), [(3, 1)]) == (1, (3, 1))
    assert distances.min_cost_to_feature(((1, 1), right), [(2, 0)]) == (3, (2, 0))


@pytest.mark.packages
def test_a_layout_that_the_package_lacks_is_refused():
    pytest.importorskip("overcooked_ai_py.mdp.overcooked_mdp")
    with pytest.raises(BadRequest, match=r"no layout 'cramped_rom' .*; nearest: package:overcooked/cramped_room"):
        registry.make(EnvTask(name="package:overcooked/cramped_rom"), 1)


@pytest.mark.packages
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("observation", ["features", "image"])
@pytest.mark.parametrize("policy", ["random", "walking", "serving"])
def test_every_step_is_the_packages(layout, observation, policy):
    compiled, reference = kitchens(layout, observation=observation, shaping=0.5)
    act = policies(compiled, np.random.default_rng(7))[policy]
    seen = [environment.reset(np.random.default_rng(0)).values[0] for environment in (compiled, reference)]
    np.testing.assert_array_equal(*seen)
    for _ in range(HORIZON + 20):
        actions = act()
        step, expected = (environment.step((actions,)) for environment in (compiled, reference))
        np.testing.assert_array_equal(step.rewards, expected.rewards)
        np.testing.assert_array_equal(step.observation.values[0], expected.observation.values[0])
        np.testing.assert_array_equal(step.ended, expected.ended)
        np.testing.assert_array_equal(step.truncated, expected.truncated)
        if step.final is not None:
            np.testing.assert_array_equal(step.final.values[0], expected.final.values[0])
            metric = (result.env_metrics["sparse_return"] for result in (step, expected))
            np.testing.assert_array_equal(*metric)


@pytest.mark.packages
def test_layouts_are_the_packages():
    pytest.importorskip("overcooked_ai_py.mdp.overcooked_mdp")
    from marless.functions.environments.games import kitchen_layouts

    for name in kitchen_layouts._GRIDS:
        gridworld = package().OvercookedGridworld.from_layout_name(name)
        layout, state = layout_of("a task", name, ""), gridworld.get_standard_start_state()
        assert [list(row) for row in layout.rows] == gridworld.terrain_mtx
        facings = [(0, -1), (0, 1), (1, 0), (-1, 0)]
        starts = [(*cook.position, facings.index(cook.orientation)) for cook in state.players]
        assert list(layout.cooks) == starts
        soups = {place: soup.ingredients for place, soup in state.objects.items()}
        assert {place: ["onion"] * onions for place, onions in layout.soups.items()} == soups
        for recipe in package().Recipe.ALL_RECIPES:
            letters = "".join(sorted(ingredient[0] for ingredient in recipe.ingredients))
            price = gridworld.get_recipe_value(state, recipe), recipe.time
            assert layout.menu.price(letters) == price, (name, letters)


@pytest.mark.packages
@pytest.mark.parametrize("layout", LAYOUTS[:5])
def test_distances_are_those_of_the_packages_planner(layout):
    pytest.importorskip("overcooked_ai_py.mdp.overcooked_mdp"), pytest.importorskip("scipy")
    np.Inf = np.inf  # the package is older than NumPy 2
    from overcooked_ai_py.planning.planners import MotionPlanner

    gridworld = package().OvercookedGridworld.from_layout_name(layout)
    planner = MotionPlanner(gridworld, counter_goals=gridworld.get_counter_locations())
    distances = Distances(gridworld)
    terrain = np.array([TILES.index(letter) for row in gridworld.terrain_mtx for letter in row], np.uint8)
    steps_of = steps_to_tiles(terrain, gridworld.width)
    tiles = [place for kind, places in gridworld.terrain_pos_dict.items() if kind != " " for place in places]
    for pose in gridworld.get_valid_player_positions_and_orientations():
        (x, y), facing = pose
        row = steps_of[4 * (y * gridworld.width + x) + [(0, -1), (0, 1), (1, 0), (-1, 0)].index(facing)]
        for tile in tiles:
            cost = planner.min_cost_to_feature(pose, [tile], True)
            assert distances.min_cost_to_feature(pose, [tile]) == cost
            steps = row[tile[1] * gridworld.width + tile[0]]
            assert (np.inf if steps == 2**15 - 1 else steps) == cost[0]
