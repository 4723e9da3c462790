"""An arm against its control: the share of its saving that is due to its signal."""

import json
import math

import msgspec
import numpy as np
import pytest
from ablated_runs import a_curve, a_result
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from marless.ablation import result_tables as table
from marless.ablation.arms import controls
from marless.comparison.paired_by_seed import compare_paired as compare
from marless.comparison.signal_savings import DollarRatio, compare_dollars, savings, verdict
from marless.functions.encoding import to_json_file

NOISE = (0.98, 1.03, 1.0, 0.97, 1.02)


def test_dollars_are_compared_by_scipy_on_log_pairs():
    own, other = [0.11, 0.25, 0.28, 0.41], [0.1, 0.2, 0.3, 0.4]
    logs = np.log(own) - np.log(other)
    found = compare_dollars(own, other)
    interval = stats.ttest_1samp(logs, 0).confidence_interval(0.9)
    above = stats.ttest_1samp(logs, -math.log(1.25), alternative="greater").pvalue
    below = stats.ttest_1samp(logs, math.log(1.25), alternative="less").pvalue
    assert found.ratio == pytest.approx(stats.gmean(np.divide(own, other)))
    assert found.ci90 == pytest.approx((math.exp(interval.low), math.exp(interval.high)))
    assert (found.p_value, found.runs) == (pytest.approx(max(above, below)), 4)


def test_single_pair_has_ratio_without_certainty():
    assert compare_dollars([0.3], [0.2]) == DollarRatio(ratio=pytest.approx(1.5), ci90=None, p_value=None, runs=1)
    assert compare_dollars([], []) is None and compare_dollars([0.0, 1.0], [1.0, 1.0]) is None
    assert verdict(compare_dollars([0.3], [0.2]), "exact") == verdict(None, "unknown") == "open"


@pytest.mark.parametrize(("other", "says"), [(1.0, "equal"), (2.0, "saves"), (0.5, "costs")])
def test_fewer_than_five_pairs_leave_the_effect_open(other, says):
    own, others = (1.0, 1.01, 0.99, 1.02, 0.98), (1.01 * other, other, other, other, 0.99 * other)
    assert verdict(compare_dollars(own, others), "exact") == says
    assert verdict(compare_dollars(own[:4], others[:4]), "exact") == "open"


@pytest.mark.parametrize(
    ("interval", "p_value", "bound", "says"),
    [
        ((0.9, 1.1), 0.01, "exact", "equal"),
        ((0.85, 0.95), 0.01, "exact", "equal"),
        ((0.5, 0.9), 0.4, "exact", "saves"),
        ((1.1, 1.5), 0.4, "exact", "costs"),
        ((0.7, 1.1), 0.2, "exact", "open"),
        # The control spends more than the known amount, so the ratio can only be lower.
        ((0.5, 0.9), 0.4, "at most", "saves"),
        ((1.1, 1.5), 0.4, "at most", "open"),
        ((0.5, 0.9), 0.4, "at least", "open"),
        ((1.1, 1.5), 0.4, "at least", "costs"),
        ((0.9, 1.1), 0.01, "at most", "open"),
        ((0.9, 1.1), 0.01, "at least", "open"),
    ],
)
def test_ratio_follows_its_interval_and_bound(interval, p_value, bound, says):
    found = DollarRatio(ratio=math.sqrt(interval[0] * interval[1]), ci90=interval, p_value=p_value, runs=5)
    assert verdict(found, bound) == says


def test_signal_share_of_saving_equals_hand_computation():
    # The arm saves half of the baseline's dollars and its control a fifth: three fifths of the saving are signal.
    found = savings([0.5, 1.0, 1.5], [0.8, 1.6, 2.4], [1.0, 2.0, 3.0])
    assert (found.tested, found.control, found.signal) == pytest.approx((0.5, 0.2, 0.6))
    assert found.ci90 == pytest.approx((0.6, 0.6))


def test_the_interval_of_the_share_is_the_jackknifes():
    tested, control, base = [0.5, 0.4, 0.6, 0.45], [0.8, 0.9, 0.7, 0.85], [1.0, 1.1, 0.9, 1.0]

    def share(seeds):
        saved, left = (1 - stats.gmean([own[i] / base[i] for i in seeds]) for own in (tested, control))
        return 1 - left / saved

    every = range(4)
    pseudo = [4 * share(every) - 3 * share([i for i in every if i != out]) for out in every]
    half = stats.t.ppf(0.95, 3) * stats.sem(pseudo)
    found = savings(tested, control, base)
    assert found.signal == pytest.approx(share(every))
    assert found.ci90 == pytest.approx((share(every) - half, share(every) + half))


