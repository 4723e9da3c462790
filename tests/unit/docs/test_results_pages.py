"""Pages about results have the numbers of the stored records."""

import csv
import json
import math
from collections import Counter
from itertools import groupby
from statistics import mean, stdev

import pytest

from benchmarks.comparisons.run_prices import WAYS, read
from marless.coordinator.pricing.prices import load_prices
from marless.estimation.rented_machine import INSTANCE, rented_machine
from scripts.reference.pages import ROOT
from scripts.reference.suite import summary

RESULTS = ROOT / "docs" / "results"


def page(name):
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def by_arm(name):
    """The stored runs of each arm."""
    with (RESULTS / name).open(encoding="utf-8") as file:
        rows = sorted(csv.DictReader(file), key=lambda run: (run["arm"], int(run["seed"])))
    return {arm: list(runs) for arm, runs in groupby(rows, lambda run: run["arm"])}


# --- bases

# Student's t for 95 %, by degrees of freedom.
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}


def complete(name):
    """The runs of each arm, of the seeds that have ended for all of them."""
    runs_of = by_arm(f"bases/{name}")
    ended = Counter(run["seed"] for runs in runs_of.values() for run in runs)
    return {arm: [run for run in runs if ended[run["seed"]] == len(runs_of)] for arm, runs in runs_of.items()}


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
def test_the_page_about_bases_has_their_returns(name, controls, digits):
    returns_of_all = {run["seed"]: float(run["final_return"]) for run in complete(controls)["all"]}
    whole = float(complete(controls)["none"][0]["learner_numbers"])
    for arm, runs in complete(name).items():
        returns = [float(run["final_return"]) for run in runs]
        gaps = [float(run["final_return"]) - returns_of_all[run["seed"]] for run in runs]
        (kept,) = {int(run["learner_numbers"]) for run in runs}
        size = mean(int(run["learner_bytes"]) + int(run["policy_bytes"]) for run in runs) / 1000
        cells = [arm, interval(returns, digits), f"{min(returns):.{digits}f}"]
        cells += ["" if arm == "all" else interval(gaps, digits), f"{kept / whole:.2f}", f"{size:,.0f}"]
        assert f"| {' | '.join(cells)} |" in page("results/bases.md")


# --- lags

# Student's t for 90 %, four degrees of freedom.
STUDENT_90 = 2.132


@pytest.mark.parametrize(
    ("name", "column", "digits"),
    [("spread.csv", "final_return", 2), ("foraging.csv", "final_return", 3), ("overcooked.csv", "training_return", 1)],
)
def test_cost_of_lag_is_difference_by_seed(name, column, digits):
    stored = by_arm(f"lag/{name}")
    assert len(stored) == 10
    assert all([run["seed"] for run in runs] == ["1", "2", "3", "4", "5"] for runs in stored.values())
    runs_of = {arm: [float(run[column]) for run in runs] for arm, runs in stored.items()}
    for arm in ("lag-1-vtrace", "lag-1-decoupled"):
        differences = [after - before for before, after in zip(runs_of["lag-0"], runs_of[arm], strict=True)]
        middle, error = mean(differences), stdev(differences) / len(differences) ** 0.5
        low, high = (middle + sign * STUDENT_90 * error for sign in (-1, 1))
        lower = sum(difference < 0 for difference in differences)
        shown = "lower" if middle < -STUDENT[4] * error else "undecided"
        cells = (f"{middle:+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f})", f"{lower} of 5", shown)
        assert f"| {arm} | {' | '.join(cells)} |" in page("results/lag.md")


# --- agents that speak


