"""The page about lags has the numbers of the stored runs."""

import csv
from itertools import groupby
from statistics import mean, stdev

import pytest

from scripts.reference.pages import ROOT

# Student's t for 95 % and for 90 %, four degrees of freedom.
STUDENT, STUDENT_90 = 2.776, 2.132

PAGE = (ROOT / "docs" / "results" / "lag.md").read_text(encoding="utf-8")


def stored(name):
    with (ROOT / "docs" / "results" / "lag" / name).open(encoding="utf-8") as file:
        runs_of = {arm: list(runs) for arm, runs in groupby(csv.DictReader(file), lambda run: run["arm"])}
    assert len(runs_of) == 10
    assert all([run["seed"] for run in runs] == ["1", "2", "3", "4", "5"] for runs in runs_of.values())
    return runs_of


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
        cells = (f"{middle:+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f})", f"{lower} of 5", shown)
        assert f"| {arm} | {' | '.join(cells)} |" in PAGE