@pytest.mark.parametrize("tested", [[1.0, 1.0, 1.0], [1.2, 1.1, 1.3], [0.9, 1.1, 0.8], [0.5]])
def test_share_needs_sure_saving_of_arm(tested):
    assert savings(tested, [0.9] * len(tested), [1.0] * len(tested)) is None


dollars = st.floats(0.05, 1.2)


@given(st.lists(st.tuples(dollars, dollars), min_size=2, max_size=8))
def test_control_equal_to_baseline_credits_only_signal(pairs):
    tested, base = [a * b for a, b in pairs], [b for _, b in pairs]
    none, everything = savings(tested, tested, base), savings(tested, base, base)
    if none is not None:
        # For any spread of seeds, a certain saving stays certain without any one of them.
        assert (none.signal, *none.ci90) == pytest.approx((0, 0, 0), abs=1e-9)
        assert (everything.signal, *everything.ci90) == pytest.approx((1, 1, 1))


def some_arms(tested, control, noise=NOISE):
    """The baseline, marless at `tested` times its dollars and shuffled at `control` times, with different seeds."""
    arms = {"marless-minus": {}, "marless": {}, "shuffled": {}}
    for seed, factor in enumerate(noise, start=1):
        for name, times in zip(arms, (1.0, tested * factor, control), strict=True):
            spent = 0.1 * seed * times
            curve = a_curve(1000, 10.0, spent, -80.0, -40.0)
            arms[name][seed] = a_result(name, seed, dollars=spent, curve=curve, rollouts=4.0 * times)
    return arms


def stuck(run):
    return msgspec.structs.replace(run, curve=a_curve(1000, 10.0, run.dollars, -80.0, -80.0))


def the_section(arms):
    found = table.sections(compare(arms, -80.0, controls=controls(arms)))[-1]
    assert found.title == "Controls"
    return found


def sentence(arms):
    [said] = the_section(arms).conclusions
    return said


def test_arm_is_compared_with_controls_on_all_measures():
    arms = some_arms(0.5, 0.8)
    arms["marless"] = {
        seed: msgspec.structs.replace(run, final_return=-38.0 + seed) for seed, run in arms["marless"].items()
    }
    [found] = compare(arms, -80.0, controls=controls(arms)).controls
    assert (found.arm, found.tested, found.runs, found.bound, found.verdict) == (
        "shuffled",
        "marless",
        5,
        "exact",
        "saves",
    )
    assert found.dollars.ratio == pytest.approx(0.5 / 0.8 * stats.gmean(NOISE))
    assert found.rollouts.value == pytest.approx(found.dollars.ratio)
    # One to five above -38, against -40.
    assert found.difference.value == pytest.approx(5.0)
    assert found.difference.ci95 == pytest.approx(stats.t.interval(0.95, 4, 5.0, stats.sem([3, 4, 5, 6, 7])))
    assert (found.savings.tested, found.savings.control) == pytest.approx((1 - 0.5 * stats.gmean(NOISE), 0.2))


def test_dollars_are_those_of_reach_column():
    arms = some_arms(0.5, 0.8)
    arms["shuffled"][2] = stuck(arms["shuffled"][2])
    found = compare(arms, -80.0, controls=controls(arms))
    _, tested, control = (item.reach.ratio for item in found.comparisons)
    assert found.controls[0].dollars.ratio == pytest.approx(tested.value / control.value)
    assert (found.controls[0].bound, found.comparisons[2].reach.bound) == ("at most", "at least")


def test_seeds_missing_in_one_arm_are_omitted():
    arms = some_arms(0.5, 0.8)
    del arms["marless"][1], arms["shuffled"][5], arms["marless-minus"][3]
    [found] = compare(arms, -80.0, controls=controls(arms)).controls
    assert found.runs == found.dollars.runs == 3
    # Of these the baseline has only seeds 2 and 4.
    assert found.savings.tested == pytest.approx(1 - 0.5 * stats.gmean([NOISE[1], NOISE[3]]))
    arms["shuffled"] = {1: arms["shuffled"][1]}
    assert compare(arms, -80.0, controls=controls(arms)).controls == ()
    arms["shuffled"] = {}
    assert compare(arms, -80.0, controls=controls(arms)).controls == ()


