"""The page about bases says what the stored runs returned."""

import csv
from itertools import groupby
from statistics import mean, median, stdev

import pytest

from scripts.reference.pages import ROOT

# Student's t for 95 %, by degrees of freedom.
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}

PAGE = (ROOT / "docs" / "results" / "bases.md").read_text(encoding="utf-8")


def stored(name):
    """The runs of each arm, of equal seeds."""
    with (ROOT / "docs" / "results" / "bases" / name).open(encoding="utf-8") as file:
        rows = sorted(csv.DictReader(file), key=lambda run: run["arm"])
    runs_of = {arm: list(runs) for arm, runs in groupby(rows, lambda run: run["arm"])}
    assert len({tuple(sorted(run["seed"] for run in runs)) for runs in runs_of.values()}) == 1
    return runs_of


def test_the_table_of_six_agents_is_that_of_the_stored_runs():
    arms = stored("spread_6.csv")
    whole = float(arms["none"][0]["learner_numbers"])
    for arm, runs in arms.items():
        returns = [float(run["final_return"]) for run in runs]
        half = STUDENT[len(returns) - 1] * stdev(returns) / len(returns) ** 0.5
        (trained,), (kept,) = ({int(run[key]) for run in runs} for key in ("parameters", "learner_numbers"))
        size = mean(int(run["learner_bytes"]) + int(run["policy_bytes"]) for run in runs) / 1000
        cells = f"{mean(returns):.1f} ± {half:.1f}", f"{min(returns):.1f}", f"{trained:,}", f"{kept / whole:.2f}"
        assert f"| {arm} | {' | '.join(cells)} | {size:,.0f} |" in PAGE


@pytest.mark.parametrize("arm", ["nothing", "rank-4", "rank-64"])
def test_the_steps_from_a_base_are_those_of_the_stored_runs(arm):
    runs = stored("spread_3.csv")[arm]
    columns = ("env_steps", "processor_seconds", "train_seconds")
    steps, processor, training = ([float(run[name]) for run in runs] for name in columns)
    spread = f"{min(steps):,.0f} to {max(steps):,.0f}"
    assert f"| {arm} | {median(steps):,.0f} | {spread} | {median(processor):.1f} | {median(training):.1f} |" in PAGE
