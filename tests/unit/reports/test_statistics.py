import msgspec
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.conformance.bounded_interval import bounded_ci95
from marless.comparison import bootstrap
from marless.comparison.bootstrap import interval
from marless.reports.statistics import (
    FinalReturn,
    adjusted_rand,
    ci95,
    iqm,
    mean,
    sd,
    summary,
    t_cdf,
    t_quantile,
    tost_paired,
)

numbers = st.floats(-1e6, 1e6)


def test_the_interquartile_mean_drops_the_outer_quarters():
    assert iqm([100, 2, 3, -50]) == 2.5
    assert iqm([1, 2, 3]) == 2  # floor(3 / 4) = 0: nothing is dropped
    assert iqm([9, 1, 2, 3, 7]) == 4  # floor(5 / 4) = 1: (2 + 3 + 7) / 3


@settings(max_examples=100, deadline=None)
@given(st.lists(numbers, min_size=1, max_size=30))
def test_the_interquartile_mean_is_scipys_trimmed_mean(values):
    assert iqm(values) == pytest.approx(scipy.stats.trim_mean(values, 0.25), rel=1e-9, abs=1e-9)


def test_mean_and_standard_deviation_by_hand():
    assert mean([2, 4, 4, 4, 5, 5, 7, 9]) == 5
    assert sd([1, 3]) == pytest.approx(2**0.5)


@pytest.mark.parametrize("freedom", [0.7, 1, 2, 3.3, 9, 31, 319, 3199, 1e6])
@pytest.mark.parametrize("t", [-40, -3, -1.2, -1e-4, 0, 0.3, 1.96, 7, 60])
def test_students_t_is_scipys(t, freedom):
    assert t_cdf(t, freedom) == pytest.approx(scipy.stats.t.cdf(t, freedom), rel=1e-8, abs=1e-300)


@pytest.mark.parametrize("freedom", [1, 2.5, 31, 3199])
@pytest.mark.parametrize("probability", [0.95, 0.975, 0.999])
def test_quantiles_of_students_t_are_scipys(probability, freedom):
    assert t_quantile(probability, freedom) == pytest.approx(scipy.stats.t.ppf(probability, freedom), rel=1e-10)


def test_the_interval_of_a_mean_is_scipys():
    values = np.random.default_rng(1).normal(-36, 12, 32)
    low, high = scipy.stats.t.interval(0.95, 31, loc=values.mean(), scale=scipy.stats.sem(values))
    assert ci95(values) == pytest.approx((low, high), rel=1e-10)


def test_a_summary_of_one_episode_claims_no_interval():
    assert summary([-30.0]) == FinalReturn(mean=-30.0, iqm=-30.0, ci95=None, episodes=1)
    with pytest.raises(ValueError, match="at least 2 values, got 1"):
        ci95([-30.0])
    with pytest.raises(ValueError, match="at least 1 value, got 0"):
        summary([])


def test_a_summary_survives_json():
    figures = summary([-40, -30, -35, -20])
    assert figures.mean == -31.25
    assert figures.iqm == -32.5
    assert msgspec.json.decode(msgspec.json.encode(figures), type=FinalReturn) == figures


def test_the_bootstrap_of_the_mean_agrees_with_scipys():
    scores = np.random.default_rng(2).normal(0, 1, 40)
    ours = interval(bootstrap.mean, [scores[:, np.newaxis]], ("scipy",), repetitions=4000)
    theirs = scipy.stats.bootstrap([scores], np.mean, method="percentile", rng=np.random.default_rng(4))
    assert ours == pytest.approx(theirs.confidence_interval, abs=0.03)


def test_bootstrap_draws_runs_within_task():
    # Both tasks are constant over runs, so every draw gives the same matrix. Mixing tasks would spread the means.
    scores = np.array([[0.0, 10.0]] * 5)
    assert interval(bootstrap.mean, [scores], ("tasks",), repetitions=50) == (5.0, 5.0)


def test_the_bootstrap_draws_each_task_on_its_own():
    # Drawn together, run 1 gives (1, 0) and run 2 (0, 1): a mean of 0.5 always. Drawn apart, it varies.
    assert interval(bootstrap.mean, [np.eye(2)], ("tasks",), repetitions=200) == (0.0, 1.0)


def test_the_bootstrap_is_a_function_of_its_address():
    scores = np.random.default_rng(5).normal(size=(10, 3))
    first, again, other = (interval(bootstrap.iqm, [scores], (name,), repetitions=200) for name in "aab")
    assert first == again != other


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(numbers, numbers), min_size=2, max_size=8), st.floats(1e-3, 1e6))
def test_equivalence_does_not_depend_on_who_is_first(pairs, margin):
    a, b = zip(*pairs, strict=True)
    there, back = tost_paired(a, b, margin), tost_paired(b, a, margin)
    assert there.p_value == pytest.approx(back.p_value, rel=1e-6, abs=1e-12)
    assert there.difference == -back.difference


def test_runs_without_spread_are_equivalent_within_margin():
    assert tost_paired([1, 1], [2, 2], 1.5).p_value == 0
    assert tost_paired([1, 1], [2, 2], 0.5).p_value == 1


def test_a_margin_that_is_not_positive_is_refused():
    with pytest.raises(ValueError, match="positive"):
        tost_paired([1, 2], [1, 2], 0)


