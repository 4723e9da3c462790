"""Exact runs and their workers continue on machines where numpy rounds otherwise."""

import json
import shutil

import pytest
from built_kernels import needs_kernels
from dialled_in import MODULES, SUPPORT, command, ended, free_port

from marless.coordinator.errors import USER_ERROR

pytestmark = needs_kernels

RUN = (
    "task.name=mpe/simple_spread",
    "algorithm.name=ippo",
    "algorithm.engine=native",
    "algorithm.hidden=[8]",
    "algorithm.epochs=1",
    "algorithm.num_minibatches=1",
    "algorithm.lr_schedule=constant",  # others depend on the last round
    "algorithm.ent_schedule=constant",
    "actors.num_envs=4",
    "evaluation.every=2",
    "evaluation.episodes=4",
    "evaluation.final_episodes=4",
    "stop.rounds=2",
)


def weights(folder, name):
    return json.loads((folder / "runs" / name / "summary.json").read_text())["weights_sha256"]


def test_only_exact_runs_continue_on_another_processor(marless, tmp_path, shell, processes):
    def train(name, *settings):
        assert marless("train", *RUN, *settings, "--run", name, "--backend", "inline").code == 0

    train("whole", "stop.rounds=3")
    train("exact")
    train("memory", "algorithm.recurrent=true")
    shell.export(OPENBLAS_CORETYPE="Prescott", NPY_DISABLE_CPU_FEATURES="X86_V4")
    assert marless("resume", "exact", "stop.rounds=3").code == 0
    assert weights(tmp_path, "exact") == weights(tmp_path, "whole")
    said = marless("resume", "memory", "stop.rounds=3")
    assert said.code == USER_ERROR and "memory would continue with other bytes" in said.err[0]
    assert "machine was" in said.err[0] and "--changed-code" not in said.err[0]


@pytest.mark.slow
def test_other_processors_serve_only_exact_runs_with_kernels(marless, tmp_path):
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(SUPPORT.parents[1] / "marless", tmp_path / "without" / "marless", ignore=ignored)
    (tmp_path / "config/marless").mkdir(parents=True)
    (tmp_path / "config/marless/token").write_text("a token that both sides hold\n")
    address = f"127.0.0.1:{free_port()}"
    driver = command(tmp_path, "train", *RUN, "--run", "there", "--machines", address)
    lacking = command(tmp_path, "worker", address, paths=[tmp_path / "without", *MODULES[1:]])
    line = ended(lacking, USER_ERROR).splitlines()[-1]
    assert "(algorithm.engine=native), which the worker does not have; install a C compiler there" in line
    other = command(tmp_path, "worker", address, "--patience", "5", OPENBLAS_CORETYPE="Prescott")
    assert "refused a worker of 127.0.0.1" in ended(driver)
    ended(other)
    assert marless("train", *RUN, "--run", "here", "--backend", "inline").code == 0
    assert weights(tmp_path, "there") == weights(tmp_path, "here")
    assert "any_processor" not in "".join(marless("runs", "verify", "there").out)
