"""Contrasts that an ablation declares before its runs, with p-values corrected together."""

import math

import numpy as np
import pytest
from ablated_runs import a_curve, a_result
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from marless.ablation import declaration
from marless.ablation import result_tables as table
from marless.ablation.declaration import Declaration
from marless.comparison.contrasts import contrasts
from marless.comparison.paired_by_seed import compare_paired as compare
from marless.coordinator.config.schema import ConfigError
from marless.reports.statistics import holm, paired_p_value

ARMS = ("baseline", "all+constant:10@split", "ours")


def test_holms_procedure_by_hand():
    # In ascending order 0.01 times 4, 0.02 times 3, 0.03 times 2, 0.2 times 1. None falls below the one before.
    assert holm([0.03, 0.01, 0.2, 0.02]) == pytest.approx([0.06, 0.04, 0.2, 0.06])
    assert holm([0.04, 0.03]) == pytest.approx([0.06, 0.06])
    assert holm([0.6, 0.9]) == [1.0, 1.0] and holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_p_values_lie_between_plain_and_bonferroni(p_values):
    found = holm(p_values)
    assert all(p <= q <= min(1.0, len(p_values) * p) for p, q in zip(p_values, found, strict=True))
    assert [q for _, q in sorted(zip(p_values, found, strict=True))] == sorted(found)


def test_false_contrasts_occur_in_one_of_twenty_ablations():
    """Without any effect: at the level 0.05 the plain tests err in 1 - 0.95 ** 10 = 0.40 of the ablations."""
    differences = np.random.default_rng(3).standard_normal((1_000, 10, 5))
    p_values = stats.ttest_1samp(differences, 0, axis=2).pvalue
    plain, corrected = (p_values.min(axis=1) < 0.05), [min(holm(list(own))) < 0.05 for own in p_values]
    assert np.mean(plain) == pytest.approx(0.40, abs=0.05) and np.mean(corrected) == pytest.approx(0.05, abs=0.02)


@pytest.mark.parametrize("values", [(1.0, 2.0, 4.0), (-0.3, 0.1, 0.2, -0.5, 0.4), (5.0, 5.1)])
def test_the_p_value_of_pairs_is_scipys(values):
    assert paired_p_value(values) == pytest.approx(stats.ttest_1samp(values, 0).pvalue)


def test_equal_differences_of_all_pairs_are_certain():
    assert (paired_p_value([2.0, 2.0]), paired_p_value([0.0, 0.0])) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ours:return", "write ARM/OTHER:MEASURE, with one of return, dollars, reach"),
        ("ours/baseline:seconds", "write ARM/OTHER:MEASURE"),
        ("ous/baseline:return", "there is no arm ous; the arms are baseline,"),
        ("ours/ours:return", "ours is compared with itself"),
    ],
)
def test_unreadable_contrast_is_one_line(text, says):
    with pytest.raises(ConfigError, match=says):
        contrasts([text], ARMS)
    with pytest.raises(ConfigError, match="is given twice"):
        contrasts(["ours/baseline:return"] * 2, ARMS)


HALF, MORE = (0.05, 0.048, 0.052, 0.049, 0.051), (-1.0, 2.0, 4.0, -2.0, 1.0)


def runs():
    """Five seeds: `ours` costs half, with noise, and returns a little more or less."""
    return {
        "baseline": {seed: a_result("baseline", seed, dollars=0.1, final_return=-40.0) for seed in range(1, 6)},
        "ours": {
            seed: a_result("ours", seed, dollars=dollars, final_return=-40.0 + more)
            for seed, dollars, more in zip(range(1, 6), HALF, MORE, strict=True)
        },
    }


def test_headlines_are_corrected_paired_tests_of_scipy():
    declared = contrasts(["ours/baseline:return", "ours/baseline:dollars"], runs())
    found = compare(runs(), headlines=declared)
    first, second = found.headlines
    logs = [math.log(dollars / 0.1) for dollars in HALF]
    expected = stats.ttest_1samp(MORE, 0).pvalue, stats.ttest_1samp(logs, 0).pvalue
    assert (first.p_value, second.p_value) == pytest.approx(expected)
    assert second.p_value < first.p_value
    assert (first.adjusted, second.adjusted) == pytest.approx((expected[0], 2 * expected[1]))
    assert (first.value, second.value) == pytest.approx((4 / 5, stats.gmean(HALF) / 0.1))
    rows = table.sections(found)[-1].rows
    assert [(row[2], row[3], row[-1]) for row in rows] == [
        ("return", "5", "not decided"),
        ("ratio of dollars", "5", "different"),
    ]
    assert "Headlines" not in table.markdown("spread", compare(runs()), {}, [], [])


def test_fewer_than_five_seeds_decide_nothing():
    declared = contrasts(["ours/baseline:dollars"], ARMS)
    few = {arm: dict(list(of_arm.items())[:4]) for arm, of_arm in runs().items()}
    found = compare(few, headlines=declared)
    assert found.headlines[0].adjusted < 0.001
    sections = table.sections(found)
    assert sections[-1].rows[0][-1] == "not decided"
    assert [row[1] for row in sections[0].rows] == ["4 *", "4 *"]
    assert sections[0].footnote == "* below 5 seeds no arm can be told from the baseline"
    assert not table.sections(compare(runs(), headlines=declared))[0].footnote


def test_contrast_without_test_counts_in_correction():
    missed = runs()
    missed["ours"] = {
        seed: a_result("ours", seed, curve=a_curve(1000, 10.0, 0.1, -80.0, -70.0)) for seed in range(1, 6)
    }
    declared = contrasts(["ours/baseline:reach", "ours/baseline:return"], missed)
    reach, _ = compare(missed, headlines=declared).headlines
    assert (reach.bound, reach.p_value, reach.adjusted) == ("at least", None, 1.0)
    alone = compare({"baseline": missed["baseline"]}, headlines=declared).headlines
    assert [(item.runs, item.value, item.adjusted) for item in alone] == [(0, None, 1.0)] * 2


def test_headlines_cannot_be_declared_after_the_runs(tmp_path):
    declared = tuple(contrasts(["ours/baseline:return"], ARMS))
    first = Declaration(settings={}, arms={}, headlines=declared)
    declaration.write(tmp_path, first)
    assert declaration.read(tmp_path) == first
    # The same command, or one without headlines, keeps the headlines of the first.
    assert declaration.merge(tmp_path, first, first).headlines == declared
    assert declaration.merge(tmp_path, first, Declaration(settings={}, arms={})).headlines == declared
    with pytest.raises(ConfigError, match="declared other headlines, or none"):
        declaration.merge(tmp_path, Declaration(settings={}, arms={}), first)
