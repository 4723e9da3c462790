import math
from itertools import pairwise

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from marless.coordinator.rules import sharing
from marless.coordinator.rules.sharing import judge, schedule

differences = st.lists(st.integers(-1000, 1000).map(lambda number: number / 8), max_size=40).map(np.array)
margins = st.integers(0, 400).map(lambda number: number / 8)
looks = st.integers(1, 5).flatmap(lambda last: st.tuples(st.integers(1, last), st.just(last)))

SHARES = {1: (1,), 2: (1 / 2, 1 / 2), 3: (1 / 4, 1 / 4, 1 / 2), 4: (1 / 8, 1 / 8, 1 / 4, 1 / 2)}
SPREAD = np.array([-1.0, 0.0, 1.0, 2.0, 3.0])  # mean 1, standard error sqrt(2.5 / 5)


def test_totals_double_up_to_the_most():
    assert schedule(800, 4) == (100, 200, 400, 800)
    assert schedule(1601, 4) == (201, 401, 801, 1601)
    assert schedule(7, 1) == (7,)


def test_a_small_trial_has_fewer_looks():
    assert schedule(3, 4) == (2, 3)
    assert schedule(2, 5) == (2,)


@given(st.integers(2, 5000), st.integers(1, 8))
def test_totals_grow_from_two_to_maximum(most, count):
    totals = schedule(most, count)
    assert 1 <= len(totals) <= count
    assert totals[0] >= 2
    assert totals[-1] == most
    assert all(early < late <= 2 * early for early, late in pairwise(totals))


@pytest.mark.parametrize("most, count", [(1, 3), (10, 0)])
def test_a_trial_without_episodes_or_looks_is_refused(most, count):
    with pytest.raises(ValueError):
        schedule(most, count)


@pytest.mark.parametrize(
    "look, count", [(look, count) for count, shares in SHARES.items() for look in range(1, count + 1)]
)
@pytest.mark.parametrize("error", [0.01, 0.05, 0.2])
def test_bounds_are_those_of_scipy_at_look(look, count, error):
    half = scipy.stats.t.ppf(1 - error * SHARES[count][look - 1], 4) * math.sqrt(2.5 / 5)
    undecided = "more" if look < count else "roll back"
    low, high = 1 - half, 1 + half
    assert judge(SPREAD, -low + 1e-9, error, look, count) == "commit"
    assert judge(SPREAD, -low - 1e-9, error, look, count) == undecided
    assert judge(SPREAD, -high + 1e-9, error, look, count) == undecided
    assert judge(SPREAD, -high - 1e-9, error, look, count) == "roll back"


def test_a_verdict_by_hand():
    # 97.5 % of Student's t with 4 degrees of freedom is 2.776, so the bounds are 1 - 1.963 and 1 + 1.963.
    assert judge(SPREAD, 0.97, 0.05, 1, 2) == "commit"
    assert judge(SPREAD, 0.95, 0.05, 1, 2) == "more"
    assert judge(SPREAD, 0.95, 0.05, 2, 2) == "roll back"
    assert judge(SPREAD - 4, 1.0, 0.05, 1, 2) == "roll back"


@pytest.mark.parametrize("count", [2, 3, 7, 100])
@pytest.mark.parametrize("value, margin, first, last", [
    (0.1, 0.0, "commit", "commit"),
    (-0.1, 0.0, "roll back", "roll back"),
    (-0.1, 0.2, "commit", "commit"),
    (0.0, 0.0, "more", "roll back"),
    (-0.1, 0.1, "more", "roll back"),
])  # fmt: skip
def test_equal_differences_are_taken_as_their_mean(count, value, margin, first, last):
    assert judge(np.full(count, value), margin, 0.05, 1, 3) == first
    assert judge(np.full(count, value), margin, 0.05, 3, 3) == last


@pytest.mark.parametrize("few", [[], [100.0]])
def test_fewer_than_two_episodes_decide_nothing(few):
    assert judge(np.array(few), 1.0, 0.05, 1, 2) == "more"
    assert judge(np.array(few), 1.0, 0.05, 2, 2) == "roll back"


def test_differences_that_are_no_numbers_do_not_commit():
    assert judge(np.array([1.0, np.nan, 2.0]), 10.0, 0.05, 2, 2) == "roll back"


@pytest.mark.parametrize("error, look, count", [(0.0, 1, 1), (0.5, 1, 1), (0.05, 0, 1), (0.05, 3, 2)])
def test_an_impossible_question_is_refused(error, look, count):
    with pytest.raises(ValueError):
        judge(SPREAD, 1.0, error, look, count)


@settings(max_examples=100, deadline=None)
@given(differences, margins, looks, st.randoms())
def test_the_order_of_the_episodes_does_not_matter(sample, margin, look, random):
    shuffled = np.array(random.sample(list(sample), len(sample)))
    assert judge(shuffled, margin, 0.05, *look) == judge(sample, margin, 0.05, *look)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=20), st.randoms())
def test_bounds_are_the_same_bits_in_any_order(sample, random):
    assert sharing._moments(np.array(random.sample(sample, len(sample)))) == sharing._moments(np.array(sample))


@settings(max_examples=100, deadline=None)
@given(differences, margins, looks, st.floats(1e-3, 1e3))
def test_the_scale_of_the_returns_does_not_matter(sample, margin, look, factor):
    verdict = judge(sample, margin, 0.05, *look)
    # A bound exactly on the margin may be rounded to either side.
    if len(set(sample)) > 1:
        assume({judge(sample, margin + step, 0.05, *look) for step in (-1e-6, 1e-6)} == {verdict})
    assert judge(factor * sample, factor * margin, 0.05, *look) == verdict


@settings(max_examples=100, deadline=None)
@given(differences, margins, looks, st.integers(0, 100))
def test_a_wider_margin_never_turns_a_commit_down(sample, margin, look, more):
    rank = {"roll back": 0, "more": 1, "commit": 2}
    assert rank[judge(sample, margin + more, 0.05, *look)] >= rank[judge(sample, margin, 0.05, *look)]


def shares_committed(mean, trials, seed, draw):
    """Return the share of trials of 400 episodes in 4 looks that commit. The margin is 0.5, and differences have
    standard deviation 1."""
    rng = np.random.default_rng(seed)
    totals = schedule(400, 4)
    committed = 0
    for _ in range(trials):
        sample = mean + draw(rng, 400)
        verdicts = (judge(sample[:total], 0.5, 0.1, look, 4) for look, total in enumerate(totals, 1))
        committed += next(verdict for verdict in verdicts if verdict != "more") == "commit"
    return committed / trials


@pytest.mark.parametrize("draw", [
    lambda rng, size: rng.standard_normal(size),
    lambda rng, size: rng.standard_t(3, size) / math.sqrt(3),
])  # fmt: skip
def test_clearly_worse_team_is_rarely_taken(draw):
    rate = shares_committed(-0.5, 600, 7, draw)
    assert 0.02 < rate <= 0.1 + 3 * math.sqrt(0.1 * 0.9 / 600)


def test_equal_team_is_taken_and_worse_team_not():
    """Ten standard errors at the last look, five at the first."""
    assert shares_committed(0.0, 100, 8, lambda rng, size: rng.standard_normal(size)) >= 0.99
    assert shares_committed(-1.0, 100, 9, lambda rng, size: rng.standard_normal(size)) == 0
