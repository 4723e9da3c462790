"""Code that changes while its run is stopped: the run continues with it only where the user says so, and records it."""

import json
from pathlib import Path

import pytest
from commands import Commands

JUDGE = ("task.name=toy/signal", "task.judge=judge", "resources.judge.serve=a_changing_judge:grade")
BRIEF = ("stop.rounds=1", "actors.num_envs=2", "evaluation.episodes=2", "evaluation.final_episodes=2")
RUN = (*JUDGE, *BRIEF, "algorithm.hidden=[8]")


@pytest.fixture
def command(shell, tmp_path, capfd, no_processes):
    shell.cd(tmp_path)
    shell.import_from(tmp_path)
    shell.forget("a_changing_judge", "a_changing_game")
    return Commands(capfd)


def judge(grade):
    Path("a_changing_judge.py").write_text(f"def grade(question):\n    return b'{grade}'\n")


def recorded_changes(run):
    return json.loads(Path(f"runs/{run}/plan.json").read_text())["changes"]


def test_changed_judge_needs_flag_to_continue(command, shell):
    judge("1")
    assert command("train", *RUN, "--run", "asked").code == 0
    fingerprint = json.loads(Path("runs/asked/plan.json").read_text())["environment_fingerprint"]
    before = fingerprint["resources"]["judge"]
    judge("2.5")
    said = command("resume", "asked", "stop.rounds=2")
    assert said.code == 2 and len(said.err) == 1
    assert "asked would continue with other bytes" in said.err[0]
    assert f"resources.judge was {before} and is a_changing_judge " in said.err[0]
    assert said.err[0].endswith("marless resume asked --changed-code")
    shell.forget("a_changing_judge")
    assert command("resume", "asked", "stop.rounds=2", "--changed-code").code == 0
    judge("1")
    assert command("resume", "asked", "stop.rounds=3").code == 2
    shell.forget("a_changing_judge")
    assert command("resume", "asked", "stop.rounds=3", "--changed-code").code == 0
    there, back = recorded_changes("asked")
    assert (there["part"], there["before"], there["round"]) == ("resources.judge", before, 1)
    assert (back["before"], back["after"], back["round"]) == (there["after"], before, 2)


def test_fixed_environment_needs_flag_and_is_reported(command, shell):
    judge("1")
    game, named = Path("a_changing_game.py"), "task.name=pettingzoo:a_changing_game:quiz"
    game.write_text("from asking_games import quiz\n")
    assert command("train", *RUN, named, "--run", "played").code == 0
    game.write_text("from asking_games import quiz\n\nMENDED = True\n")
    assert command("resume", "played", "stop.rounds=2").code == 2
    shell.forget("a_changing_game")
    assert command("resume", "played", "stop.rounds=2", "--changed-code").code == 0
    (change,) = recorded_changes("played")
    sentence = f"continued with changed code from round 2: environment was {change['before']} and is {change['after']}"
    assert change["before"] != change["after"]
    verified = command("runs", "verify", "played")
    assert verified.code == 0 and sentence in verified.out[0]
    assert json.loads(command("runs", "verify", "played", "--json").out[0])["code_changes"] == [change]
    assert any(line.split(maxsplit=1) == ["code", sentence] for line in command("status", "played").out)
    assert command("report", "played", "--out", "page.html").code == 0
    page = Path("page.html").read_text()
    assert change["before"] in page and change["after"] in page
    assert f"played {sentence}." in command("compare", "played").out


def test_removed_record_of_changed_code_is_found(command, shell):
    judge("1")
    assert command("train", *RUN, "--run", "asked").code == 0
    judge("2")
    shell.forget("a_changing_judge")
    assert command("resume", "asked", "stop.rounds=2", "--changed-code").code == 0
    plan = Path("runs/asked/plan.json")
    plan.write_text(json.dumps(json.loads(plan.read_text()) | {"changes": []}))
    said = command("runs", "verify", "asked")
    assert said.code == 1 and "plan.json does not match its hash in the ledger" in said.out[0]


def test_the_report_names_the_judge_s_code(command):
    judge("1")
    assert command("train", *RUN, "--run", "asked").code == 0
    assert command("report", "asked", "--out", "page.html").code == 0
    assert "resources.judge" in Path("page.html").read_text()


@pytest.mark.parametrize(("name", "edited"), [("marker", "a_changing_rubric.py"), ("grader", "a_changing_level.txt")])
def test_helper_and_data_of_judge_are_its_code(command, shell, name, edited):
    shell.forget(f"a_changing_{name}", "a_changing_rubric")
    read = "def grade(question):\n    return open('a_changing_level.txt', 'rb').read()\n"
    Path(f"a_changing_{name}.py").write_text(f"import a_changing_rubric\n{read}")
    Path("a_changing_rubric.py").write_text("GRADE = 1")
    Path("a_changing_level.txt").write_text("1")
    named = f"resources.judge.serve=a_changing_{name}:grade"
    assert command("train", *RUN, named, "--run", "asked").code == 0
    assert "code" not in " ".join(command("evaluate", "asked").err)
    Path(edited).write_text("GRADE = 2" if edited.endswith(".py") else "2")
    said = command("resume", "asked", "stop.rounds=2")
    assert said.code == 2 and f"{edited} was " in said.err[0] and len(said.err) == 1
    assert f"asked was trained by other code: {edited} was " in command("evaluate", "asked").err[0]
    shell.forget(f"a_changing_{name}", "a_changing_rubric")
    assert command("resume", "asked", "stop.rounds=2", "--changed-code").code == 0
    assert [change["part"] for change in recorded_changes("asked")] == [edited]
    assert command("resume", "asked", "stop.rounds=3").code == 0


def test_comparison_names_code_that_differs(command, shell):
    for run, seed in (("one", 1), ("two", 2)):
        shell.forget("a_changing_judge")
        judge(seed)
        assert command("train", *RUN, f"seed={seed}", "--run", run).code == 0
    (line,) = (line for line in command("compare", "one", "two").out if "different code" in line)
    assert "a_changing_judge.py is " in line and " in one, " in line and line.endswith(" in two.")
