"""Results from a cell's files, and comparisons of arms."""

import csv
import io
import json
import math

import msgspec
import numpy as np
import pytest
from ablated_runs import a_curve, a_folder, a_line, a_result, evaluated
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from marless.ablation import result_tables as table
from marless.comparison.contrasts import contrasts
from marless.comparison.finished_run import CostPoint, mean_rollouts, read
from marless.comparison.paired_by_seed import compare_paired as compare
from marless.comparison.paired_by_seed import dollars_until, estimate, ratio, return_at, target
from marless.coordinator.file_reading import UnreadableFile
from marless.functions.encoding import to_json_file


def test_a_run_is_read_from_its_files(tmp_path):
    lines = [
        a_line(1, rollouts=4, learners=6),
        a_line(2, rollouts=8, learners=6, event="shared"),
        a_line(3, rollouts=6, learners=4, team=(0, 1, 0), event="rejected"),
        a_line(4, rollouts=6, learners=4, team=(0, 1, 0), event="split"),
    ]
    found = read(a_folder(tmp_path / "run", lines, final=-41.0, code="xyz"), "ours", 3)
    assert (found.arm, found.seed, found.rounds, found.env_steps, found.code) == ("ours", 3, 4, 400, "xyz")
    # The cost of training from the last round, not the whole run's bill of 0.0336 dollars.
    assert (found.dollars, found.seconds) == (0.04, 4.0)
    assert found.functions == pytest.approx(0.001 + 0.002 + 0.0005 + 0.0001)
    assert (found.rollouts, found.learners, found.sharing, found.flips, found.rejected) == (6.0, 5.0, 0.5, 2, 1)
    assert [line.team for line in found.history] == [(0, 1, 2), (0, 1, 2), (0, 1, 0), (0, 1, 0)]


def test_evaluation_is_at_end_of_its_round(tmp_path):
    lines = [a_line(1), a_line(2), a_line(3, evaluation=evaluated(2, -60.0, -70.0)), a_line(4)]
    found = read(a_folder(tmp_path / "run", lines, final=-41.0), "ours", 3)
    assert found.curve == (
        CostPoint(env_steps=200, seconds=2.0, dollars=0.02, mean=-65.0),
        CostPoint(env_steps=400, seconds=4.0, dollars=0.04, mean=-41.0),
    )


def test_untrained_policies_are_at_zero_cost(tmp_path):
    found = read(a_folder(tmp_path / "run", [a_line(1, evaluation=evaluated(0, -80.0))]), "ours", 3)
    assert found.curve[0] == CostPoint(env_steps=0, seconds=0.0, dollars=0.0, mean=-80.0)


def test_the_final_policies_count_once_on_the_curve(tmp_path):
    lines = [a_line(1), a_line(2, evaluation=evaluated(1, -60.0))]
    lines.append(a_line(3, env_steps=200, evaluation=evaluated(2, -59.0)))
    found = read(a_folder(tmp_path / "run", lines, final=-41.0), "ours", 3)
    assert [(point.env_steps, point.mean) for point in found.curve] == [(100, -60.0), (200, -41.0)]


@pytest.mark.parametrize("name", ["summary.json", "plan.json", "metrics.jsonl"])
def test_a_damaged_file_is_named(tmp_path, name):
    folder = a_folder(tmp_path / "run", [a_line(1), a_line(2)])
    (folder / name).write_text("{")
    with pytest.raises(UnreadableFile, match=name):
        read(folder, "ours", 3)


def test_mean_rollouts_weigh_every_run_equally():
    assert mean_rollouts([a_result(rollouts=2.0), a_result(rollouts=5.2), a_result(rollouts=6.1)]) == 4  # 4.43
    assert mean_rollouts([a_result(rollouts=0.2)]) == 1


CURVE = (
    CostPoint(env_steps=100, seconds=1.0, dollars=0.1, mean=-60.0),
    CostPoint(env_steps=200, seconds=2.0, dollars=0.4, mean=-40.0),
    CostPoint(env_steps=300, seconds=3.0, dollars=0.5, mean=-50.0),
)


@pytest.mark.parametrize(
    ("axis", "where", "value"),
    [("env_steps", 150, -50.0), ("dollars", 0.25, -50.0), ("seconds", 2.5, -45.0), ("env_steps", 50, -60.0)],
)
def test_curve_is_linear_between_evaluations(axis, where, value):
    assert return_at(CURVE, axis, where) == pytest.approx(value)