@pytest.mark.parametrize(("shift", "margin"), [(0.0, 0.5), (0.1, 0.22), (-0.3, 0.22), (0.2, 0.1)])
def test_paired_equivalence_is_two_one_sided_scipy_tests(shift, margin):
    rng = np.random.default_rng(11)
    common = rng.normal(0, 3, 9)
    a, b = common + rng.normal(shift, 0.2, 9), common + rng.normal(0, 0.2, 9)
    above = scipy.stats.ttest_1samp(a - b, -margin, alternative="greater").pvalue
    below = scipy.stats.ttest_1samp(a - b, margin, alternative="less").pvalue
    interval = scipy.stats.ttest_rel(a, b).confidence_interval(0.9)
    result = tost_paired(a, b, margin)
    assert result.p_value == pytest.approx(max(above, below), rel=1e-9)
    assert result.ci90 == pytest.approx((interval.low, interval.high), rel=1e-9)
    assert result.difference == pytest.approx(np.mean(a - b))


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), min_size=2, max_size=8).filter(
        lambda pairs: np.ptp([a - b for a, b in pairs]) > 1e-3
    ),
    st.floats(0.1, 3),
)
def test_paired_equivalence_holds_if_interval_within_margin(pairs, margin):
    result = tost_paired(*zip(*pairs, strict=True), margin)
    assert (result.p_value < 0.05) == (-margin < result.ci90[0] and result.ci90[1] < margin)


def test_pairs_without_spread_are_equivalent_within_margin():
    # The values differ widely. All pairs differ by a half.
    assert tost_paired([1, 9], [1.5, 9.5], 0.6).p_value == 0
    assert tost_paired([1, 9], [1.5, 9.5], 0.4).p_value == 1


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (([1, 2], [1, 2], 0), "margin must be positive"),
        (([1, 2], [1, 2, 3], 1), "as many values on both sides, not 2 and 3"),
        (([1], [1], 1), "at least 2 values"),
    ],
)
def test_invalid_pairs_or_margin_are_refused(values, says):
    with pytest.raises(ValueError, match=says):
        tost_paired(*values)


def test_the_interval_of_shares_by_hand():
    # Three seeds of `qmix` on smax/3s5z have mean 0.7375 and variance 0.017703. They are as good as 3 * 0.193594 /
    # 0.017703 = 32.807 independent battles. t(0.975, 2) squared is 18.5128. (0.7375 + 0.28215 -+ 0.43457) / 1.56429.
    assert bounded_ci95([0.6094, 0.7281, 0.875], 640) == pytest.approx((0.3740, 0.9296), abs=1e-4)


@pytest.mark.parametrize(("won", "runs"), [(0, 3), (3, 3), (320, 5), (640, 10)])
def test_unanimous_seeds_have_wilson_interval_with_student_quantile(won, runs):
    level = 2 * scipy.stats.norm.cdf(scipy.stats.t.ppf(0.975, runs - 1)) - 1
    expected = scipy.stats.binomtest(won * runs, 640 * runs).proportion_ci(level, method="wilson")
    found = bounded_ci95([won / 640] * runs, 640)
    assert found == pytest.approx((expected.low, expected.high), abs=1e-12)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-3, 5), min_size=2, max_size=12))
def test_interval_stays_in_bounds_and_holds_mean(values):
    low, high = bounded_ci95(values, 320, (-3.0, 5.0))
    assert -3 <= low <= mean(values) + 1e-9 and mean(values) - 1e-9 <= high <= 5


@pytest.mark.parametrize(("share", "spread"), [(0.5, 0.01), (0.74, 0.05), (0.9, 0.1), (0.98, 0.01)])
@pytest.mark.parametrize("runs", [3, 5])
def test_interval_of_shares_has_stated_coverage(share, spread, runs):
    """Beta distributed seeds with variance `spread` * share * (1 - share), of 640 battles each."""
    rng = np.random.default_rng(runs)
    whole = 1 / spread - 1
    seeds = rng.beta(share * whole, (1 - share) * whole, (1_000, runs))
    shares = rng.binomial(640, seeds) / 640
    held = [low <= share <= high for low, high in (bounded_ci95(row, 640) for row in shares)]
    # Near a bound few seeds cannot show how far they vary: 0.94 for 0.9 and a spread of 0.1.
    assert 0.92 <= np.mean(held) <= 0.99


def test_the_adjusted_rand_index_by_hand():
    # Kept together: 1 + 1 = 2 pairs by both, 3 by the first, 1 + 3 = 4 by the second, of 15. Expected by chance
    # 3 * 4 / 15 = 0.8, mean of either 3.5: (2 - 0.8) / (3.5 - 0.8) = 4 / 9.
    assert adjusted_rand((0, 0, 1, 1, 2, 2), (0, 0, 1, 1, 1, 2)) == pytest.approx(4 / 9)
    # None by both, 3 by either: (0 - 0.6) / (3 - 0.6) = -1 / 4.
    assert adjusted_rand((0, 0, 1, 1, 2, 2), (0, 1, 0, 2, 1, 2)) == pytest.approx(-1 / 4)


def test_equal_partitions_agree_under_any_names():
    assert adjusted_rand((0, 0, 1, 2), (5, 5, 0, 1)) == 1
    assert adjusted_rand((0, 1, 2), (2, 1, 0)) == 1
    assert adjusted_rand((0, 0, 0), (1, 1, 1)) == 1


def test_single_group_agrees_only_by_chance():
    assert adjusted_rand((0, 0, 1, 1), (0, 0, 0, 0)) == 0


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=10))
def test_agreement_is_symmetric_and_at_most_one(labels):
    one, other = zip(*labels, strict=True)
    assert adjusted_rand(one, other) == pytest.approx(adjusted_rand(other, one))
    assert adjusted_rand(one, other) <= 1
