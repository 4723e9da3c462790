"""The code of a study is edited between two commands: later seeds are refused."""

from pathlib import Path

import pytest
from commands import Commands

STUDY = """
seeds = "{seeds}"
pool.runs = 1
[base]
task.name = "toy/signal"
task.judge = "judge"
resources.judge.serve = "judge_of_seeds:grade"
stop.rounds = 1
actors.num_envs = 2
algorithm.hidden = [8]
evaluation.episodes = 2
evaluation.final_episodes = 2
[vary]
algorithm.lr = [1e-3]
"""


@pytest.fixture
def command(shell, tmp_path, capfd):
    shell.cd(tmp_path)
    shell.import_from(tmp_path)
    shell.forget("judge_of_seeds", "rubric_of_seeds")
    return Commands(capfd)


def test_later_study_seeds_are_refused_until_code_returns(command):
    Path("judge_of_seeds.py").write_text(
        "from rubric_of_seeds import GRADE\n\ndef grade(question):\n    return GRADE\n"
    )
    rubric = Path("rubric_of_seeds.py")
    rubric.write_text("GRADE = b'1'\n")
    Path("s.toml").write_text(STUDY.format(seeds="1"))
    assert command("study", "s.toml").code == 0
    rubric.write_text("GRADE = b'2'\n")
    Path("s.toml").write_text(STUDY.format(seeds="1-2"))
    said = command("study", "s.toml")
    assert said.code != 0 and "rubric_of_seeds.py was " in said.err[-1]
    assert "all runs of a study have the same code" in said.err[-1]
    rubric.write_text("GRADE = b'1'\n")
    assert command("study", "s.toml").code == 0
