"""The page about agents that speak says what the stored runs returned."""

import csv
import json
from itertools import groupby
from statistics import mean, median, stdev

import pytest
from scipy.stats import t

from scripts.reference.pages import ROOT

PAGE = (ROOT / "docs" / "results" / "language.md").read_text(encoding="utf-8")


def stored(name, key="arm"):
    """The rows of each arm, by seed."""
    with (ROOT / "docs" / "results" / "language" / name).open(encoding="utf-8") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: (row[key], int(row.get("seed", 0))))
    return {arm: list(of_arm) for arm, of_arm in groupby(rows, lambda row: row[key])}


@pytest.mark.parametrize("arm", ["relay", "smollm2-quiet", "smollm2"])
def test_the_table_of_the_relay_is_that_of_the_stored_runs(arm):
    runs = stored("relay.csv")[arm]
    # Both roles get 1 for a right sum, so success is half of the return.
    first, last = ([float(run[key]) / 2 for run in runs] for key in ("first_return", "training_return"))
    seconds = [float(run["train_seconds"]) for run in runs]
    cells = (
        f"{min(first):.2f} to {max(first):.2f}",
        f"{min(last):.3f}",
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
        success = mean(float(run["last_success"]) for run in runs)
        assert f"| {model}, {arm} | {success:.3f} | {levels[arm]} |" in PAGE
    first = [float(run["first_success"]) for runs in arms.values() for run in runs]
    assert f"{min(first):.2f} to {max(first):.2f} (`{model}`)" in PAGE


@pytest.mark.parametrize(("arm", "name"), [("relay", "relay"), ("smollm2", "smollm2"), ("deep", "smollm2")])
@pytest.mark.parametrize("part", ["seen", "unseen"])
def test_the_table_of_held_out_pairs_is_that_of_the_stored_runs(arm, name, part):
    runs = [
        dict(zip(run["rounds"].split(), map(float, run[part].split()), strict=True))
        for run in stored(f"held_out_{name}.csv")[arm]
    ]
    rounds = ("10", "20", "40", "60", "90", "120")
    after = [f"{mean(run[number] for run in runs):.2f}" if number in runs[0] else "" for number in rounds]
    worst = min([*run.values()][-1] for run in runs)
    assert f"| {arm}, {part} | {' | '.join(after)} | {worst:.3f} |" in PAGE


def test_the_sentence_of_the_test_pairs_is_that_of_the_stored_runs():
    shares = [float(run["test"]) for run in stored("parted_relay.csv")["relay"]]
    text = " ".join(PAGE.split())
    assert f"right in {mean(shares):.2f} of the pairs on average, and its worst seed in {min(shares):.3f}" in text
    assert len(shares) == 5


@pytest.mark.parametrize(
    ("name", "arm", "row"),
    [
        ("dictate.csv", "dictate", "dictate"),
        ("dictate_smollm2.csv", "learns", "smollm2, learns"),
        ("dictate_smollm2.csv", "frozen-adapters", "smollm2, frozen-adapters"),
    ],
)
def test_the_table_of_longer_texts_is_that_of_the_stored_runs(name, arm, row):
    runs = stored(name)[arm]
    first, last = ([float(run[key]) for run in runs] for key in ("first_success", "last_success"))
    cells = f"{min(first):.2f} to {max(first):.2f}", f"{min(last):.3f}", f"{mean(last):.3f}"
    assert f"| {row} | {len(runs)} | {' | '.join(cells)} |" in PAGE


def test_what_dictating_comes_to_greedily_is_what_was_stored():
    stored_runs = ROOT / "docs" / "results" / "language" / "dictate_smollm2_greedy.json"
    runs = sorted(json.loads(stored_runs.read_text(encoding="utf-8")), key=lambda run: run["seed"])
    frozen, learns = ([run["success"] for run in runs if run["arm"] == arm] for arm in ("frozen-adapters", "learns"))
    means = [f"{mean(of_arm):.3f}" for of_arm in (frozen, learns)]
    assert f"Greedily it is right in {means[0]} of 320 numbers without learning and in {means[1]} after it" in PAGE
    gains = [after - before for before, after in zip(frozen, learns, strict=True)]
    half = t.ppf(0.975, len(gains) - 1) * stdev(gains) / len(gains) ** 0.5
    assert f"{mean(gains):.3f} ({mean(gains) - half:.3f} to {mean(gains) + half:.3f})" in PAGE


def gains(arm, role, suffix=""):
    """The cells of a role in the table of other tasks."""
    runs = [run for run in stored("roles.csv")[arm] if run["role"] == role]
    first, last = ([float(run[f"{end}{suffix}"]) for run in runs] for end in ("first", "last"))
    differences = [after - before for before, after in zip(first, last, strict=True)]
    half = t.ppf(0.975, len(runs) - 1) * stdev(differences) / len(runs) ** 0.5
    gain = mean(differences)
    texts = (f"{mean(values):.2f}" for values in (first, last))
    return f"{' | '.join(texts)} | {gain:+.3f} ({gain - half:+.3f} to {gain + half:+.3f}) |"


@pytest.mark.parametrize(
    ("arm", "role", "suffix"),
    [
        ("check", "writer", "_success"),
        ("check", "writer", ""),
        ("check", "checker", ""),
        ("buyer", "buyer", ""),
        ("seller", "seller", ""),
        ("both", "buyer", ""),
        ("both", "seller", ""),
        ("tictactoe", "player_1", ""),
    ],
)
def test_the_gains_of_other_tasks_are_those_of_the_stored_runs(arm, role, suffix):
    name = "both right" if suffix else role
    assert f"| {arm} | {name} | {gains(arm, role, suffix)}" in PAGE


def test_what_the_best_answers_to_the_teacher_get_is_arithmetic():
    worths, costs, prices = range(5, 10), range(5), range(10)
    # A seller who asks any price from its cost to 9, and a buyer who takes what it gains by.
    buyer = mean(mean(max(worth - ask, 0) for ask in range(cost, 10)) for worth in worths for cost in costs) / 10
    # A buyer who takes three quarters of what it does not lose by and a quarter of all else, and the best price.
    chance = {ask: mean(0.75 if ask <= worth else 0.25 for worth in worths) for ask in prices}
    seller = mean(max(chance[ask] * (ask - cost) for ask in prices) for cost in costs) / 10
    assert f"a buyer {buyer:.2f} and a seller {seller:.2f}" in PAGE
