"""progress.csv, read back, against values by hand."""

import csv

import pytest
from logged_lines import AGENTS, line, logged, played

from marless.loggers.registry import logger
from marless.loggers.scalars import evaluation_point, points


@pytest.fixture
def write(tmp_path):
    """Open the log again, like a command, and write the given points."""

    def write(*new):
        writer = logger("csv").open(logged(tmp_path))
        for point in new:
            writer.write(point)
        writer.close()
        with (tmp_path / "progress.csv").open(newline="") as file:
            return list(csv.DictReader(file))

    return write


def test_round_is_row_with_documented_scalar_names(write):
    (row,) = write(*points(line(1), AGENTS))
    assert {name: float(value) for name, value in row.items()} == {
        "env_steps": 100,
        "return/train": -3.0,
        "return/train_sd": 0.5,
        "return/agent_0": -1.0,
        "return/agent_1": -2.0,
        "env/win": 0.25,
        "policy/entropy/g00": 1.5,
        "decision/diversity": 0.125,
        "decision/groups": 2,
        "decision/rollouts": 3,
        "decision/learners": 4,
        "decision/exploration": 0.0,
        "decision/trial_episodes": 0,
        "time/round": 1,
        "time/seconds": 2.0,
        "time/env_steps_per_second": 50.0,
        "time/episodes": 8,
        "time/staleness": 0,
        "cost/dollars": 0.25,
        "cost/invocations": 7,
    }


def test_evaluation_is_in_row_of_its_training_round(write):
    # The policies after round 1 sampled round 2, and their episodes returned -2 and -1.
    rows = write(*points(line(1), AGENTS), *points(line(2, evaluation=played(1, -2.0, -1.0)), AGENTS))
    assert [(row["env_steps"], row["return/eval"], row["time/round"]) for row in rows] == [
        ("100", "-1.5", "1"),
        ("200", "", "2"),
    ]


def test_final_evaluation_is_in_last_row(write):
    final = evaluation_point(2, 200, 4.0, -0.5, {"adversary": 3.0}, {"win": 0.75}, absolute=-0.25)
    *_, last = write(*points(line(1), AGENTS), *points(line(2), AGENTS), final)
    assert last["time/round"] == "2"
    assert [last[name] for name in ("return/eval", "return/eval/adversary", "env/eval/win", "return/absolute")] == [
        "-0.5",
        "3.0",
        "0.75",
        "-0.25",
    ]


def test_round_without_episode_has_empty_returns(write):
    *_, last = write(*points(line(1), AGENTS), *points(line(2, return_mean=None, agent_returns=()), AGENTS))
    assert last["return/train"] == last["return/agent_0"] == "" and last["time/round"] == "2"


def test_continued_log_has_every_row_once(write):
    rounds = [point for number in (1, 2, 3) for point in points(line(number), AGENTS)]
    write(*rounds)
    assert [row["env_steps"] for row in write(*rounds[:2])] == ["100", "200"]
