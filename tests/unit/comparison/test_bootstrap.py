"""Statistics of scores and their intervals against rliable 1.2.0, exact enumeration and counting by hand."""

import itertools

import numpy as np
import pytest

from marless.comparison import bootstrap
from marless.comparison.bootstrap import interval
from marless.comparison.comparison import FEWEST, profile, rows

# Five seeds on two tasks.
OWN = np.array([[0.1, 0.5], [0.4, 0.9], [0.35, 0.2], [0.8, 0.6], [0.55, 0.75]])
BASE = np.array([[0.3, 0.45], [0.4, 0.1], [0.05, 0.25], [0.6, 0.65], [0.2, 0.7]])
# Seven seeds on one.
C = np.array([[3.0], [1.0], [7.0], [4.0], [9.0], [2.0], [5.0]])
D = np.array([[2.0], [1.5], [6.0], [4.0], [3.0], [2.5], [0.0]])


@pytest.mark.parametrize(
    ("statistic", "own", "base"),
    [
        (bootstrap.iqm, 0.525, 0.36666666666666664),
        (bootstrap.mean, 0.515, 0.37),
        (bootstrap.median, 0.515, 0.37),
        (bootstrap.optimality_gap, 0.485, 0.63),
    ],
)
def test_aggregates_are_rliables(statistic, own, base):
    assert (statistic(OWN), statistic(BASE)) == (pytest.approx(own), pytest.approx(base))


def test_score_above_one_counts_as_one_in_gap():
    assert bootstrap.optimality_gap(1.3 * OWN) == pytest.approx(0.3515)  # rliable


def test_with_one_task_the_median_is_over_seeds():
    assert bootstrap.median(C) == 4 and bootstrap.median(D) == 2.5


# rliable with 50,000 (improvement: 20,000) repetitions. Another generator draws other resamples.
@pytest.mark.parametrize(
    ("statistic", "arms", "expected"),
    [
        (bootstrap.iqm, (OWN,), (0.34166667, 0.69166667)),
        (bootstrap.iqm, (BASE,), (0.2, 0.53333333)),
        (bootstrap.mean, (OWN,), (0.37, 0.655)),
        (bootstrap.median, (BASE,), (0.24, 0.5)),
        (bootstrap.optimality_gap, (OWN,), (0.345, 0.63)),
        (bootstrap.iqm, (C,), (2.2, 6.8)),
        (bootstrap.mean, (D,), (1.42857143, 4.07142857)),
        (bootstrap.improvement, bootstrap.ranks(OWN, BASE), (0.4, 0.9)),
        (bootstrap.improvement, bootstrap.ranks(C, D), (0.37755102, 0.93877551)),
    ],
)
def test_intervals_are_rliables(statistic, arms, expected):
    # The means of resamples of D are multiples of 1 / 14, so that neighbours of a quantile are that far.
    near = 0.072 if arms[0] is D else 0.021
    assert interval(statistic, arms, ("test",)) == pytest.approx(expected, abs=near)


def test_probability_of_improvement_counts_pairs():
    assert bootstrap.improvement(*bootstrap.ranks(OWN, BASE)) == pytest.approx(0.67)  # rliable
    assert bootstrap.improvement(*bootstrap.ranks(C, D)) == pytest.approx(0.6836734693877551)
    wins = [(own > base) + (own == base) / 2 for own in C[:, 0] for base in D[:, 0]]
    assert bootstrap.improvement(*bootstrap.ranks(C, D)) == pytest.approx(sum(wins) / len(wins))
    # By seed: 3 > 2, 1 < 1.5, 7 > 6, 4 = 4, 9 > 3, 2 < 2.5, 5 > 0.
    assert bootstrap.improvement_by_seed(C, D) == pytest.approx(4.5 / 7)


@pytest.mark.parametrize("scores", [[1.0, 4.0], [0.0, 1.0, 5.0], [2.0, 3.0, 7.0, 20.0]])
def test_an_interval_is_that_of_all_resamples(scores):
    every = [sum(resample) / len(scores) for resample in itertools.product(scores, repeat=len(scores))]
    assert interval(bootstrap.mean, (np.array(scores)[:, np.newaxis],), ("all",)) == pytest.approx(
        tuple(np.quantile(every, [0.025, 0.975], method="inverted_cdf")), abs=1e-9
    )


def test_seeds_drawn_for_both_arms_at_once_cancel():
    shifted = C + 2
    assert interval(bootstrap.iqm_difference, (shifted, C), ("paired",), together=True) == pytest.approx((2, 2))
    low, high = interval(bootstrap.iqm_difference, (shifted, C), ("apart",))
    assert low < 0 < high


