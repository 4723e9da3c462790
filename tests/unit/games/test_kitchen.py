"""Kitchens in C: rules of overcooked-ai 1.1.0 that are easy to get wrong, by hand."""

import numpy as np
import pytest
from built_kernels import needs_kernels

from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.environments.games.kitchen_layouts import Menu
from marless.functions.environments.games.kitchen_tables import steps_to_tiles

pytestmark = needs_kernels

NORTH, SOUTH, EAST, WEST, STAY, INTERACT = range(6)
ONION, TOMATO, DISH, SOUP = 1, 2, 3, 16
THREE_ONIONS = SOUP + 3
# XXPXX
# O  2O
# X1  X
# XDXSX
COLUMNS = 5
ONION_COOK = [EAST, INTERACT, WEST, NORTH, INTERACT]
COOK = [*ONION_COOK * 3, INTERACT, EAST, *[STAY] * 25]
SERVE = [*[STAY] * 16, SOUTH, INTERACT, NORTH, EAST, NORTH, *[STAY] * 15, INTERACT]
SERVE += [SOUTH, EAST, SOUTH, INTERACT, STAY]


def kitchen(layout="cramped_room", num_envs=1, **options):
    return registry.make(EnvTask(name=f"overcooked/{layout}", options=options), num_envs)


def begun(layout="cramped_room", **options):
    environment = kitchen(layout, **options)
    environment.reset(np.random.default_rng(0))
    return environment


def stand(environment, *cooks, hands=(0, 0), **tiles):
    """Puts cooks at (x, y) with a facing, things into hands, and things on the tiles `at_x_y`."""
    columns = len(environment._layout.rows[0])
    for cook, (x, y, facing) in enumerate(cooks):
        environment.arrays["cells"][0, cook] = y * columns + x
        environment.arrays["facings"][0, cook] = facing
    environment.arrays["hands"][0] = hands
    for place, thing in tiles.items():
        _, x, y = place.split("_")
        environment.arrays["tiles"][0, int(y) * columns + int(x)] = thing


def act(environment, first, second=STAY):
    return environment.step((np.array([[first, second]]),))


def features(step, cook=0):
    return step.observation.values[0][0, cook]


def serve(environment):
    environment.reset(np.random.default_rng(0))
    steps = [act(environment, *pair) for pair in zip(SERVE, COOK, strict=True)]
    return np.array([step.rewards[0] for step in steps]), steps


def test_soups_pay_both_cooks_and_steps_one():
    rewards, _ = serve(kitchen())
    # Three onions in the pot: 3 each. A dish: 3. The soup taken: 5. The soup served: 20 for both.
    assert rewards.sum(axis=0).tolist() == [3 + 5 + 20, 3 * 3 + 20]
    assert rewards[-2].tolist() == [20, 20]


@pytest.mark.parametrize(("shaping", "paid"), [(0, [20, 20]), (0.5, [24, 24.5])])
def test_shaping_scales_the_pay_on_the_way(shaping, paid):
    assert serve(kitchen(shaping=shaping))[0].sum(axis=0).tolist() == paid


def test_the_metric_is_what_soups_paid_the_team():
    _, steps = serve(kitchen(horizon=len(SERVE)))
    assert [step.env_metrics for step in steps[:-1]] == [{}] * (len(SERVE) - 1)
    assert steps[-1].env_metrics["sparse_return"].tolist() == [20]
    assert steps[-1].truncated.tolist() == [True] and not steps[-1].terminated.any()


