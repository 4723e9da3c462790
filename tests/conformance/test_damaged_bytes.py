"""Damaged files of runs, hostile policy files and configurations: nothing ends wrongly or is silently another."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.conformance
@pytest.mark.parametrize("what, number", [("files", 60), ("policies", 300), ("configurations", 0)])
def test_damage_gives_an_answer_or_one_line(what, number):
    argv = [sys.executable, "-m", "benchmarks.damage", what, "--number", str(number), "--seed", "4"]
    asked = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    assert asked.returncode == 0, asked.stdout[-4000:] + asked.stderr[-2000:]
