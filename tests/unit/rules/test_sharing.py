import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.rules.sharing import SHARING_MODES

CLASSES = st.lists(st.integers(0, 3), min_size=1, max_size=12)
BEGINNINGS = [("none", "together"), ("all", "apart"), ("dynamic", "together"), ("dynamic", "apart")]


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
def test_a_group_is_named_after_its_first_member_and_keeps_to_one_class(rule, start, classes):
    groups = SHARING_MODES[rule].initial(classes, start)
    assert len(groups) == len(classes)
    for agent, group in enumerate(groups):
        assert group == groups.index(group) <= agent
        assert classes[group] == classes[agent]