def test_a_counter_passes_things_in_one_step():
    environment = begun("counter_circuit_o_1order")
    # Cooks at both sides of the counters in the middle: cook 0 acts first.
    stand(environment, (3, 3, NORTH), (3, 1, SOUTH), hands=(ONION, 0))
    act(environment, INTERACT, INTERACT)
    assert environment.arrays["hands"][0].tolist() == [0, ONION]
    act(environment, INTERACT, INTERACT)
    assert environment.arrays["hands"][0].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("cooks", "actions", "cells"),
    [
        # Into the same cell.
        (((1, 1, NORTH), (3, 1, NORTH)), (EAST, WEST), [(1, 1), (3, 1)]),
        # A swap.
        (((1, 1, NORTH), (2, 1, NORTH)), (EAST, WEST), [(1, 1), (2, 1)]),
        # Against a cook who stays.
        (((1, 1, NORTH), (2, 1, NORTH)), (EAST, INTERACT), [(1, 1), (2, 1)]),
        # One blocks another by walking against a wall.
        (((1, 1, NORTH), (2, 1, NORTH)), (EAST, NORTH), [(1, 1), (2, 1)]),
        # After a cook who leaves.
        (((1, 1, NORTH), (2, 1, NORTH)), (EAST, EAST), [(2, 1), (3, 1)]),
    ],
)
def test_cooks_who_meet_stay_and_turn(cooks, actions, cells):
    environment = begun()
    stand(environment, *cooks)
    act(environment, *actions)
    assert environment.arrays["cells"][0].tolist() == [y * COLUMNS + x for x, y in cells]
    turned = [action if action < STAY else NORTH for action in actions]
    assert environment.arrays["facings"][0].tolist() == turned


@pytest.mark.parametrize(
    ("pot", "cooked", "hands", "counter", "paid"),
    [
        (0, -1, (0, 0), 0, 0),
        (SOUP + 1, -1, (0, 0), 0, 3),
        (SOUP + 2, -1, (0, 0), 0, 3),
        # A full pot before its start.
        (THREE_ONIONS, -1, (0, 0), 0, 0),
        (THREE_ONIONS, 0, (0, 0), 0, 3),
        (THREE_ONIONS, 20, (0, 0), 0, 3),
        # The other cook has one, or a counter.
        (THREE_ONIONS, 20, (0, DISH), 0, 0),
        (THREE_ONIONS, 20, (0, 0), DISH, 0),
    ],
)
def test_a_dish_pays_where_a_pot_waits(pot, cooked, hands, counter, paid):
    environment = begun()
    stand(environment, (1, 2, SOUTH), (3, 1, NORTH), hands=hands, at_2_0=pot, at_0_0=counter)
    environment.arrays["cooked"][0, 0] = cooked
    assert act(environment, INTERACT).rewards[0].tolist() == [paid, 0]
    assert environment.arrays["hands"][0, 0] == DISH


def test_pots_for_dishes_are_those_before_the_step():
    environment = begun()
    # Cook 0 starts a full pot, which waited for no dish before.
    stand(environment, (2, 1, NORTH), (1, 2, SOUTH), at_2_0=THREE_ONIONS)
    assert act(environment, INTERACT, INTERACT).rewards[0].tolist() == [0, 0]
    # Cook 0 takes the only soup: in cook 1's turn it still counts, and no dish is in a hand.
    environment = begun()
    stand(environment, (2, 1, NORTH), (1, 2, SOUTH), hands=(DISH, 0), at_2_0=THREE_ONIONS)
    environment.arrays["cooked"][0, 0] = 20
    assert act(environment, INTERACT, INTERACT).rewards[0].tolist() == [5, 3]


def test_a_pot_cooks_from_its_first_step():
    environment = begun()
    stand(environment, (2, 1, NORTH), (3, 2, NORTH), at_2_0=THREE_ONIONS)
    steps = [act(environment, INTERACT)] + [act(environment, STAY) for _ in range(19)]
    # Of the nearest pot: cooks, is ready, steps left.
    assert [[int(features(step)[place]) for place in (25, 26, 29)] for step in steps[-2:]] == [[1, 0, 1], [0, 1, 0]]
    assert int(features(steps[0])[29]) == 19


def test_a_full_pot_waits_to_be_started():
    environment = begun()
    stand(environment, (2, 1, NORTH), (3, 2, NORTH), hands=(ONION, 0), at_2_0=SOUP + 2)
    assert act(environment, INTERACT).rewards[0, 0] == 3
    act(environment, STAY)
    assert environment.arrays["cooked"][0].tolist() == [-1]
    # The pot refuses a fourth onion, and a dish before it is ready.
    for thing in (ONION, DISH):
        stand(environment, (2, 1, NORTH), (3, 2, NORTH), hands=(thing, 0))
        assert act(environment, INTERACT).rewards[0, 0] == 0
        assert environment.arrays["hands"][0, 0] == thing


