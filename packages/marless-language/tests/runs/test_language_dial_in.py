"""Agents that speak on workers that dial in: the model reaches them once, and the bytes equal this machine's."""

import json
import signal
from pathlib import Path

import pytest
from commands import Commands
from dialled_in import command, ended, free_port
from language_runs import RELAY, relay_base

SETTINGS = (*RELAY, "base.model=relay.safetensors", "base.rank=2", "actors.rollouts=2")


@pytest.mark.slow
def test_dialled_in_workers_speak_with_model_of_driver(tmp_path, shell, capfd):
    shell.cd(tmp_path)
    Path("relay.safetensors").write_bytes(relay_base())
    Path("config/marless").mkdir(parents=True)
    Path("config/marless/token").write_text("a token that both sides hold\n")
    address, copies = f"127.0.0.1:{free_port()}", tmp_path / "copies"
    copies.mkdir()
    agent = command(tmp_path, "worker", address, "--workers", "2", TMPDIR=str(copies))
    ended(command(tmp_path, "train", *SETTINGS, "--run", "there", "--machines", address))
    agent.send_signal(signal.SIGINT)
    ended(agent)
    assert Commands(capfd)("train", *SETTINGS, "--run", "here", "--workers", "1").code == 0
    there, here = (json.loads(Path(f"runs/{run}/summary.json").read_bytes()) for run in ("there", "here"))
    assert there["weights_sha256"] == here["weights_sha256"]
    (copy,) = copies.glob("marless-objects-*/*.safetensors")
    assert copy.read_bytes() == relay_base()
