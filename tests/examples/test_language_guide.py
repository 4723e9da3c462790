"""The task of the guide to agents that speak, typed as the guide shows it."""

import json
import re
import runpy
import shlex
from pathlib import Path

import numpy as np
import pytest

from marless.cli.app import main
from marless.language import Lesson, check

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "train-agents-that-speak.md"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def blocks(shell, tmp_path):
    """The file of the guide's own task, the commands below it, and the function with lessons."""
    section = GUIDE.read_text("utf-8").partition("## A task of your own\n")[2].partition("\n## ")[0]
    (_, task), (_, commands), (_, lessons) = _BLOCK.findall(section)
    shell.cd(tmp_path)
    Path("my_echo.py").write_text(task, "utf-8")
    return commands.splitlines(), lessons


@pytest.mark.slow
def test_guide_task_passes_check_and_is_learned(blocks, capfd):
    pytest.importorskip("torch")
    check_line, *lines = blocks[0]
    assert check_line == "python my_echo.py"
    runpy.run_path("my_echo.py", run_name="__main__")
    for line in lines:
        program, *words = shlex.split(line)
        assert program == "marless" and main(words) == 0, (line, capfd.readouterr().err)
    summary = json.loads(Path("runs/echo/summary.json").read_bytes())
    assert summary["final_return"]["mean"] > 0.95  # 1 is the best, and a random letter is right in a third


def test_guide_teacher_repeats_half_and_guesses_half(blocks):
    task = runpy.run_path("my_echo.py")
    names = {"np": np, "Lesson": Lesson}
    exec(f"class Taught:\n{blocks[1]}", names)
    task["Echo"].lessons = names["Taught"].lessons
    check(lambda: task["make"](None))
    (lesson,) = task["make"](None).lessons(np.random.default_rng(0), 9000)
    is_right = lesson.tokens[:, 0] == lesson.tokens[:, 1]
    assert is_right.mean() == pytest.approx(1 / 2 + 1 / 2 * 1 / 3, abs=0.02)