@pytest.mark.parametrize(("goal", "dollars"), [(-45.0, 0.325), (-40.0, 0.4), (-70.0, 0.1), (-39.0, None)])
def test_dollars_count_until_target_is_first_passed(goal, dollars):
    found = dollars_until(CURVE, goal)
    assert found is None if dollars is None else found == pytest.approx(dollars)


def test_target_is_four_fifths_of_baseline_gain():
    runs = [a_result(final_return=-40.0), a_result(final_return=-20.0)]
    assert target(runs, random=-80.0) == pytest.approx(-80 + 0.8 * 50)
    # Without a random-play return the first evaluation is the start. Here it is -80 too.
    assert target(runs, random=None) == pytest.approx(-80 + 0.8 * 50)


def test_few_values_have_the_interval_of_students_t():
    values = [1.0, 4.0, 2.5, 2.0]
    found = estimate(values)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert found.value == 2.375 and found.runs == 4
    assert found.ci95 == pytest.approx((expected.low, expected.high))
    assert estimate([3.0]).ci95 is None


def test_many_values_have_interquartile_mean_and_bootstrap_interval():
    values = np.random.default_rng(1).normal(5, 2, 12).tolist()
    found = estimate(values, "x")
    assert found.value == pytest.approx(stats.trim_mean(values, 0.25))
    expected = stats.bootstrap(
        (values,), lambda x, axis: stats.trim_mean(x, 0.25, axis), method="percentile", n_resamples=4000, rng=2
    ).confidence_interval
    # With other seeds the two bootstraps' ends differed by at most 5 % of the interval.
    assert found.ci95 == pytest.approx((expected.low, expected.high), abs=0.1 * (expected.high - expected.low))
    assert estimate(values, "x") == found


def test_a_ratio_is_the_geometric_mean_of_pairs():
    found = ratio([2.0, 8.0], [1.0, 1.0])
    assert found.value == pytest.approx(4.0)
    # Twice and eight times: in logarithms 2.08 apart, so t(0.975, 1) = 12.706 times half of that each side.
    factor = 2.0**12.7062
    assert found.ci95 == pytest.approx((4 / factor, 4 * factor), rel=1e-3)
    assert ratio([0.0, 1.0], [1.0, 1.0]) is None


@given(st.lists(st.tuples(st.floats(0.01, 100), st.floats(0.01, 100)), min_size=1, max_size=6))
def test_inverted_ratio_is_its_inverse(pairs):
    own, base = zip(*pairs, strict=True)
    there, back = ratio(own, base), ratio(base, own)
    assert there.value == pytest.approx(1 / back.value)
    if there.ci95:
        assert there.ci95 == pytest.approx((1 / back.ci95[1], 1 / back.ci95[0]))


def arms(*changes, seeds=(1, 2, 3)):
    """The baseline and an arm with runs of `changes`, one for each seed."""
    shifts = {seed: 3.0 * seed for seed in seeds}
    base = {
        seed: a_result(
            seed=seed,
            final_return=-40.0 + shift,
            dollars=0.1 * seed,
            curve=a_curve(1000, 10.0, 0.1 * seed, -80.0, -40.0 + shift),
        )
        for seed, shift in shifts.items()
    }
    changes = changes * len(seeds) if len(changes) == 1 else changes
    own = {
        seed: msgspec.structs.replace(base[seed], arm="ours", **change(base[seed]))
        for seed, change in zip(seeds, changes, strict=True)
    }
    return {"baseline": base, "ours": own}


def test_paired_seeds_cancel_seed_differences():
    table = compare(arms(lambda base: {"dollars": base.dollars / 2, "final_return": base.final_return + 1}))
    found = table.comparisons[1]
    # Seeds differ threefold in dollars and by 6 in return. The pairs do not differ at all.
    assert found.ratios["dollars"].ci95 == pytest.approx((0.5, 0.5))
    assert found.differences["final"].ci95 == pytest.approx((1.0, 1.0))
    assert found.returns["final"].ci95[1] - found.returns["final"].ci95[0] > 10
    assert table.comparisons[0].differences["final"].value == 0


