"""Ranges of entities' features in observations, by hand."""

import numpy as np

from marless.functions.environments.entities.description import EntityBlock
from marless.testing.entity_ranges import EntityRanges

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
