"""Orders of entities, as `task.order` names them."""

import numpy as np
import pytest

from marless.functions.actor.rollout import InBlocks
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.environments.resumable import Resumable
from marless.functions.environments.spaces.orders import EntityOrder
from marless.functions.errors import BadRequest

FOOD = {"name": "food", "columns": [[0, 1, 2], [3, 4, 5], [6, 7, 8]], "position": [0, 1]}
MATE = {"name": "mate", "columns": [[9, 10], [11, 12]], "position": [0, 1], "teammates": True}
ENTITIES = {"own": [13], "blocks": [FOOD, MATE]}
# Food at the distances 5, 2 and 3. Teammates at the distances 4 and 1.
ROW = [3, 4, 0.1, 2, 0, 0.2, 0, 3, 0.3, 4, 0, 0, 1, 9]


def sort(row, rule="distance", entities=ENTITIES):
    return EntityOrder(rule, entities).sort(np.array(row, np.float32)).tolist()


def foods(row, **arguments):
    return [round(10 * value) for value in sort(row, **arguments)[2:9:3]]


def test_nearest_entity_comes_first_with_all_features():
    expected = [2, 0, 0.2, 0, 3, 0.3, 3, 4, 0.1, 0, 1, 4, 0, 9]
    assert sort(ROW) == np.array(expected, np.float32).tolist()


def test_relation_subtracts_distance_of_nearest_teammate():
    # 5 - sqrt(17), 2 - 2 and 3 - 2.
    assert foods(ROW, rule="relation") == [2, 1, 3]
    assert sort(ROW, rule="relation")[9:] == [0, 1, 4, 0, 9]


def test_equal_entities_keep_their_order():
    row = [0, 2, 0.1, 2, 0, 0.2, -2, 0, 0.3, 3, 0, 0, 3, 9]
    assert foods(row) == [1, 2, 3] and sort(row)[9:13] == [3, 0, 0, 3]


def test_absent_entities_come_last_and_absent_teammates_vanish():
    entities = {"own": [13], "blocks": [FOOD | {"absent": [0, 0, 0]}, MATE | {"absent": [0, 0]}]}
    row = [0, 0, 0, *ROW[3:9], 0, 0, *ROW[11:]]
    assert foods(row, entities=entities) == [2, 3, 0]
    # 2 - sqrt(5), and 3 - 2.
    assert foods(row, rule="relation", entities=entities) == [2, 3, 0]
    alone = [*ROW[:9], 0, 0, 0, 0, 9]
    assert foods(alone, rule="relation", entities=entities) == foods(alone) == [2, 3, 1]


def test_corner_positions_are_compared_with_agent_position():
    entities = {"own": [9, 10], "origin": [9, 10], "blocks": [FOOD]}
    assert foods([3, 4, 0.1, 2, 0, 0.2, 0, 3, 0.3, 3, 3], entities=entities) == [1, 3, 2]


@pytest.mark.parametrize("rule", ["distance", "relation"])
def test_environments_show_sorted_observations_and_sorted_states(rule):
    plain, ordered = (registry.make(EnvTask(name="mpe/simple_spread", order=one), 6) for one in ("index", rule))
    assert isinstance(ordered, InBlocks) and isinstance(ordered, Resumable) and ordered.spec == plain.spec
    order = EntityOrder(rule, {"blocks": [
        {"columns": [[4, 5], [6, 7], [8, 9]], "position": [0, 1]},
        {"columns": [[10, 11, 14, 15], [12, 13, 16, 17]], "position": [0, 1], "teammates": True},
    ]})  # fmt: skip
    rngs = [np.random.default_rng(3) for _ in range(2)]
    seen = [one.reset(rng) for one, rng in zip((plain, ordered), rngs, strict=True)]
    for _ in range(27):
        np.testing.assert_array_equal(seen[1].values[0], order.sort(seen[0].values[0]))
        action = np.random.default_rng(4).integers(5, size=(6, 3))
        steps = [one.step((action,)) for one in (plain, ordered)]
        np.testing.assert_array_equal(steps[0].rewards, steps[1].rewards)
        if steps[0].final is not None:
            np.testing.assert_array_equal(steps[1].final.values[0], order.sort(steps[0].final.values[0]))
        seen = [step.observation for step in steps]
    again = registry.make(EnvTask(name="mpe/simple_spread", order=rule), 6)
    np.testing.assert_array_equal(again.resume(ordered.save(), rngs[1]).values[0], seen[1].values[0])


@pytest.mark.parametrize(
    ("name", "rule", "reason"),
    [
        ("mpe/simple_push", "relation", "no agent sees equal entities and a teammate. Use distance or index"),
        ("mpe/simple_reference", "distance", "no agent sees two equal entities with positions. Use index"),
        ("toy/signal", "distance", "the environment does not describe its entities. Use index"),
    ],
)
def test_order_that_sorts_nothing_is_refused(name, rule, reason):
    with pytest.raises(BadRequest) as error:
        registry.make(EnvTask(name=name, order=rule), 1)
    assert str(error.value) == f"{name}: task.order={rule}: {reason}"
