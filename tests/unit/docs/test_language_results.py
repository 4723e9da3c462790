"""The page about agents that speak says what the stored runs returned."""

import csv
from itertools import groupby
from statistics import mean

import pytest

from scripts.reference.pages import ROOT

PAGE = (ROOT / "docs" / "results" / "language.md").read_text(encoding="utf-8")


def stored(name):
    with (ROOT / "docs" / "results" / "language" / name).open(encoding="utf-8") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: (row["arm"], int(row["seed"])))
    return {arm: list(of_arm) for arm, of_arm in groupby(rows, lambda row: row["arm"])}


@pytest.mark.parametrize(("arm", "name"), [("relay", "relay"), ("smollm2", "smollm2"), ("deep", "smollm2")])
@pytest.mark.parametrize("part", ["seen", "unseen"])
def test_the_table_of_held_out_pairs_is_that_of_the_stored_runs(arm, name, part):
    runs = [
        dict(zip(run["rounds"].split(), map(float, run[part].split()), strict=True))
        for run in stored(f"held_out_{name}.csv")[arm]
    ]
    after = [f"{mean(run[number] for run in runs):.2f}" for number in ("10", "20", "40", [*runs[0]][-1])]
    worst = min([*run.values()][-1] for run in runs)
    assert f"| {arm}, {part} | {' | '.join(after)} | {worst:.3f} |" in PAGE


def test_what_the_best_answers_to_the_teacher_get_is_arithmetic():
    worths, costs, prices = range(5, 10), range(5), range(10)
    # A seller who asks any price from its cost to 9, and a buyer who takes what it gains by.
    buyer = mean(mean(max(worth - ask, 0) for ask in range(cost, 10)) for worth in worths for cost in costs) / 10
    # A buyer who takes three quarters of what it does not lose by and a quarter of all else, and the best price.
    chance = {ask: mean(0.75 if ask <= worth else 0.25 for worth in worths) for ask in prices}
    seller = mean(max(chance[ask] * (ask - cost) for ask in prices) for cost in costs) / 10
    assert f"a buyer {buyer:.2f} and a seller {seller:.2f}" in PAGE
