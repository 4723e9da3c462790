import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.sharing import SHARING_RULES

CLASSES = st.lists(st.integers(0, 3), min_size=1, max_size=12)


@pytest.mark.parametrize(
    "rule, classes, groups",
    [
        ("none", (0, 0, 0), (0, 1, 2)),
        ("none", (1, 0, 0), (0, 1, 2)),
        ("all", (0, 0, 0), (0, 0, 0)),
        ("all", (1, 0, 0), (0, 1, 1)),
        ("all", (0, 1, 0, 1), (0, 1, 0, 1)),
    ],
)
def test_the_groups_of_small_teams(rule, classes, groups):
    assert SHARING_RULES[rule](classes) == groups


@pytest.mark.parametrize("rule", SHARING_RULES)
@given(classes=CLASSES)
def test_a_group_is_named_after_its_first_member_and_keeps_to_one_class(rule, classes):
    groups = SHARING_RULES[rule](classes)
    assert len(groups) == len(classes)
    for agent, group in enumerate(groups):
        assert group == groups.index(group) <= agent
        assert classes[group] == classes[agent]
