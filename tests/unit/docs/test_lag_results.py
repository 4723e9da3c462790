"""The page about lags has the numbers of the stored runs."""

import csv
from itertools import groupby
from statistics import mean, median, stdev

import pytest

from benchmarks.lag import differences
from scripts.reference.pages import ROOT

# Student's t for 95 % and for 90 %, four degrees of freedom.
STUDENT, STUDENT_90 = 2.776, 2.132

PAGE = (ROOT / "docs" / "results" / "lag.md").read_text(encoding="utf-8")


def steps(value):
    return f"{value:,.0f}" if value < float("inf") else "not reached"


def stored(name):
    """The runs of each arm, five seeds of ten arms."""
    with (ROOT / "docs" / "results" / "lag" / name).open(encoding="utf-8") as file:
        runs_of = {arm: list(runs) for arm, runs in groupby(csv.DictReader(file), lambda run: run["arm"])}
    assert len(runs_of) == 10
    assert all([run["seed"] for run in runs] == ["1", "2", "3", "4", "5"] for runs in runs_of.values())
    return runs_of


@pytest.mark.parametrize(
    ("name", "column", "digits"), [("spread.csv", "final_return", 2), ("foraging.csv", "final_return", 3)]
)
def test_the_table_of_lags_is_that_of_the_stored_runs(name, column, digits):
    for arm, runs in stored(name).items():
        returns = [float(run[column]) for run in runs]
        half = STUDENT * stdev(returns) / len(returns) ** 0.5
        to_target = [float(run["env_steps_to_target"] or "inf") for run in runs]
        cells = (
            f"{mean(returns):.{digits}f} ± {half:.{digits}f}",
            f"{min(returns):.{digits}f}",
            steps(median(to_target)),
        )
        spread = f" {steps(min(to_target))} to {steps(max(to_target))} |" if name == "spread.csv" else ""
        assert f"| {arm} | {' | '.join(cells)} |{spread}\n" in PAGE


def test_the_seconds_of_lags_are_those_of_the_stored_runs():
    seconds = {arm: [float(run["seconds_to_target"]) for run in runs] for arm, runs in stored("seconds.csv").items()}
    for lag in (1, 2, 4):
        cells = [f"{median(seconds[f'lag-{lag}-{name}']):.1f}" for name in ("vtrace", "decoupled", "none")]
        assert f"| {lag} | {' | '.join(cells)} |" in PAGE
    alone = seconds["lag-0"]
    assert f"it is {median(alone):.1f} s ({min(alone):.1f} to {max(alone):.1f})" in PAGE


def test_the_returns_of_cooks_are_those_of_the_stored_runs():
    for arm, runs in stored("overcooked.csv").items():
        returns = [float(run["training_return"]) for run in runs]
        half = STUDENT * stdev(returns) / len(returns) ** 0.5
        greedy = ", ".join(f"{each:.0f}" for each in sorted(float(run["final_return"]) for run in runs))
        assert f"| {arm} | {mean(returns):.1f} ± {half:.1f} | {min(returns):.1f} | {greedy} |" in PAGE


@pytest.mark.parametrize(
    ("name", "column", "digits"),
    [("spread.csv", "final_return", 2), ("foraging.csv", "final_return", 3), ("overcooked.csv", "training_return", 1)],
)
def test_the_cost_of_a_lag_of_1_is_the_difference_by_seed(name, column, digits):
    runs_of = {arm: [float(run[column]) for run in runs] for arm, runs in stored(name).items()}
    for arm in ("lag-1-vtrace", "lag-1-decoupled"):
        differences = [after - before for before, after in zip(runs_of["lag-0"], runs_of[arm], strict=True)]
        middle, error = mean(differences), stdev(differences) / len(differences) ** 0.5
        low, high = (middle + sign * STUDENT_90 * error for sign in (-1, 1))
        lower = sum(difference < 0 for difference in differences)
        shown = "lower" if middle < -STUDENT * error else "undecided"
        cells = (
            f"{middle:+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f})",
            f"{lower} of 5",
            shown,
        )
        assert f"| {arm} | {' | '.join(cells)} |" in PAGE


def test_the_table_of_differences_is_the_one_of_the_program():
    assert differences.table() in PAGE
