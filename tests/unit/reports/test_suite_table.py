"""The table over tasks: targets, regrets and means by hand."""

import math
from pathlib import Path

import pytest
from ablated_runs import a_result

from marless.ablation.arms import arms_by_name
from marless.ablation.suite_costs import best_single, contrasts, costs, is_static, overall, ratio
from marless.ablation.suite_picture import draw
from marless.ablation.suite_table import markdown
from marless.comparison.finished_run import Round

ALL, NONE, OURS = "all+constant:2@split", "none+constant:2@split", "ours"
ARMS = arms_by_name([ALL, NONE, OURS])


def runs(**changed):
    return {1: a_result(seed=1, **changed)}


def test_adaptive_or_following_arms_are_not_static():
    arms = arms_by_name(
        ["all+constant:2@split", "none+constant@packed", "ours", "marless", "ours-fixed", "all+gns@split"]
    )
    assert [is_static(arm) for arm in arms] == [True, True, False, False, False, False]


def a_task(name="task", **changed):
    """`a_result` goes from -80 to -40 in a straight line for ten cents. Here at 20, 10 and 5 cents."""
    results = {
        ALL: runs(dollars=0.2, curve=line(0.2)),
        NONE: runs(dollars=0.1, curve=line(0.1)),
        OURS: runs(dollars=0.05, curve=line(0.05)),
    }
    return costs(name, ARMS, results | changed, random=-80)


def line(dollars, end=-40.0):
    first, last = a_result().curve[0], a_result().curve[-1]
    return (
        type(first)(env_steps=0, seconds=0.0, dollars=0.0, mean=-80.0),
        type(last)(env_steps=1000, seconds=10.0, dollars=dollars, mean=end),
    )


def test_regret_is_dollars_over_cheapest_static_arm():
    found = a_task()
    # 90 % of the way from -80 to -40, where a straight line has spent 90 % of its dollars.
    assert found.target == pytest.approx(-44)
    assert {name: cost.dollars for name, cost in found.arms.items()} == pytest.approx(
        {ALL: 0.18, NONE: 0.09, OURS: 0.045}
    )
    assert {name: cost.regret for name, cost in found.arms.items()} == pytest.approx({ALL: 2, NONE: 1, OURS: 0.5})


def test_missed_run_counts_all_dollars_as_bound():
    found = a_task(**{OURS: {1: a_result(final_return=-60.0, dollars=0.05, curve=line(0.05, -60.0))}})
    assert (found.arms[OURS].reached, found.arms[OURS].runs) == (0, 1)
    assert found.arms[OURS].regret == pytest.approx(0.05 / 0.09)
    assert "≥ 0.56 (0 of 1)" in markdown("suite", [found], ARMS)


def test_page_has_mean_and_worst_of_common_arms():
    other = a_task("other", **{ALL: runs(dollars=0.05, curve=line(0.05)), OURS: {}})
    rows = {
        line.split("|")[1].strip(): line
        for line in markdown("suite", [a_task(), other], ARMS).split("## Regret")[1].split("## ")[0].splitlines()
        if "|" in line
    }
    cells = {name: [cell.strip() for cell in row.split("|")[2:-1]] for name, row in rows.items()}
    # On the other task `all` is the cheapest: 1, and `none` twice as dear.
    assert cells[ALL] == ["2.00", "1.00", f"{math.sqrt(2):.2f}", "2.00"]
    assert cells[NONE] == ["1.00", "2.00", f"{math.sqrt(2):.2f}", "2.00"]
    assert cells[OURS] == ["0.50", "-", "-", "-"]


def test_task_without_static_run_has_no_target():
    failed = costs("broken", ARMS, {OURS: runs()}, random=-80)
    assert (failed.target, failed.best, failed.arms) == (None, "", {})
    text = markdown("suite", [a_task(), failed], ARMS)
    assert "broken failed: no static arm has a finished run, so its column is empty." in text
    table = [[cell.strip() for cell in row.split("|")[1:-1]] for row in text.splitlines() if row.startswith("|")]
    assert table[0] == ["arm", "task", "broken"] and {row[2] for row in table if row[0] == ALL} == {"-"}
    assert draw([a_task(), failed], ARMS, Path(), "suite") == []


def test_failed_run_counts_as_missed_without_regret():
    results = {name: {seed: a_result(seed=seed, curve=line(0.1)) for seed in (1, 2)} for name in (ALL, NONE)}
    failures = {ALL: {3: "out of memory"}, OURS: {1: "no disk", 2: "no disk"}}
    found = costs("task", ARMS, results, random=-80, failures=failures)
    assert (found.arms[ALL].reached, found.arms[ALL].runs, found.arms[ALL].regret) == (2, 3, None)
    assert found.arms[NONE].regret == pytest.approx(1)
    assert ratio(found, ALL, NONE) is None and best_single([found], ARMS) == NONE
    text = markdown("suite", [found], ARMS)
    assert f"* task, {ALL}, seed 3: out of memory\n* task, ours, seed 1: no disk\n* task, ours, seed 2: no disk" in text
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in text.splitlines() if row.startswith("|")]
    assert [row[1] for row in rows if row[0] == ALL] == ["**-40.0** (2 of 3 runs)", "- (2 of 3)"]
    assert [row[1] for row in rows if row[0] == OURS][:2] == ["-", "- (0 of 2)"]