def test_an_order_of_fewer_ingredients_cooks_too():
    environment = begun("mdp_test")
    # A tomato is worth 5 and an onion 10. One onion is ordered, and one tomato is not.
    stand(environment, (3, 2, SOUTH), (3, 1, NORTH), hands=(SOUP + 1, 0))
    assert act(environment, INTERACT).rewards[0].tolist() == [10, 10]
    stand(environment, (3, 2, SOUTH), (3, 1, NORTH), hands=(SOUP + 4, 0))
    assert act(environment, INTERACT).rewards[0].tolist() == [0, 0]
    assert environment.arrays["hands"][0, 0] == 0


@pytest.mark.parametrize(
    ("menu", "soup", "price"),
    [
        (Menu(), "ooo", (20, 20)),
        (Menu(), "oot", (0, 20)),
        (Menu(""), "t", (20, 20)),
        # A bonus order pays twice.
        (Menu("ot t", "ot", (15, 10), (10, 9)), "ot", (50, 19)),
        (Menu("ot t", "ot", (15, 10), (10, 9)), "tt", (0, 18)),
        (Menu("ooo o", ordered=((9, 5), (4, 6))), "o", (4, 6)),
        # Soups without a price cook for 20 steps.
        (Menu("ooo o", ordered=((9, 5), (4, 6))), "oo", (0, 20)),
    ],
)
def test_prices_are_by_order_or_by_ingredient(menu, soup, price):
    assert menu.price(soup) == price


def test_dispensers_and_serving_take_nothing_else():
    environment = begun()
    for cook, thing in (((1, 1, WEST), ONION), ((1, 2, SOUTH), DISH), ((3, 2, SOUTH), DISH), ((1, 2, SOUTH), ONION)):
        stand(environment, cook, (2, 1, NORTH), hands=(thing, 0))
        act(environment, INTERACT)
        assert environment.arrays["hands"][0, 0] == thing
    stand(environment, (3, 2, EAST), (1, 1, NORTH), hands=(ONION, 0), at_4_2=DISH)
    act(environment, INTERACT)
    assert environment.arrays["hands"][0, 0] == ONION


def put_down(environment, thing, *poses):
    for pose in poses:
        stand(environment, (1, 2, NORTH), pose, hands=(0, thing))
        act(environment, STAY, INTERACT)


def test_of_equally_near_things_the_first_counts():
    places = {"left": ((1, 1, NORTH), (-1, -1)), "right": ((3, 1, NORTH), (1, -1))}
    for first, second in (("left", "right"), ("right", "left")):
        environment = begun()
        put_down(environment, THREE_ONIONS, places[first][0], places[second][0])
        # Facing the pot between them, both are three steps away.
        stand(environment, (2, 1, NORTH), (3, 2, NORTH))
        assert features(act(environment, STAY))[14:16].tolist() == list(places[first][1])


def test_of_equally_near_things_a_dispenser_counts_first():
    environment = begun()
    put_down(environment, ONION, (1, 1, NORTH))
    # A turn and the interaction for both: the counter above and the onions to the left.
    stand(environment, (1, 1, EAST), (3, 2, NORTH))
    assert features(act(environment, STAY))[8:10].tolist() == [-1, 0]
    stand(environment, (1, 1, NORTH), (3, 2, NORTH))
    assert features(act(environment, STAY))[8:10].tolist() == [0, -1]