def test_signal_without_saving_is_reported_so():
    said = sentence(some_arms(0.8, 0.8))
    assert said.startswith("**marless** against **shuffled**: equal within a factor 1.25 (p < 0.001)")
    assert said.endswith(": the signal saves nothing.")


def test_sure_small_difference_is_reported_with_size():
    assert sentence(some_arms(0.72, 0.8)).endswith("the signal saves little, 10 %.")


def test_saving_signal_is_reported_with_remaining_saving():
    # A saving of 0.5 against one of 0.2.
    said = sentence(some_arms(0.5, 0.8))
    assert said.endswith("different: 40 % of the saving against the baseline is left without the signal.")
    assert "different: nothing of the saving" in sentence(some_arms(0.5, 1.1))


def test_control_that_misses_target_gives_bound():
    arms = some_arms(0.5, 0.8)
    arms["shuffled"] = {seed: stuck(run) for seed, run in arms["shuffled"].items()}
    # It spends 0.8 times the baseline's dollars in all. The baseline reaches the target with 0.82 of its own dollars.
    left = (1 - 0.8 / 0.82) / (1 - 0.5 * stats.gmean(NOISE))
    found = the_section(arms)
    assert f"different: at most {100 * left:.0f} % of the saving" in found.conclusions[0]
    assert found.rows[0][3].startswith("≤ ") and found.rows[0][4] == "-"
    assert found.rows[0][5].startswith(f"≥ {100 - 100 * left:.0f} % (")


def test_cheaper_control_shows_that_signal_costs():
    said = sentence(some_arms(1.2, 0.6))
    assert said.endswith("different: the signal saves nothing, with it the same return costs 2.00 times as much.")
    arms = some_arms(1.2, 0.6)
    arms["marless"] = {seed: stuck(run) for seed, run in arms["marless"].items()}
    assert "costs ≥ 2.44 times as much" in sentence(arms)  # 1.2 / (0.6 * 0.82)


def test_arm_without_saving_has_no_share():
    found = the_section(some_arms(1.0, 1.6))
    assert found.conclusions[0].endswith("but a saving of marless against the baseline is not sure.")
    assert found.rows[0][5] == "-"


def test_undecided_comparison_is_reported_undecided():
    wild = some_arms(0.8, 0.8, noise=(0.6, 1.7, 1.0))
    assert sentence(wild).endswith(": not decided by 3 seeds.")
    assert sentence(some_arms(0.5, 0.8, noise=(1.0,))).endswith(": not decided by 1 seed.")
    missing = some_arms(0.5, 0.8)
    missing["marless"][1] = stuck(missing["marless"][1])
    assert sentence(missing).endswith("not decided by 5 seeds; runs of marless never reached the target.")
    missing["shuffled"][2] = stuck(missing["shuffled"][2])
    assert sentence(missing).endswith("not decided by 5 seeds; runs of both never reached the target.")
    assert the_section(missing).rows[0][3:6] == ("-", "-", "-")


def test_arm_with_failed_runs_has_no_ratio():
    arms = some_arms(0.5, 0.8)
    del arms["shuffled"][5]
    found = compare(arms, -80.0, controls=controls(arms), failures={"shuffled": {5: "no disk"}})
    section = table.sections(found)[-1]
    assert section.rows[0][3:6] == ("-", "-", "-") and found.controls[0].savings is None
    assert section.conclusions[0].endswith(": not decided by 4 seeds; runs of shuffled failed.")


def test_markdown_and_json_have_the_controls():
    arms = some_arms(0.5, 0.8)
    arms["constant-mean"] = arms["marless"]
    found = compare(arms, -80.0, controls=controls(arms))
    text = table.markdown("spread", found, {}, [], [])
    lines = text[text.index("## Controls") : text.index("## The arms")].splitlines()
    assert len({line.count("|") for line in lines if line.startswith("|")}) == 1
    bullets = [line for line in lines if line.startswith("* **marless** against ")]
    assert [line.split("**")[3] for line in bullets] == ["shuffled", "constant-mean"]
    assert bullets[1].endswith("equal within a factor 1.25 (p < 0.001): the signal saves nothing.")
    parsed = json.loads(to_json_file(found))["controls"]
    assert [item["verdict"] for item in parsed] == ["saves", "equal"]
    assert parsed[0]["savings"]["control"] == pytest.approx(0.2, abs=1e-12)