def test_reader_sets_share_of_way_to_target():
    # 70 % of the way from -80 to -40.
    found = costs("task", ARMS, {ALL: runs(curve=line(0.2)), NONE: runs(curve=line(0.1))}, random=-80, share=0.7)
    assert found.target == pytest.approx(-52) and found.arms[ALL].dollars == pytest.approx(0.14)
    assert "The target is 70 % of the way" in markdown("suite", [found], ARMS, share=0.7)


def test_runs_of_other_registration_are_named_first():
    results = {ALL: runs(registration="a" * 64), NONE: runs(registration="b" * 64)}
    found = costs("task", ARMS, results, random=-80)
    assert found.registrations == {"a" * 64: 1, "b" * 64: 1}
    text = markdown("suite", [found], ARMS, registration="b" * 64)
    assert f"Of 2 runs, these were made otherwise: 1 run under another registration ({'a' * 12})." in text


MEAN, TESTED = "roles+mean:tradeoff@split", "roles+tradeoff@split"
PAIRED = arms_by_name(["all+constant:2@split", "none+constant:2@split", "roles+constant:2@split", TESTED, MEAN])


def test_rule_arm_is_compared_with_static_and_controls():
    found = costs("task", PAIRED, {arm.name: runs() for arm in PAIRED}, random=-80)
    assert contrasts([found], PAIRED) == [
        ("roles+constant:2@split", "all+constant:2@split"),
        ("roles+constant:2@split", "none+constant:2@split"),
        (TESTED, "all+constant:2@split"),
        (TESTED, MEAN),
    ]


def test_best_static_arm_has_lowest_mean_regret():
    other = a_task("other", **{ALL: runs(dollars=0.01, curve=line(0.01))})
    assert best_single([a_task()], ARMS) == NONE
    assert best_single([a_task(), other], ARMS) == ALL  # 2 and 1 against 1 and 10
    assert best_single([], []) == ""


def test_ratios_are_paired_by_seed_with_task_weights():
    def paid(dollars):
        return {seed: a_result(seed=seed, curve=line(cost)) for seed, cost in enumerate(dollars, 1)}

    # Ratios of 2, 2 and 8 in one task and of 1 in the other. The third seed of `none` in that is alone.
    first = costs("first", ARMS, {ALL: paid([0.2, 0.4, 0.8]), NONE: paid([0.1, 0.2, 0.1])}, random=-80)
    second = costs("second", ARMS, {ALL: paid([0.3, 0.3]), NONE: paid([0.3, 0.3, 0.9])}, random=-80)
    one = ratio(first, ALL, NONE)
    assert one.value == pytest.approx(2 ** (5 / 3))
    # By hand: logarithms to base 2 of 1, 1 and 3 have the standard error 2 / 3, and t for 2 degrees is 4.3027.
    assert one.ci95 == pytest.approx((2 ** (5 / 3 - 4.3027 * 2 / 3), 2 ** (5 / 3 + 4.3027 * 2 / 3)), rel=1e-4)
    both = overall([first, second], ALL, NONE)
    assert both.value == pytest.approx(2 ** (5 / 6))
    assert both.ci95 == pytest.approx((2 ** (5 / 6 - 4.3027 / 3), 2 ** (5 / 6 + 4.3027 / 3)), rel=1e-4)
    assert both.bound == "" and ratio(second, ALL, OURS) is None


def test_ratio_tells_which_arm_missed_target():
    missed = {1: a_result(final_return=-60.0, dollars=0.05, curve=line(0.05, -60.0))}
    assert ratio(a_task(**{OURS: missed}), OURS, NONE).bound == "≥"
    assert ratio(a_task(**{OURS: missed}), NONE, OURS).bound == "≤"
    assert ratio(a_task(**{OURS: missed}), OURS, OURS).bound == "~"


def test_decisions_are_of_first_last_fifth_and_groups():
    rounds = [Round(rollouts=number, learners=2, team=(0, 0, 0, 0), event="") for number in range(1, 10)]
    rounds.append(Round(rollouts=10, learners=2, team=(0, 1, 0, 1), event=""))
    together = tuple(rounds[:1])
    results = {ALL: runs(history=together), OURS: runs(history=tuple(rounds), flips=1)}
    found = costs("task", ARMS, results, random=-80, roles=(0, 1, 0, 1))
    cost = found.arms[OURS]
    assert (cost.first, cost.last, cost.changed, cost.agreement) == (1.5, 9.5, 1, 1.0)
    assert found.arms[ALL].agreement == 0
    assert "| ours | 1.5 → 9.5; 1 of 1; 1.00 |" in " ".join(markdown("suite", [found], ARMS).split())


def test_picture_shows_arms_of_all_tasks(tmp_path):
    assert draw([a_task(), a_task("other")], ARMS, tmp_path, "suite") == ["regret.png"]
    assert (tmp_path / "regret.png").stat().st_size > 10_000
    assert draw([a_task(**{ALL: {}, NONE: runs(), OURS: {}})], arms_by_name([OURS]), tmp_path, "suite") == []
