"""The page about bases says what the stored runs returned."""

import csv
from collections import Counter
from itertools import groupby
from statistics import mean, stdev

import pytest

from scripts.reference.pages import ROOT

# Student's t for 95 %, by degrees of freedom.
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}

PAGE = (ROOT / "docs" / "results" / "bases.md").read_text(encoding="utf-8")


def stored(name):
    """The runs of each arm, of the seeds that have ended for all of them."""
    with (ROOT / "docs" / "results" / "bases" / name).open(encoding="utf-8") as file:
        rows = sorted(csv.DictReader(file), key=lambda run: run["arm"])
    arms = {run["arm"] for run in rows}
    ended = Counter(run["seed"] for run in rows)
    complete = [run for run in rows if ended[run["seed"]] == len(arms)]
    return {arm: list(runs) for arm, runs in groupby(complete, lambda run: run["arm"])}


def interval(values, digits):
    half = STUDENT[len(values) - 1] * stdev(values) / len(values) ** 0.5
    return f"{mean(values):.{digits}f} ± {half:.{digits}f}"


@pytest.mark.parametrize(
    ("name", "controls", "digits"),
    [
        ("spread_6.csv", "spread_6.csv", 1),
        ("spread_6_late.csv", "spread_6.csv", 1),
        ("foraging.csv", "foraging.csv", 3),
        ("smax_3s5z.csv", "smax_3s5z.csv", 2),
    ],
)
def test_the_table_of_arms_is_that_of_the_stored_runs(name, controls, digits):
    returns_of_all = {run["seed"]: float(run["final_return"]) for run in stored(controls)["all"]}
    whole = float(stored(controls)["none"][0]["learner_numbers"])
    for arm, runs in stored(name).items():
        returns = [float(run["final_return"]) for run in runs]
        gaps = [float(run["final_return"]) - returns_of_all[run["seed"]] for run in runs]
        (kept,) = {int(run["learner_numbers"]) for run in runs}
        size = mean(int(run["learner_bytes"]) + int(run["policy_bytes"]) for run in runs) / 1000
        cells = [arm, interval(returns, digits), f"{min(returns):.{digits}f}"]
        cells += ["" if arm == "all" else interval(gaps, digits), f"{kept / whole:.2f}", f"{size:,.0f}"]
        assert f"| {' | '.join(cells)} |" in PAGE
