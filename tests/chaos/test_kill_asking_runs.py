"""Runs with a judge that grades episodes, killed on their way: each question is asked once, and the bytes are the
same."""

from collections import Counter

import pytest
from driver import train
from killed_runs import kill_at_random

from marless.infra.local.file_storage import FileStorage

OPTIONS = (
    "task.name=pettingzoo:examples.resources.program_writers:make",
    "task.judge=judge",
    "resources.judge.slots=2",
    "resources.judge.keep=true",
    "algorithm.name=mappo",
    "algorithm.hidden=[8]",
    "actors.num_envs=8",
    "actors.rollouts=2",
    "checkpoint_every=4",
    "evaluation.every=12",
    "evaluation.episodes=4",
    "evaluation.final_episodes=4",
)


def answers(folder):
    return len(FileStorage(folder / "objects").list("answers/"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kills", "rounds"), [(2, 8), pytest.param(100, 600, marks=pytest.mark.conformance)], ids=["2 kills", "100 kills"]
)
def test_a_judge_is_asked_once_whatever_is_killed(tmp_path, calls, draw, kills, rounds):
    options = (*OPTIONS, f"stop.rounds={rounds}", "resources.judge.serve=judges:moody")
    folder = tmp_path / "killed"
    kill_at_random(folder, kills, rounds, draw, options, spares_resources=True)
    killed = train(folder, options, workers=2)
    questions = calls()
    assert killed.state.status == "finished"
    assert [question for question, count in Counter(questions).items() if count > 1] == []
    assert answers(folder) == len(questions) == killed.state.meter.actions["judge"].count

    (tmp_path / "repeated/objects").mkdir(parents=True)
    (folder / "objects/answers").rename(tmp_path / "repeated/objects/answers")
    repeated = train(tmp_path / "repeated", options, workers=2)
    assert repeated.sha256 == killed.sha256
    assert calls() == questions


@pytest.mark.conformance
def test_hundred_kills_change_no_byte(tmp_path, calls, draw):
    options = (*OPTIONS, "stop.rounds=600", "resources.judge.serve=judges:strict")
    expected = train(tmp_path / "undisturbed", options, workers=2)
    assert answers(tmp_path / "undisturbed") == len(calls()) == expected.state.meter.actions["judge"].count
    folder = tmp_path / "killed"
    kill_at_random(folder, 100, 600, draw, options)
    killed = train(folder, options, workers=3)
    assert killed.sha256 == expected.sha256
    assert killed.state.final == expected.state.final
    # A kill of the resource costs the question a second time.
    assert answers(folder) == answers(tmp_path / "undisturbed") <= killed.state.meter.actions["judge"].count
