"""The summary of the suite counts what the stored tables hold."""

import json
import math
from pathlib import Path

import pytest

from scripts.reference.suite import summary

SUITE = Path(__file__).parents[3] / "docs/results/suite"


def rows():
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in summary().splitlines() if line]


def test_regrets_are_geometric_means_over_the_tasks_and_runs_that_miss_are_counted():
    wide = json.loads((SUITE / "table.json").read_text(encoding="utf-8"))
    [narrow] = json.loads((SUITE / "spread_3-default-width.json").read_text(encoding="utf-8"))
    costs = [task["arms"]["roles+constant:10@split"] for task in [narrow, *wide]]
    mean = math.prod(cost["regret"] for cost in costs) ** (1 / len(costs))
    [line] = [row for row in rows() if row[:2] == ["all ten", "`roles`"] and "of" in row[-1]]
    assert line[2:] == [f"≥ {mean:.2f}", f"≥ {max(cost['regret'] for cost in costs):.2f}", "46 of 50"]


@pytest.mark.parametrize(
    "tasks", ["nine, `spread_3` with 128 units", "nine, `spread_3` with the default 64", "all ten"]
)
def test_an_interval_over_tasks_is_wider_than_one_over_seeds_where_three_of_the_tasks_make_the_difference(tasks):
    [line] = [row for row in rows() if row[:2] == [tasks, "`all`"] and " to " in row[-1]]
    seeds, over_tasks = ([float(end) for end in cell.split(" to ")] for cell in line[-2:])
    assert over_tasks[0] < seeds[0] < seeds[1] < over_tasks[1]
