"""The table over tasks: targets, regrets and means by hand."""

import math

import pytest
from ablated_runs import a_result

from coordinator.ablation.arms import arms_by_name
from coordinator.ablation.suite_table import costs, is_static, markdown

ALL, NONE, OURS = "all+constant:2@split", "none+constant:2@split", "ours"
ARMS = arms_by_name([ALL, NONE, OURS])


def runs(**changed):
    return {1: a_result(seed=1, **changed)}


def test_arms_that_adapt_or_follow_another_are_not_static():
    arms = arms_by_name(
        ["all+constant:2@split", "none+constant@packed", "ours", "marless", "ours-fixed", "all+gns@split"]
    )
    assert [is_static(arm) for arm in arms] == [True, True, False, False, False, False]


def a_task(name="task", **changed):
    """`a_result` goes from -80 to -40 in a straight line for ten cents; here at 20, 10 and 5 cents."""
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


def test_the_regret_is_dollars_to_the_target_over_those_of_the_cheapest_static_arm():
    found = a_task()
    # 90 % of the way from -80 to -40, where a straight line has spent 90 % of its dollars.
    assert found.target == pytest.approx(-44)
    assert {name: cost.dollars for name, cost in found.arms.items()} == pytest.approx(
        {ALL: 0.18, NONE: 0.09, OURS: 0.045}
    )
    assert {name: cost.regret for name, cost in found.arms.items()} == pytest.approx({ALL: 2, NONE: 1, OURS: 0.5})


def test_a_run_that_misses_the_target_counts_with_all_its_dollars_and_is_a_bound():
    found = a_task(**{OURS: {1: a_result(final_return=-60.0, dollars=0.05, curve=line(0.05, -60.0))}})
    assert (found.arms[OURS].reached, found.arms[OURS].runs) == (0, 1)
    assert found.arms[OURS].regret == pytest.approx(0.05 / 0.09)
    assert "≥ 0.56 (0 of 1)" in markdown("suite", [found])


def test_the_page_has_the_geometric_mean_and_the_worst_over_tasks_of_arms_that_all_tasks_have():
    other = a_task("other", **{ALL: runs(dollars=0.05, curve=line(0.05)), OURS: {}})
    rows = {
        line.split("|")[1].strip(): line
        for line in markdown("suite", [a_task(), other]).split("## Regret")[1].splitlines()
        if "|" in line
    }
    cells = {name: [cell.strip() for cell in row.split("|")[2:-1]] for name, row in rows.items()}
    # On the other task `all` is the cheapest: 1, and `none` twice as dear.
    assert cells[ALL] == ["2.00", "1.00", f"{math.sqrt(2):.2f}", "2.00"]
    assert cells[NONE] == ["1.00", "2.00", f"{math.sqrt(2):.2f}", "2.00"]
    assert cells[OURS] == ["0.50", "-", "-", "-"]


def test_a_task_without_a_static_run_has_no_target():
    assert costs("task", ARMS, {OURS: runs()}, random=-80) is None
