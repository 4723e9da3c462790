"""The example for users of RLlib: both programs have the same settings, and both train."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import Commands

from benchmarks.rllib import on_one_cluster
from marless.coordinator.config.loading import load

FOLDER = Path(__file__).parents[2] / "examples" / "from_rllib"
EPISODE_STEPS = 25


def keywords(method):
    """The keywords of a call such as `.training(...)` in the script, which is not imported: it needs RLlib."""
    calls = (
        node for node in ast.walk(ast.parse((FOLDER / "rllib_script.py").read_text())) if isinstance(node, ast.Call)
    )
    found = next(call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == method)
    return {keyword.arg: ast.literal_eval(keyword.value) for keyword in found.keywords}


def test_both_programs_have_the_same_settings():
    ours, theirs = load(FOLDER / "spread.toml"), keywords("training")
    steps = ours.actors.num_envs * EPISODE_STEPS
    assert theirs == {
        "train_batch_size_per_learner": steps,
        "minibatch_size": steps // ours.algorithm.num_minibatches,
        "num_epochs": ours.algorithm.epochs,
        "lr": ours.algorithm.lr,
        "gamma": ours.algorithm.gamma,
        "lambda_": ours.algorithm.gae_lambda,
        "clip_param": ours.algorithm.clip_coef,
        "entropy_coeff": ours.algorithm.ent_coef,
    }


def test_both_programs_step_as_many_environments_at_once():
    runners = keywords("env_runners")
    assert runners["num_env_runners"] == on_one_cluster.WORKERS
    together = runners["num_env_runners"] * runners["num_envs_per_env_runner"]
    assert together == load(FOLDER / "spread.toml").actors.num_envs


def test_seconds_end_with_first_iteration_at_target():
    points = [(1.0, None), (2.0, -50.0), (3.5, -46.0), (5.0, -40.0)]
    assert on_one_cluster.until(-46, points) == 3.5
    assert on_one_cluster.until(-39.9, points) is None


def test_seed_that_misses_return_counts_as_slowest():
    runs = [{"program": "a", "seconds_to_target": seconds} for seconds in (20.0, None, 10.0)]
    lines = on_one_cluster.summary_lines([*runs, {"program": "b", "seconds_to_target": None}])
    assert lines == [
        "a: reached in 2 of 3 seeds, in 20.0 s (10.0 … not reached (3))",
        "b: reached in 0 of 1 seeds, in not reached (not reached … not reached (1))",
    ]


@pytest.mark.conformance
def test_ours_trains_environment_and_networks_of_rllib(shell, tmp_path, capfd):
    pytest.importorskip("onnxscript", reason="the extra networks is not installed: pip install 'marless[networks]'")
    pytest.importorskip("mpe2", reason="the extra tasks is not installed: pip install 'marless[tasks]'")
    shell.cd(tmp_path)
    shell.import_from(FOLDER)
    few = ("stop.env_steps=1600", "evaluation.episodes=2", "evaluation.final_episodes=2")
    said = Commands(capfd)("train", str(FOLDER / "spread.toml"), *few, "--run", "ours", "--workers", "1")
    assert said.code == 0, said.err
    assert json.loads(Path("runs/ours/summary.json").read_text())["env_steps"] == 1600


@pytest.mark.conformance
def test_theirs_trains_too(tmp_path):
    pytest.importorskip("ray.rllib", reason="RLlib is not installed: pip install 'ray[rllib]'")
    environment = {**os.environ, "PYTHONPATH": str(FOLDER), "RAY_ADDRESS": "local"}
    command = [sys.executable, str(FOLDER / "rllib_script.py"), "1600"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    first, *_, last = map(json.loads, done.stdout.splitlines())
    assert first["steps"] == 1600 and Path(last["checkpoint"]).is_dir()