def test_the_way_to_a_held_thing_is_zero():
    environment = begun()
    stand(environment, (2, 1, NORTH), (3, 2, NORTH), hands=(SOUP + 2 + 4, ONION))
    step = act(environment, STAY)
    # One-hot: onion, soup, dish, tomato. Then the way to the soup, and its onions and tomatoes.
    assert features(step)[4:8].tolist() == [0, 1, 0, 0] and features(step)[14:18].tolist() == [0, 0, 2, 1]
    assert features(step, 1)[4:8].tolist() == [1, 0, 0, 0] and features(step, 1)[8:10].tolist() == [0, 0]


def test_things_that_cannot_be_reached_are_zero():
    step = act(begun("forced_coordination"), STAY)
    # Cook 0 at the right reaches pots only, cook 1 dispensers only.
    assert not features(step)[8:14].any() and features(step)[22] == features(step)[32] == 1
    assert features(step, 1)[8:10].any() and not features(step, 1)[22:42].any()


def test_numbers_of_the_other_cook_follow():
    step = act(begun(), STAY)
    assert features(step)[46:92].tolist() == features(step, 1)[:46].tolist()
    # Where the other cook is from here, and where the cook is.
    assert features(step)[-4:].tolist() == [2, -1, 1, 2] and features(step, 1)[-4:].tolist() == [-2, 1, 3, 1]


def test_an_image_shows_each_cook_itself_first():
    environment = begun(observation="image")
    stand(environment, (3, 2, SOUTH), (1, 1, WEST), hands=(0, SOUP + 1 + 4), at_2_0=SOUP + 2, at_0_0=ONION)
    image = act(environment, STAY).observation.values[0][0].reshape(2, 4, 5, 26)
    assert image[0, 2, 3, [0, 1, 3]].tolist() == [1, 0, 1] and image[1, 2, 3, [0, 1, 7]].tolist() == [0, 1, 1]
    # Things in the pot, in a hand and on a counter. Then the tiles.
    assert image[0, 0, 2, [16, 18, 20, 21]].tolist() == [2, 0, 0, 0]
    assert image[0, 1, 1, [16, 18, 19, 21]].tolist() == [0, 1, 1, 1] and image[0, 0, 0, 23] == 1
    assert image[1, [0, 0, 1, 3, 3], [2, 0, 0, 1, 3], [10, 11, 12, 14, 15]].tolist() == [1] * 5


def test_the_image_says_that_time_runs_out():
    # In the last 40 steps of an episode.
    early, late = (
        environment.reset(np.random.default_rng(0)).values[0].reshape(-1, 26)[:, 25]
        for environment in (kitchen(observation="image", horizon=40), kitchen(observation="image", horizon=39))
    )
    assert not early.any() and late.all()


def test_a_layout_may_begin_with_onions():
    environment = begun("tutorial_1")
    assert environment.arrays["tiles"][0, 2 * 7 + 2] == SOUP + 2
    assert environment.arrays["facings"][0].tolist() == [WEST, NORTH]


def test_turning_moving_and_interacting_are_a_step_each():
    # Two free cells side by side.
    steps = steps_to_tiles(np.array([1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1], np.uint8), 4)
    left, right = 4 * 5, 4 * 6
    # Turn left and interact. Move right and interact with the tile ahead.
    assert steps[left + EAST, 4] == 2 and steps[left + EAST, 7] == 2 and steps[right + EAST, 7] == 1
    assert steps[left + EAST, 2] == 3 and steps[left + EAST, 0] == 2**15 - 1


def test_a_grid_of_the_user_is_a_kitchen():
    environment = begun(grid="XPSX|O12D|XXXX")
    assert [act(environment, *pair).rewards[0].sum() for pair in ((WEST, EAST), (INTERACT, INTERACT))] == [0, 0]
    assert environment.arrays["hands"][0].tolist() == [ONION, DISH]


def test_a_picture_shows_tiles_things_and_cooks():
    environment = begun()
    stand(environment, (1, 2, SOUTH), (2, 1, NORTH), hands=(DISH, 0), at_2_0=SOUP + 1)
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
    # A soup of one onion in the pot, two cooks, and the dish of the first cook.
    assert discs == [(2.5, 0.5, "1"), (1.5, 2.5, ""), (1.5, 2.72, ""), (2.5, 1.5, "")]
