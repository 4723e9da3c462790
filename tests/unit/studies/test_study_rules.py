"""The runs that a study may have, the settings that pass a rung, and the division of dollars and the pool."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marless.coordinator.config.schema import ConfigError
from marless.coordinator.governor.shared_budget import Purse
from marless.studies.halving import decide
from marless.studies.owners import jain
from marless.studies.study import Study
from marless.studies.study_file import Search, Setting, StudyFile

# Numbers too large to count through.
GRID = {"algorithm.lr": list(range(1, 10**6)), "actors": {"num_envs": list(range(1, 10**6))}}


@pytest.mark.parametrize(
    ("file", "seeds", "says"),
    [
        (StudyFile(vary=GRID), [1, 2], "999,998,000,001 settings with 2 seeds each: 1,999,996,000,002 runs, and a"),
        (StudyFile(), range(10_001), "1 setting with 10,001 seeds each: 10,001 runs, and a study has at most 10,"),
        (StudyFile(setting=[Setting(name="a"), Setting(name="b")]), range(5_001), "each: 10,002 runs"),
        (StudyFile(vary=GRID, search=Search(rule="random", settings=10_001)), [1], "1 seed each: 10,001 runs"),
    ],
)
def test_study_of_too_many_runs_is_refused_early(file, seeds, says):
    with pytest.raises(ConfigError, match=says):
        Study(Path("nowhere"), file, seeds)


def test_random_search_size_is_independent_of_lists():
    study = Study(Path("nowhere"), StudyFile(vary=GRID, search=Search(rule="random", settings=3)), [1, 2])
    assert len(study.ask()) == 2


NAMES = st.text("abcdefgh", min_size=1, max_size=3)


def scores(means):
    return {name: {1: mean - 1.0, 2: mean + 1.0} for name, mean in means.items()}


def test_best_third_continues_once_all_are_there():
    decided = decide(scores({"a": 1.0, "b": 3.0, "c": 2.0}), 1 / 3, coming=0)
    assert decided == (("b",), ("c", "a"))


def test_best_continue_early_and_no_run_is_stopped():
    there = scores({"a": 1.0, "b": 3.0, "c": 2.0})
    assert decide(there, 1 / 3, coming=3) == (("b",), ())
    assert decide(scores({"a": 1.0, "b": 3.0}), 1 / 3, coming=3) == ((), ())


def test_one_goes_on_however_few_there_are():
    assert decide(scores({"a": 1.0}), 1 / 3, coming=0) == (("a",), ())


def test_what_was_settled_stays_and_counts():
    there = scores({"a": 1.0, "b": 3.0, "c": 2.0, "d": 4.0})
    assert decide(there, 0.5, coming=0, settled_names=frozenset({"b", "a"})) == (("d",), ("c",))


@given(st.dictionaries(NAMES, st.integers(-100, 100), min_size=1), st.floats(0.05, 0.95))
def test_all_are_settled_and_best_continues(means, keep):
    promoted, stopped = decide(scores(means), keep, coming=0)
    assert sorted([*promoted, *stopped]) == sorted(means)
    assert len(promoted) == max(1, math.floor(keep * len(means) + 1e-9))
    assert max(means.values()) == means[promoted[0]]
    assert all(means[on] >= means[off] for on in promoted for off in stopped)


@pytest.mark.parametrize(("shares", "index"), [([1, 1, 1, 1], 1.0), ([1, 0, 0, 0], 0.25), ([1, 2], 0.9), ([0, 0], 1.0)])
def test_jain_s_index(shares, index):
    assert jain(shares) == pytest.approx(index)


def test_simultaneous_runs_get_equal_parts_and_leftovers():
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
    """Runs begin, spend a part of their allowance, pause, continue and end in any order."""
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
