"""Code of the user that changes while its run is stopped: the run goes on with it only where the user says so."""

import json
from pathlib import Path

import pytest
from commands import Commands

JUDGE = ("task.name=toy/signal", "task.judge=judge", "resources.judge.serve=a_changing_judge:grade")
RUN = (*JUDGE, "stop.rounds=1", "actors.num_envs=2", "algorithm.hidden=[8]", "evaluation.final_episodes=2")


@pytest.fixture
def command(shell, tmp_path, capfd, no_processes):
    shell.cd(tmp_path)
    shell.import_from(tmp_path)
    shell.forget("a_changing_judge", "a_changing_game")
    return Commands(capfd)


def judge(grade):
    Path("a_changing_judge.py").write_text(f"def grade(question):\n    return b'{grade}'\n")


def test_a_run_goes_on_with_a_changed_judge_only_where_it_is_named(command):
    judge("1")
    assert command("train", *RUN, "--run", "asked").code == 0
    fingerprint = json.loads(Path("runs/asked/plan.json").read_text())["environment_fingerprint"]
    before = fingerprint["resources"]["judge"]
    judge("2.5")
    said = command("resume", "asked", "stop.rounds=2")
    assert said.code == 2 and len(said.err) == 1
    assert f"asked would go on with other bytes: resources.judge was {before} and is a_changing_judge " in said.err[0]
    named = "resources.judge.serve=a_changing_judge:grade"
    assert said.err[0].endswith(f"marless resume asked {named}")
    assert command("resume", "asked", "stop.rounds=2", "resources.judge.serve=another:grade").code == 2
    assert command("resume", "asked", "stop.rounds=2", named).code == 0
    judge("1")
    assert command("resume", "asked", "stop.rounds=3").code == 0


def test_a_run_goes_on_with_a_mended_environment_only_where_it_is_named(command):
    judge("1")
    game, named = Path("a_changing_game.py"), "task.name=pettingzoo:a_changing_game:quiz"
    game.write_text("from asking_games import quiz\n")
    assert command("train", *RUN, named, "--run", "played").code == 0
    game.write_text("from asking_games import quiz  # mended\n")
    said = command("resume", "played", "stop.rounds=2")
    assert said.code == 2 and said.err[0].endswith(f"or go on with the changed code: marless resume played {named}")
    assert command("resume", "played", "stop.rounds=2", named).code == 0


def test_the_report_names_the_judge_s_code(command):
    judge("1")
    assert command("train", *RUN, "--run", "asked").code == 0
    assert command("report", "asked", "-o", "page.html").code == 0
    assert "resources.judge" in Path("page.html").read_text()