def test_seeds_of_one_arm_are_in_no_pair():
    both = arms(lambda base: {"final_return": base.final_return - 2})
    del both["baseline"][1]
    found = compare(both).comparisons[1]
    assert (found.runs, found.differences["final"].runs) == (3, 2)
    assert found.means["rounds"] == 10 and found.differences["final"].value == pytest.approx(-2)


def test_arms_without_runs_or_common_seeds_are_skipped():
    base = {1: a_result()}
    found = compare({"baseline": base, "gone": {}, "alone": {2: a_result("alone", 2)}})
    assert [item.arm for item in found.comparisons] == ["baseline", "alone"]
    assert found.comparisons[1].differences == {} and set(found.comparisons[1].ratios.values()) == {None}
    assert [row[0] for section in table.sections(found) for row in section.rows][:2] == ["baseline", "alone"]


def test_failed_runs_count_as_missed_without_ratio():
    failures = {"ours": {4: "out of memory", 5: "no disk"}, "gone": {1: "no network"}}
    found = compare({**arms(same), "gone": {}}, failures=failures)
    assert [(item.reach.reached, item.reach.runs) for item in found.comparisons] == [(3, 3), (3, 5)]
    assert (found.comparisons[1].reach.ratio, found.comparisons[1].reach.bound) == (None, "unknown")
    equal = next(section for section in table.sections(found) if section.title == "At equal cost")
    rows = {row[0]: row[3:] for row in equal.rows}
    assert rows == {"baseline": ("baseline", "3 of 3"), "ours": ("-", "3 of 5"), "gone": ("-", "0 of 1")}
    [named] = table.failed_runs(failures)
    assert named.splitlines()[2:] == [
        "* ours, seed 4: out of memory",
        "* ours, seed 5: no disk",
        "* gone, seed 1: no network",
    ]
    assert table.failed_runs({}) == []


def test_target_headline_is_not_tested_with_failed_runs():
    both, [contrast] = arms(same), contrasts(["ours/baseline:reach"], ["baseline", "ours"])
    tested, untested = (compare(both, headlines=[contrast], failures=lost) for lost in ({}, {"baseline": {4: "x"}}))
    assert (tested.headlines[0].bound, untested.headlines[0].bound) == ("exact", "unknown")
    assert (untested.headlines[0].value, untested.headlines[0].p_value) == (None, None)


def test_equal_steps_are_those_of_the_shorter_run():
    # 500 steps in all, -80 to -40 in ten evaluations. The baseline's curve at 500 is at its fifth evaluation.
    half = {"env_steps": 500, "final_return": -40.0, "curve": a_curve(500, 10.0, 0.1, -80.0, -40.0)}
    base = a_result(curve=a_curve(1000, 10.0, 0.1, -80.0, -40.0))
    found = compare({"baseline": {1: base}, "ours": {1: msgspec.structs.replace(base, **half)}}).comparisons[1]
    assert found.differences["final"].value == 0
    assert found.differences["equal steps"].value == pytest.approx(40 * (1 - 4 / 9))


def test_equal_dollars_are_those_of_the_cheaper_run():
    dear = {"dollars": 0.2, "final_return": -40.0, "curve": a_curve(1000, 10.0, 0.2, -80.0, -40.0)}
    base = a_result()
    found = compare({"baseline": {1: base}, "ours": {1: msgspec.structs.replace(base, **dear)}}).comparisons[1]
    assert found.differences["equal dollars"].value == pytest.approx(-40 * (1 - 4 / 9))


def test_losses_are_percent_of_baseline_gain():
    both = arms(lambda base: {"final_return": base.final_return - 2})
    # The baseline's mean is -34, so against -84 it gained 50.
    assert compare(both, random=-84.0).comparisons[1].gain.value == pytest.approx(-4.0)
    assert compare(both).comparisons[1].gain is None
    assert compare(both, random=0.0).comparisons[1].gain is None


def flat(**fields):
    return lambda base: {"curve": a_curve(1000, 10.0, base.dollars, -80.0, -80.0), **fields}


def same(base):
    return {}