@pytest.mark.parametrize(("arm", "name"), [("relay", "relay"), ("smollm2", "smollm2"), ("deep", "smollm2")])
@pytest.mark.parametrize("part", ["seen", "unseen"])
def test_the_page_about_language_has_held_out_pairs(arm, name, part):
    runs = [
        dict(zip(run["rounds"].split(), map(float, run[part].split()), strict=True))
        for run in by_arm(f"language/held_out_{name}.csv")[arm]
    ]
    after = [f"{mean(run[number] for run in runs):.2f}" for number in ("10", "20", "40", [*runs[0]][-1])]
    worst = min([*run.values()][-1] for run in runs)
    assert f"| {arm}, {part} | {' | '.join(after)} | {worst:.3f} |" in page("results/language.md")


def test_best_answers_to_teacher_equal_arithmetic():
    worths, costs, prices = range(5, 10), range(5), range(10)
    # A seller asks any price from its cost to 9, and a buyer accepts every price that gains.
    buyer = mean(mean(max(worth - ask, 0) for ask in range(cost, 10)) for worth in worths for cost in costs) / 10
    # A buyer accepts three quarters of prices without a loss and a quarter of others. The seller asks the best price.
    chance = {ask: mean(0.75 if ask <= worth else 0.25 for worth in worths) for ask in prices}
    seller = mean(max(chance[ask] * (ask - cost) for ask in prices) for cost in costs) / 10
    assert f"a buyer {buyer:.2f} and a seller {seller:.2f}" in page("results/language.md")


# --- prices

ROWS = read(RESULTS / "run-prices.csv")
MEANS = {way: mean([float(row[way]) for row in ROWS]) for way in WAYS}


def test_sentences_have_the_prices_of_the_record():
    functions, auto, _, busy = (f"${MEANS[way]:.2g}" for way in WAYS)
    text = " ".join(page("explanation/cost.md").split())
    expected = f"{functions} as functions with a learner per slot, {auto} with `placement.rule=auto`, and {busy} on"
    assert f"costs {expected} a busy machine" in text
    machine = rented_machine(load_prices("us-east-1"), workers=2)
    text = " ".join(page("results/dollars.md").split())
    assert f"a {INSTANCE} with two virtual processors for ${machine.hourly:g} per hour" in text


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["seed"])
def test_rented_machine_is_billed_by_its_seconds(row):
    # $0.0765 an hour, 40 s to boot, at least a minute.
    seconds = float(row["seconds"])
    assert float(row["busy"]) == pytest.approx(0.0765 / 3600 * seconds, rel=0.01)
    assert float(row["rented"]) == pytest.approx(0.0765 / 3600 * max(60, 40 + seconds), rel=0.01)


# --- the suite and the charts


def rows():
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in summary().splitlines() if line]


def test_regrets_are_geometric_means_over_tasks():
    wide = json.loads((RESULTS / "suite" / "table.json").read_text(encoding="utf-8"))
    [narrow] = json.loads((RESULTS / "suite" / "spread_3-default-width.json").read_text(encoding="utf-8"))
    costs = [task["arms"]["roles+constant:10@split"] for task in [narrow, *wide]]
    regret = math.prod(cost["regret"] for cost in costs) ** (1 / len(costs))
    [line] = [row for row in rows() if row[:2] == ["all ten", "`roles`"] and "of" in row[-1]]
    assert line[2:] == [f"≥ {regret:.2f}", f"≥ {max(cost['regret'] for cost in costs):.2f}", "46 of 50"]


@pytest.mark.parametrize(
    "tasks", ["nine, `spread_3` with 128 units", "nine, `spread_3` with the default 64", "all ten"]
)
def test_an_interval_over_tasks_is_wider(tasks):
    [line] = [row for row in rows() if row[:2] == [tasks, "`all`"] and " to " in row[-1]]
    seeds, over_tasks = ([float(end) for end in cell.split(" to ")] for cell in line[-2:])
    assert over_tasks[0] < seeds[0] < seeds[1] < over_tasks[1]


def test_charts_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    from scripts.charts import draw_returns, draw_speed_and_dollars

    draw_returns(tmp_path / "returns.png")
    draw_speed_and_dollars(tmp_path / "speed.png")
    for name in ("returns.png", "speed.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
