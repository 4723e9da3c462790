import pytest
from hypothesis import given
from hypothesis import strategies as st

from marless.coordinator.rules.sharing import SHARING_MODES, by_name, invalid_groups

CLASSES = st.lists(st.integers(0, 3), min_size=1, max_size=12)
BEGINNINGS = [
    ("none", "together"),
    ("all", "apart"),
    ("dynamic", "together"),
    ("dynamic", "apart"),
    ("lasting", "apart"),
    ("roles", "together"),
    ("shuffled:roles", "together"),
]


@pytest.mark.parametrize(
    "rule, start, classes, groups",
    [
        ("none", "together", (0, 0, 0), (0, 1, 2)),
        ("none", "together", (1, 0, 0), (0, 1, 2)),
        ("all", "apart", (0, 0, 0), (0, 0, 0)),
        ("all", "apart", (1, 0, 0), (0, 1, 1)),
        ("all", "apart", (0, 1, 0, 1), (0, 1, 0, 1)),
        ("dynamic", "apart", (0, 1, 0, 1), (0, 1, 2, 3)),
        ("dynamic", "together", (0, 1, 0, 1), (0, 1, 0, 1)),
    ],
)
def test_the_groups_of_small_teams(rule, start, classes, groups):
    assert SHARING_MODES[rule].initial(classes, start) == groups


@pytest.mark.parametrize("rule, start", BEGINNINGS)
@given(classes=CLASSES)
def test_group_has_first_member_name_and_one_class(rule, start, classes):
    groups = SHARING_MODES[rule].initial(classes, start)
    assert len(groups) == len(classes)
    for agent, group in enumerate(groups):
        assert group == groups.index(group) <= agent
        assert classes[group] == classes[agent]


TEAM, CLASSES_OF_TEAM = ("red_0", "blue_0", "red_1", "blue_1", "red_2"), (0, 1, 0, 1, 0)


@pytest.mark.parametrize(
    "named, groups",
    [
        ([["red_0", "red_1"]], (0, 1, 0, 3, 4)),
        ([["red_2", "red_1"], ["blue_1", "blue_0"]], (0, 1, 2, 1, 2)),
        ([["red_1", "red_0", "red_2"], ["blue_0"]], (0, 1, 0, 3, 0)),
        ([], (0, 1, 2, 3, 4)),
    ],
)
def test_manual_groups_have_first_member_names(named, groups):
    assert by_name(TEAM, named) == groups
    assert not invalid_groups(TEAM, CLASSES_OF_TEAM, named)


@pytest.mark.parametrize(
    "named, said",
    [
        ([["red_0", "red_3"]], "there is no agent red_3; there are red_0, blue_0, red_1, blue_1, red_2"),
        ([["red_0"], ["red_1", "blue_1"]], "red_1 and blue_1 cannot share a network"),
    ],
)
def test_impossible_manual_groups_are_one_line(named, said):
    assert said in invalid_groups(TEAM, CLASSES_OF_TEAM, named)