def test_missed_runs_are_counted_with_all_their_cost():
    compared = compare(arms(same, same, flat()))
    found = compared.comparisons[1].reach
    assert (found.bound, found.reached, found.runs) == ("at least", 2, 3)
    assert table.sections(compared)[1].rows[1][3].startswith("≥ ")
    assert table.sections(compared)[1].rows[1][4] == "2 of 3"
    # The third run spent all its 0.3 dollars, the baseline reached the target earlier. The others are equal.
    base = arms(same)["baseline"]
    there = dollars_until(base[3].curve, target(list(base.values()), None))
    assert found.ratio.value == pytest.approx((0.3 / there) ** (1 / 3))


def test_two_arms_that_miss_target_decide_nothing():
    both = arms(same, same, flat())
    both["baseline"][1] = msgspec.structs.replace(both["baseline"][1], **flat()(both["baseline"][1]))
    found = compare(both).comparisons
    assert (found[1].reach.bound, found[1].reach.ratio) == ("unknown", None)
    assert found[0].reach.reached == 2


def test_the_table_says_what_is_compared_with_what():
    found = compare(arms(lambda base: {"dollars": base.dollars / 2, "final_return": base.final_return + 1}), random=-80)
    main, equal, *_ = table.sections(found)
    rows = {row[0]: dict(zip(main.header, row, strict=True)) for row in main.rows}
    assert rows["baseline"]["against baseline"] == rows["baseline"]["ratio of dollars"] == "baseline"
    assert rows["ours"]["against baseline"] == "+1.0 (+1.0 to +1.0)"
    assert rows["ours"]["ratio of dollars"] == "0.50 (0.50 to 0.50)"
    assert rows["ours"]["ratio of functions"] == "1.00 (1.00 to 1.00)"
    assert rows["baseline"]["return"] == "-34.0 ± 7.5"  # t(0.975, 2) = 4.303 times 3 / sqrt 3
    assert "ratio of dollars to reach -43.2" in equal.header  # -80 + 0.8 * 46


def test_uncalled_function_has_no_bill_column():
    def header(**dollars):
        found = table.sections(compare(arms(lambda base: dollars)))
        return next(section.header for section in found if section.title == "The bill")

    assert "language agents" not in header()
    assert "language agents" in header(language=0.1)


def test_equal_arms_are_same_without_zero_difference():
    rows = table.sections(compare(arms(same)))[0].rows
    assert rows[1][3] == "the same"


def test_all_markdown_rows_have_every_column():
    both = arms(lambda base: {"final_return": base.final_return + 1})
    both = {
        name: {seed: msgspec.structs.replace(run, plays={"agent against random": 1.5}) for seed, run in runs.items()}
        for name, runs in both.items()
    }
    found = compare(both, random=-80)
    assert table.sections(found)[-1].rows[1] == ("ours", "1.50 ± 0.00", "the same")
    text = table.markdown("spread", found, {"ours": ("ours", {"sharing.trial": False})}, ["Mind."], ["rounds.png"])
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) <= 1
    assert "`sharing.trial=false`" in text and "![rounds](rounds.png)" in text and "\n\nMind.\n\n" in text


def test_programs_get_all_digits():
    parsed = json.loads(to_json_file(compare(arms(lambda base: {"dollars": base.dollars / 3}))))
    assert parsed["comparisons"][1]["ratios"]["dollars"]["value"] == pytest.approx(1 / 3, abs=1e-12)
    [row] = csv.DictReader(io.StringIO(table.comma_separated([a_result(plays={"x, y": math.pi})])))
    assert (row["arm"], float(row["functions"]), float(row["x, y"])) == ("baseline", 0.033, math.pi)


@pytest.mark.parametrize(("dollars", "text"), [(0.1999, "$0.20"), (0.00213, "$0.0021"), (12.0, "$12.00"), (0, "$0.00")])
def test_money_has_two_digits_that_matter(dollars, text):
    assert table.money(dollars) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0126, "0.013"), (0.00674, "0.0067"), (0.000123, "0.00012"), (0.1, "0.10"), (0.5, "0.50"), (250.0, "over 100")],
)
def test_ratios_have_two_digits_that_matter(share, text):
    both = arms(lambda base: {"dollars": base.dollars * share})
    assert table.sections(compare(both))[0].rows[1][5] == f"{text} ({text} to {text})"


def test_table_without_controls_mentions_none():
    found = compare(arms(same))
    assert found.controls == () and "Controls" not in [section.title for section in table.sections(found)]