def test_one_seed_has_no_interval_and_tells_nothing():
    found = rows({"a": C[:1], "b": C[:1] + 9}, {"a": (1,), "b": (1,)}, "test")[1]
    assert found.iqm.ci95 is None and found.against.difference.value == 9
    assert found.against.verdict == "cannot tell"


def against(own, base, same):
    other = tuple(range(1, 1 + len(base))) if same else tuple(range(101, 101 + len(base)))
    seeds = {"base": other, "own": tuple(range(1, 1 + len(own)))}
    return rows({"base": np.array(base)[:, np.newaxis], "own": np.array(own)[:, np.newaxis]}, seeds, "test")[1].against


def test_what_can_be_told_of_two_arms():
    # Every run above every other: all resamples agree.
    low, high = [1, 2, 3, 4, 5], [6, 7, 8, 9, 10]
    assert against(high, low, False).verdict == "higher"
    assert against(low, high, False).verdict == "lower"
    assert against([1, 5, 6, 8, 9], [2, 3, 4, 7, 10], False).verdict == "cannot tell"


@pytest.mark.parametrize("same", [True, False])
def test_fewer_than_five_seeds_tell_nothing(same):
    # Of four paired seeds without any effect, all favour the same arm with probability 2 / 2^4 = 1 / 8.
    seeds = [0, 1, 2, 3, 4]
    far = [value + 100 for value in seeds]
    assert against(far, seeds, same).verdict == "higher"
    assert against(far[:4], seeds[:4], same).verdict == "cannot tell"
    assert against(far, seeds[:4], False).verdict == "cannot tell"
    # More tasks do not make up for seeds.
    many = {"base": np.zeros((4, 20)), "own": np.ones((4, 20))}
    assert rows(many, {"base": (1, 2, 3, 4), "own": (1, 2, 3, 4)}, "test")[1].against.verdict == "cannot tell"


def test_paired_seeds_decide_from_six_on():
    # Half a point better on each seed, while seeds differ by ten: all pairs cannot tell.
    seeds = [0, 10, 20, 30, 40, 50]
    better = [value + 0.5 for value in seeds]
    assert FEWEST == 6
    found = against(better, seeds, True)
    assert (found.by_seed.value, found.verdict) == (1.0, "higher")
    low, high = found.improvement.ci95
    assert low < 0.5 < high
    assert against(better, seeds, False).by_seed is None
    assert against(better, seeds, False).verdict == "cannot tell"
    assert against(better[:5], seeds[:5], True).verdict == "cannot tell"


def test_a_profile_counts_the_runs_above():
    lines = profile({"own": OWN, "base": BASE})
    for name, scores in (("own", OWN), ("base", BASE)):
        counted = [sum(value > threshold for value in scores.flat) / 10 for threshold in lines.x]
        assert lines.y[name] == pytest.approx(counted)
        assert lines.y[name][0] == 1 and lines.y[name][-1] <= 0.1
        assert all(low <= y <= high for low, y, high in zip(lines.low[name], counted, lines.high[name], strict=True))
    # rliable's band at 0.4: 0.3 to 0.9.
    near = int(np.argmin(np.abs(np.array(lines.x) - 0.405)))
    assert (lines.low["own"][near], lines.high["own"][near]) == pytest.approx((0.3, 0.9))


def test_the_probability_of_improvement_counts_pairs():
    rng = np.random.default_rng(0)
    # Few values, so that many are equal.
    own, base = (rng.integers(0, 5, (4, seeds, 2)).astype(float) for seeds in (6, 3))
    pairs = [
        [(a > b) + 0.5 * (a == b) for task in range(2) for a in own[draw, :, task] for b in base[draw, :, task]]
        for draw in range(4)
    ]
    assert bootstrap.improvement(*bootstrap.ranks(own, base)).tolist() == [sum(wins) / 36 for wins in pairs]
    assert bootstrap.improvement(*bootstrap.ranks(own[0], base[0])) == sum(pairs[0]) / 36


def test_hundreds_of_seeds_are_compared_without_all_pairs():
    # 1,000 resamples of 10^6 pairs would be gigabytes.
    rng = np.random.default_rng(0)
    own, base = rng.normal(0.5, 1.0, (1_000, 1)), rng.normal(0.0, 1.0, (1_000, 1))
    low, high = bootstrap.interval(bootstrap.improvement, bootstrap.ranks(own, base), ("here",), repetitions=1_000)
    # The normal distribution function at 0.5 / sqrt(2) is 0.638.
    assert low < 0.638 < high and high - low < 0.1
