"""The program of the guide plays exported policies in the package mpe2, without this project."""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
# The program finds no module of this project.
ALONE = """
import importlib.util, sys
sys.path = [".", *(path for path in sys.path if path.rstrip("/") != {root!r})]
assert not importlib.util.find_spec("marless"), sys.path
"""
TASK = ("task.name=mpe/simple_spread", "task.order=relation", "sharing.rule=all", "algorithm.name=ippo")
FINAL_EPISODES, EPISODES = 400, 100


def program():
    page = (ROOT / "docs/how-to/export.md").read_text()
    (text,) = (text for text in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL) if "mpe2" in text)
    return text


@pytest.mark.slow
def test_entity_sorting_policy_has_its_return_in_mpe2(marless):
    pytest.importorskip("onnxruntime")
    evaluation = ("evaluation.every=30", "evaluation.episodes=32", f"evaluation.final_episodes={FINAL_EPISODES}")
    assert marless("train", *TASK, *evaluation, "stop.rounds=30", "--run", "sorted", "--workers", "1").code == 0
    here = json.loads(Path("runs/sorted/summary.json").read_text())["final_return"]
    low, high = here["ci95"]
    # The standard error of one episode, from the 95 % interval of the mean.
    spread = (high - low) / 2 / 1.96 * math.sqrt(FINAL_EPISODES)
    noise = 4 * spread * math.sqrt(1 / FINAL_EPISODES + 1 / EPISODES)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for format_ in ("safetensors", "onnx", "torch"):
        assert marless("export", "sorted", "--to", format_).code == 0
        command = [sys.executable, "-W", "ignore", "-c", ALONE.format(root=str(ROOT)) + program()]
        done = subprocess.run(
            command, cwd=f"exports/sorted-{format_}", env=environment, capture_output=True, text=True, timeout=300
        )
        assert (done.returncode, done.stderr) == (0, "")
        there = float(done.stdout)
        assert abs(there - here["mean"]) < noise, (format_, there, here)
        # Random agents score -79.
        assert there > -79 + 3 * noise
