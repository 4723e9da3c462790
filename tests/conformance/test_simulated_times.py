"""Simulated makespans against real ones, for the same recorded run and for another one, as medians of five runs."""

import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from marless.estimation.recording import recorded
from marless.estimation.simulation import SimulatedSetting, simulate
from marless.runs.run_store import RunStore

pytestmark = pytest.mark.conformance

WAITING = (
    "task.name=pettingzoo:waiting:parallel_env",
    "actors.num_envs=1",
    "placement.rule=packed",
    "evaluation.every=1000",
    "evaluation.episodes=2",
    "evaluation.final_episodes=2",
    "stop.rounds=8",
)
EMULATED = (
    "task.name=toy/signal",
    "algorithm.hidden=[8]",
    "actors.num_envs=1",
    "evaluation.every=1000",
    "evaluation.final_episodes=4",
    "actors.rollouts=200",
    "stop.rounds=8",
    "--backend",
    "emulated",
)
RUNS = {
    "default, 1 worker": ("stop.rounds=60", "--workers", "1"),
    "default, 2 workers": ("stop.rounds=60", "--workers", "2"),
    "split": ("stop.rounds=60", "placement.rule=split", "--workers", "2"),
    "packed": ("stop.rounds=60", "placement.rule=packed", "--workers", "2"),
    "whole": ("stop.rounds=60", "placement.rule=whole", "--workers", "1"),
    "waiting, 4 workers": (*WAITING, "actors.rollouts=16", "--workers", "4"),
    "waiting, 16 workers": (*WAITING, "actors.rollouts=32", "--workers", "16"),
    "emulated, 200 rollouts": EMULATED,
}


def marless(folder, *argv):
    paths = [str(Path(__file__).parents[1] / "support" / "environments"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "WAIT_S": "0.01", "PYTHONPATH": os.pathsep.join(paths)}
    program = [sys.executable, "-m", "marless.cli.app", *argv]
    subprocess.run(program, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("name", RUNS)
def test_a_simulation_takes_as_long_as_the_run(name, tmp_path, shell):
    shell.cd(tmp_path)
    emulated = "--backend" in RUNS[name]
    if emulated:
        marless(tmp_path, "cloud", "deploy", "--backend", "emulated")
    own, other, before = [], [], None
    for seed in range(1, 6):
        marless(tmp_path, "train", f"seed={seed}", "--run", f"r{seed}", *RUNS[name])
        run = recorded(RunStore(Path("runs")).find(f"r{seed}"))
        own.append(ratio(run, run))
        if before is not None:
            other.append(ratio(before, run))
        before = run
    if emulated:
        marless(tmp_path, "cloud", "teardown", "--backend", "emulated", "--yes", "--force")
    print(name, "own", sorted(own), "other", sorted(other))
    assert 0.9 <= statistics.median(own) <= 1.1
    assert 0.85 <= statistics.median(other) <= 1.15


def ratio(record, run):
    """The simulated over the real seconds of `run`'s rounds after the first, simulated from `record`."""
    found = simulate(record, SimulatedSetting(run.lines[-1].rollouts, len(run.lines), record.slots))
    simulated, real = ((lines[-1].seconds - lines[0].seconds) for lines in (found.lines, run.lines))
    return simulated / real
