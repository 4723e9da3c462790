"""Which settings go on at a rung."""

import math

from hypothesis import given
from hypothesis import strategies as st

from marless.studies.halving import decide

NAMES = st.text("abcdefgh", min_size=1, max_size=3)


def scores(means):
    return {name: {1: mean - 1.0, 2: mean + 1.0} for name, mean in means.items()}


def test_the_best_third_goes_on_once_all_are_there():
    decided = decide(scores({"a": 1.0, "b": 3.0, "c": 2.0}), 1 / 3, coming=0)
    assert decided == (("b",), ("c", "a"))


def test_while_some_may_come_the_best_of_those_there_go_on_and_nobody_is_stopped():
    there = scores({"a": 1.0, "b": 3.0, "c": 2.0})
    assert decide(there, 1 / 3, coming=3) == (("b",), ())
    assert decide(scores({"a": 1.0, "b": 3.0}), 1 / 3, coming=3) == ((), ())


def test_one_goes_on_however_few_there_are():
    assert decide(scores({"a": 1.0}), 1 / 3, coming=0) == (("a",), ())


def test_what_was_settled_stays_and_counts():
    there = scores({"a": 1.0, "b": 3.0, "c": 2.0, "d": 4.0})
    assert decide(there, 0.5, coming=0, settled_names=frozenset({"b", "a"})) == (("d",), ("c",))


@given(st.dictionaries(NAMES, st.integers(-100, 100), min_size=1), st.floats(0.05, 0.95))
def test_all_are_settled_and_the_best_is_among_those_that_go_on(means, keep):
    promoted, stopped = decide(scores(means), keep, coming=0)
    assert sorted([*promoted, *stopped]) == sorted(means)
    assert len(promoted) == max(1, math.floor(keep * len(means) + 1e-9))
    assert max(means.values()) == means[promoted[0]]
    assert all(means[on] >= means[off] for on in promoted for off in stopped)
