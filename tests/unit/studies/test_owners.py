"""How dollars and the pool are divided."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marless.coordinator.governor.shared_budget import Purse
from marless.studies.owners import jain


@pytest.mark.parametrize(("shares", "index"), [([1, 1, 1, 1], 1.0), ([1, 0, 0, 0], 0.25), ([1, 2], 0.9), ([0, 0], 1.0)])
def test_jain_s_index(shares, index):
    assert jain(shares) == pytest.approx(index)


def test_runs_that_begin_together_get_equal_parts_and_what_one_leaves_goes_to_the_others():
    purse = Purse(9.0, 3)
    for run in "abc":
        purse.begin(run, 0.0)
    assert [purse.allowance(run) for run in "abc"] == pytest.approx([3.0, 3.0, 3.0])
    purse.end("a", 1.0)
    assert [purse.allowance(run) for run in "bc"] == pytest.approx([4.0, 4.0])


def test_without_a_cap_there_is_no_allowance():
    purse = Purse(None, 1)
    purse.begin("a", 0.0)
    assert purse.allowance("a") is None


@given(
    st.floats(0.1, 100),
    st.integers(1, 8),
    st.lists(st.tuples(st.integers(0, 7), st.floats(0, 1), st.booleans()), max_size=40),
)
def test_runs_never_spend_more_than_the_cap_together(cap, count, moves):
    """Runs begin, spend a part of their allowance, pause, go on and end in any order."""
    purse, spent, at_work, over = Purse(cap, count), dict.fromkeys(range(count), 0.0), set(), set()
    for number, part, pauses in moves:
        run = number % count
        if run in over:
            continue
        if run not in at_work:
            purse.begin(f"{run}", spent[run])
            at_work.add(run)
        else:
            spent[run] += part * (purse.allowance(f"{run}") - spent[run])
            purse.end(f"{run}", spent[run], will_return=pauses)
            at_work.remove(run)
            over |= set() if pauses else {run}
        most = sum(purse.allowance(f"{one}") if one in at_work else spent[one] for one in spent)
        assert most <= cap * (1 + 1e-9)
        assert all(purse.allowance(f"{one}") >= spent[one] - 1e-9 for one in at_work)
