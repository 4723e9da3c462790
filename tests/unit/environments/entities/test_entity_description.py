"""Descriptions of entities, and the ranges of their features, by hand."""

import numpy as np
import pytest
from msgspec.structs import replace

from marless.functions.environments.base import AgentClass, EnvSpec
from marless.functions.environments.entities.description import Entities, EntityBlock
from marless.functions.environments.spec_check import fault_of
from marless.testing.entity_ranges import EntityRanges

FOOD = EntityBlock("food", ((2, 3, 4), (5, 6, 7)), position=(0, 1), absent=(-1, -1, 0))


@pytest.mark.parametrize(
    ("own", "blocks", "origin", "fault"),
    [
        ((0, 1), [FOOD], (), ""),
        ((0, 1), [FOOD], (0, 1), ""),
        ((1, 0), [FOOD], (), ""),
        ((0, 1, 2), [FOOD], (), "column 2 is listed 2 times. A column belongs to own or to one entity"),
        ((0,), [FOOD], (), "column 1 is missing. Add it to own or to an entity of a block"),
        ((0, 8), [FOOD], (), "column 8 does not exist. An observation has the columns 0 to 7"),
        ((0, 1), [replace(FOOD, first_action=0)], (), ""),
        ((0, 1), [replace(FOOD, first_action=1)], (), "first_action and the entities behind it must end at"),
        ((0, 1), [EntityBlock(str(i), ((i, i + 1, i + 2),), first_action=1) for i in (2, 5)], (), "two blocks have a"),
        ((0, 1), [FOOD], (2,), "origin holds a column that own lacks"),
        ((0, 1), [FOOD], (0,), "block 'food': position has 2 coordinates, origin 1"),
        (
            (0, 1),
            [EntityBlock("a", ((2, 3), (4, 5))), EntityBlock("a", ((6, 7),))],
            (),
            "two blocks have the same name",
        ),
        ((*range(8),), [EntityBlock("a", ())], (), "block 'a' is empty, or its entities have different numbers"),
        ((*range(8),), [EntityBlock("a", ((),))], (), "block 'a' is empty, or its entities have different numbers"),
        ((0, 1), [EntityBlock("a", ((2, 3), (4, 5, 6, 7)))], (), "block 'a' is empty, or its entities have different"),
        ((*range(6),), [EntityBlock("a", ((6, 7),), (0, 2))], (), "block 'a': position holds a number outside 0 to 1"),
        ((*range(6),), [EntityBlock("a", ((6, 7),), (-1,))], (), "block 'a': position holds a number outside 0 to 1"),
        (
            (*range(6),),
            [EntityBlock("a", ((6, 7),), absent=(0,))],
            (),
            "block 'a': absent has 1 numbers for 2 features",
        ),
    ],
)
def test_each_column_has_one_place(own, blocks, origin, fault):
    kind = AgentClass("agent", (0,), 8, 2, entities=Entities(own, tuple(blocks), origin))
    found = fault_of(EnvSpec(("agent_0",), (kind,), 5))
    assert found.startswith(f"the entities of class 'agent': {fault}" if fault else "") and bool(found) == bool(fault)


ROWS = np.array([[0, 1, 7, 0, 0], [2, 2, 7, 3, 6], [1, 0, 9, 4, 5]], np.float32)


def difference(*columns, absent=()):
    ranges = EntityRanges(EntityBlock("food", columns, absent=absent))
    for row in ROWS:
        ranges.look(row[None])
    return ranges.difference()


def test_numbers_in_one_range_show_no_difference():
    assert difference((0,), (1,)) == difference((0, 3), (1, 4)) == difference((2,)) == ""


def test_ranges_without_a_common_number_are_named():
    expected = "column 1 is from 0 to 2, and column 2 is from 7 to 9. Equal entities have similar numbers"
    assert difference((0, 1), (1, 2)) == difference((1, 2), (0, 1)) == f"entities 'food': {expected}"


def test_absent_entities_do_not_count():
    assert difference((0, 1), (3, 4)) == ""
    expected = "column 0 is from 0 to 2, and column 3 is from 3 to 4. Equal entities have similar numbers"
    assert difference((0, 1), (3, 4), absent=(0, 0)) == f"entities 'food': {expected}"
    # The second entity is absent in all rows.
    ranges = EntityRanges(EntityBlock("food", ((0, 1), (3, 4)), absent=(0, 0)))
    ranges.look(ROWS[:1])
    assert ranges.difference() == ""
