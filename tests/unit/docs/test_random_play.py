"""Random play has one value, which all pages and targets take."""

import json
import tomllib
from pathlib import Path

import pytest

from scripts.random_play import TASKS, play

ROOT = Path(__file__).parents[3]
RECORD = json.loads((ROOT / "docs/results/random-play.json").read_text(encoding="utf-8"))


def test_the_suite_counts_from_the_recorded_values():
    suite = tomllib.loads((ROOT / "benchmarks/suite.toml").read_text(encoding="utf-8"))
    for task in suite["tasks"]:
        assert task["random"] == pytest.approx(RECORD[task["name"]]["mean"], abs=0.05), task["name"]


@pytest.mark.parametrize(("page", "sentence"), [
    ("docs/tutorials/first-run.md", f"A random team scores {RECORD['spread_3']['mean']:.0f},"),
    ("docs/explanation/learning.md", f"random play {RECORD['spread_3']['mean']:.0f} "),
    ("docs/explanation/learning.md", f"random play {RECORD['spread_6']['mean']:.0f} "),
])  # fmt: skip
def test_a_page_says_the_recorded_value(page, sentence):
    assert sentence in (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["spread_3", "apprentices"])
def test_the_record_is_what_random_play_returns(name):
    played = play(TASKS[name], 1_000)
    error = (played["standard_error"] ** 2 + RECORD[name]["standard_error"] ** 2) ** 0.5
    # Five standard errors: one run in two million is further away by chance, with any rounding.
    assert abs(played["mean"] - RECORD[name]["mean"]) < 5 * error
