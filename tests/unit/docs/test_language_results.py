"""The page about agents that speak says what the stored runs returned."""

import csv
from itertools import groupby
from statistics import mean, median

import pytest

from scripts.reference.pages import ROOT

PAGE = (ROOT / "docs" / "results" / "language.md").read_text(encoding="utf-8")


def stored(name, key="arm"):
    """The rows of each arm, by seed."""
    with (ROOT / "docs" / "results" / "language" / name).open(encoding="utf-8") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: (row[key], int(row.get("seed", 0))))
    return {arm: list(of_arm) for arm, of_arm in groupby(rows, lambda row: row[key])}


@pytest.mark.parametrize("arm", ["relay", "smollm2"])
def test_the_table_of_the_relay_is_that_of_the_stored_runs(arm):
    runs = stored("relay.csv")[arm]
    # Both roles get 1 for a right sum, so success is half of the return.
    first, last = ([float(run[key]) / 2 for run in runs] for key in ("first_return", "training_return"))
    seconds = [float(run["train_seconds"]) for run in runs]
    cells = (
        f"{min(first):.2f} to {max(first):.2f}",
        " ".join(f"{value:.3f}" for value in last),
        f"{mean(last):.3f}",
        f"{median(seconds):.0f} ({min(seconds):.0f} to {max(seconds):.0f})",
    )
    assert f"| {arm} | {len(runs)} | {' | '.join(cells)} |" in PAGE


@pytest.mark.parametrize("model", ["relay", "smollm2"])
def test_controls_come_to_what_was_computed(model):
    ((computed,),) = stored(f"reachable_{model}.csv", "start").values()
    levels = {
        "learns": "1",
        "frozen-adapters": f"{float(computed['start']):.3f}",
        "frozen-speaker": f"{float(computed['adder_alone']):.3f}",
        "frozen-adder": f"{float(computed['speaker_alone']):.3f}",
        "shuffled": "-",
    }
    arms = stored(f"controls_{model}.csv")
    assert arms.keys() == levels.keys()
    for arm, runs in arms.items():
        first, last = ([float(run[key]) for run in runs] for key in ("first_success", "last_success"))
        by_seed = " ".join(f"{value:.3f}" for value in last)
        cells = (f"{min(first):.2f} to {max(first):.2f}", by_seed, f"{mean(last):.3f}", levels[arm])
        assert f"| {model}, {arm} | {' | '.join(cells)} |" in PAGE


@pytest.mark.parametrize(("arm", "name"), [("relay", "relay"), ("smollm2", "smollm2"), ("deep", "smollm2")])
@pytest.mark.parametrize("part", ["seen", "unseen"])
def test_the_table_of_held_out_pairs_is_that_of_the_stored_runs(arm, name, part):
    runs = [
        dict(zip(run["rounds"].split(), map(float, run[part].split()), strict=True))
        for run in stored(f"held_out_{name}.csv")[arm]
    ]
    rounds = ("10", "20", "30", "40", "60", "90", "120", "150")
    after = [f"{mean(run[number] for run in runs):.2f}" if number in runs[0] else "" for number in rounds]
    ends = " ".join(f"{[*run.values()][-1]:.3f}" for run in runs)
    assert f"| {arm}, {part} | {len(runs)} | {' | '.join(after)} | {ends} |" in PAGE


def test_the_table_of_longer_texts_is_that_of_the_stored_runs():
    (runs,) = stored("dictate.csv").values()
    first, last = ([float(run[key]) for run in runs] for key in ("first_success", "last_success"))
    by_seed = " ".join(f"{value:.3f}" for value in last)
    cells = f"{min(first):.2f} to {max(first):.2f}", by_seed, f"{mean(last):.3f}"
    assert f"| dictate | {len(runs)} | {' | '.join(cells)} |" in PAGE
