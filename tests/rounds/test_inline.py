"""The back-end `inline`: everything in one process and one thread, with the bytes of worker processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from driver import SMALL, train

from marless.backends.registry import backend

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "settings", [("algorithm.name=mappo",), ("algorithm.name=qmix", "algorithm.updates_per_round=3")]
)
def test_weights_are_those_of_worker_processes(tmp_path, processes, settings):
    options = [*SMALL, "stop.rounds=3", *settings]
    here = train(tmp_path / "inline", options, back_end=backend("inline").open)
    assert here.sha256 == train(tmp_path / "local", options).sha256


@pytest.mark.slow
def test_inline_backend_runs_in_command_thread(tmp_path):
    """The environment records its process and thread, so that breakpoints work."""
    (tmp_path / "traced.py").write_text(
        "import os, threading\n"
        "from mpe2 import simple_spread_v3\n"
        "def make(**options):\n"
        "    with open('seen', 'a') as file:\n"
        "        print(os.getpid(), threading.current_thread() is threading.main_thread(), file=file)\n"
        "    return simple_spread_v3.parallel_env(**options)\n"
    )
    small = ("actors.num_envs=2", "stop.rounds=1", "evaluation.episodes=2", "evaluation.final_episodes=2")
    command = [sys.executable, "-m", "marless.cli.app", "train", "task.name=pettingzoo:traced:make", *small]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    with subprocess.Popen([*command, "--backend", "inline", "--run", "it"], cwd=tmp_path, env=environment) as process:
        assert process.wait(60) == 0
        seen = {tuple(line.split()) for line in (tmp_path / "seen").read_text().splitlines()}
    assert seen == {(str(process.pid), "True")}
    assert json.loads((tmp_path / "runs/it/plan.json").read_text())["backend"] == "inline"
