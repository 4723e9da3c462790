"""Agents by side, and each side's return: by hand."""

import pytest
from simulated import SPEC

from marless.coordinator.core import sides
from marless.coordinator.core.sides import Side, classes_by_side, incompatibility, ranked_side, sides_of
from marless.coordinator.rules.grouping import groups_of
from marless.coordinator.rules.sharing import SHARING_MODES
from marless.functions.environments import registry
from marless.functions.environments.base import AgentClass, EnvSpec, EnvTask


def a_spec(names, of):
    kinds = (AgentClass("all", tuple(range(len(names))), 3, 2),)
    return EnvSpec(agents=tuple(names), classes=kinds, horizon=5, sides=tuple(of))


def test_a_side_is_named_after_its_agents():
    spec = registry.spec(EnvTask(name="mpe/simple_world_comm"))
    assert sides_of(spec) == (Side(0, "leadadversary+adversary", (0, 1, 2, 3)), Side(1, "agent", (4, 5)))
    assert [side.name for side in sides_of(registry.spec(EnvTask(name="mpe/simple_crypto")))] == ["eve", "bob+alice"]


def test_sides_have_full_names_if_only_numbers_differ():
    assert [side.name for side in sides_of(a_spec(("player_0", "player_1"), (0, 1)))] == ["player_0", "player_1"]
    assert [side.name for side in sides_of(a_spec(("0", "1", "2"), (0, 1, 0)))] == ["0+2", "1"]


def test_task_with_one_side_has_none():
    assert (sides_of(SPEC), ranked_side(SPEC, None), sides.returns_of(SPEC, (1.0, 2.0))) == ((), None, {})


def test_a_side_gets_the_sum_over_its_agents():
    spec = a_spec(("red_0", "blue_0", "red_1"), (0, 1, 0))
    assert sides.returns_of(spec, (1.0, -7.0, 0.5)) == {"red": 1.5, "blue": -7.0}
    assert sides.returns_of(spec, ()) == {}


def test_largest_side_is_measured_by_default():
    spec = registry.spec(EnvTask(name="mpe/simple_adversary"))
    assert (ranked_side(spec, None).name, ranked_side(spec, 0).name) == ("agent", "adversary")
    assert ranked_side(a_spec(("a_0", "b_0"), (0, 1)), None).name == "a"  # the first of equals


@pytest.mark.parametrize(
    ("spec", "wanted", "said"),
    [
        (a_spec(("a_0", "b_0"), (0, 1)), 2, "the task has no side 2; there are 0 (a), 1 (b)"),
        (SPEC, 0, "0 is asked for, and all agents of the task are on one side"),
        (a_spec(("a_0", "b_0"), (0, 1)), 1, ""),
        (SPEC, None, ""),
    ],
)
def test_a_side_that_there_is_not_is_refused(spec, wanted, said):
    assert said in incompatibility(spec, wanted) and bool(said) == bool(incompatibility(spec, wanted))


def test_groups_never_span_sides():
    spec = a_spec(("red_0", "blue_0", "red_1", "blue_1"), (0, 1, 0, 1))  # all of one class
    assert SHARING_MODES["all"].initial(classes_by_side(spec), "together") == (0, 1, 0, 1)
    assert SHARING_MODES["dynamic"].initial(classes_by_side(spec), "together") == (0, 1, 0, 1)
    assert groups_of(classes_by_side(spec), lambda agents: [0] * len(agents)) == (0, 1, 0, 1)


def test_classes_of_one_side_stay_apart():
    spec = registry.spec(EnvTask(name="mpe/simple_world_comm"))
    assert SHARING_MODES["all"].initial(classes_by_side(spec), "together") == (0, 1, 1, 1, 4, 4)
    assert classes_by_side(SPEC) == SPEC.class_of
