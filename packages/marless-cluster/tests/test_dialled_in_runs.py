"""Whole runs that workers of other machines serve, here over loopback: the bytes of a run on this machine."""

import json
import signal
import time
from pathlib import Path

import pytest
from commands import SMALL, Commands
from dialled_in import MODULES, command, ended, free_port
from relay import Relay
from studies import hashes, settings_of, study, train_alone

from marless.backends.local import ListeningBackend
from marless.coordinator.config.loading import convert
from marless.coordinator.errors import UNFINISHED, USER_ERROR, UserError
from marless.reports.journal import read
from marless.runs.drive_settings import DriveSettings
from marless.runs.folder import RunFolder
from marless.runs.train_and_resume import _drive as drive_run
from marless.runs.view import View
from marless_cluster.ray.backend import RayBackend

TWO = ("ippo-signal", "iql-signal")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder, and an address for two dialling processes until the tests are over."""
    folder, address = tmp_path_factory.mktemp("place"), f"127.0.0.1:{free_port()}"
    (folder / "config/marless").mkdir(parents=True)
    (folder / "config/marless/token").write_text("a token that both sides hold\n")
    agent = command(folder, "worker", address, "--workers", "2")
    yield folder, address
    agent.send_signal(signal.SIGINT)
    assert "serves the driver" in ended(agent)


@pytest.fixture
def marless(place, shell, capfd):
    shell.cd(place[0])
    return Commands(capfd)


def weights(folder, name):
    return json.loads((folder / "runs" / name / "summary.json").read_text())["weights_sha256"]


def test_dialled_in_workers_give_local_bytes(place, marless):
    """Three groups learn as one and a half each there, and in one learner here."""
    folder, address = place
    settings = ("task.name=mpe/simple_spread", "actors.rollouts=3")
    output = ended(command(folder, "train", *SMALL, *settings, "--run", "there", "--machines", address))
    assert f"listens on {address}" in output and "not encrypted" in output
    assert marless.train("here", *settings).code == 0
    assert weights(folder, "there") == weights(folder, "here")
    lines = {name: read(folder / "runs" / name / "metrics.jsonl") for name in ("there", "here")}
    assert {name: line.learners for name, (*_, line) in lines.items()} == {"there": 2, "here": 1}
    assert {*lines["there"][-1].metrics} == {*lines["here"][-1].metrics}
    verified = marless("runs", "verify", "there")
    assert verified.code == 0 and "any_processor" not in verified.out[0]


@pytest.mark.slow
def test_killed_driver_continues_with_redialling_workers(place, marless):
    folder, address = place
    run = ("train", *SMALL, "stop.rounds=12", "--run", "killed", "--machines", address)
    process, metrics = command(folder, *run), folder / "runs/killed/metrics.jsonl"
    until = time.monotonic() + 100
    while not metrics.exists() or metrics.read_text().count("\n") < 3:
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.01)
    process.kill()
    process.communicate()
    profile = folder / "machines.toml"
    profile.write_text(f'listen = "{address}"\nany_processor = true\n')
    ended(command(folder, "resume", "killed", "--machines", "machines.toml"))
    assert marless.train("whole", "stop.rounds=12").code == 0
    assert weights(folder, "killed") == weights(folder, "whole")
    verified = marless("runs", "verify", "killed")
    assert verified.code == 0 and "`any_processor`" in verified.out[0]


@pytest.mark.conformance
def test_network_that_flips_bits_changes_no_byte(place, marless):
    folder, port = place[0], free_port()
    relay = Relay(port)
    timeouts = [f"functions.{name}.timeout_s=5" for name in ("actor", "learner", "evaluator")]
    run = (*SMALL, "stop.rounds=40", "actors.rollouts=2", *timeouts)
    process = command(folder, "train", *run, "--run", "flipped", "--machines", f"127.0.0.1:{port}")
    agents = [command(folder, "worker", f"127.0.0.1:{at}", "--workers", "1") for at in (relay.port, port)]
    metrics, until = folder / "runs/flipped/metrics.jsonl", time.monotonic() + 100
    while not metrics.exists() or metrics.read_text().count("\n") < 2:
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.01)
    relay.one_in = 20_000
    output = ended(process)
    for agent in agents:
        agent.send_signal(signal.SIGINT)
        ended(agent)
    assert relay.changed > 3 and "served elsewhere" in output and "Traceback" not in output
    assert marless.train("unflipped", *run[len(SMALL) :]).code == 0
    assert weights(folder, "flipped") == weights(folder, "unflipped")


def test_study_with_dialled_in_workers_has_separate_weights(place, marless):
    folder, address = place
    (folder / "alone").mkdir()
    study(folder / "there.toml", *settings_of(TWO))
    ended(command(folder, "study", "there.toml", "--machines", address))
    train_alone((1, 2), names=TWO)
    alone = {name: weights(folder, name) for name in (f"{each}-s{seed}" for each in TWO for seed in (1, 2))}
    assert hashes(folder / "studies/there") == alone


@pytest.mark.conformance
def test_study_stopped_without_workers_continues_with_same_weights(place, shell):
    folder, address = place
    study(folder / "waited.toml", *settings_of(TWO))
    interrupted_alone(folder, "study", "waited.toml", "--machines", "127.0.0.1:0")
    ended(command(folder, "study", "waited.toml", "--machines", address))
    (folder / "apart").mkdir()
    shell.cd(folder / "apart")
    train_alone((1, 2), names=TWO)
    alone = {name: weights(folder / "apart", name) for name in (f"{each}-s{seed}" for each in TWO for seed in (1, 2))}
    assert hashes(folder / "studies/waited") == alone


@pytest.mark.conformance
def test_ablation_without_workers_stops_at_signal_and_continues(place):
    folder, address = place
    few = ("ablate", *SMALL, "stop.rounds=2", "--arms", "marless-minus", "--seeds", "1-2", "--out", "waits")
    interrupted_alone(folder, *few, "--machines", "127.0.0.1:0")
    assert "2/2" in ended(command(folder, *few, "--machines", address))


@pytest.mark.conformance
def test_ablation_gives_each_run_a_dialled_in_worker(place):
    folder, address = place
    few = (*SMALL, "stop.rounds=2", "--arms", "marless-minus,packed", "--seeds", "1-2", "--out", "few")
    output = ended(command(folder, "ablate", *few, "--machines", address, "--workers", "4"))
    assert "4/4" in output


@pytest.mark.conformance
def test_tasks_of_other_machines_use_driver_resources(place, marless):
    folder, address = place
    run = (
        *SMALL[1:],
        "task.name=pettingzoo:asking_games:quiz",
        "algorithm.name=ippo",
        "actors.num_envs=2",
        "stop.rounds=2",
        "resources.judge.serve=judges:grade",
    )
    calls = folder / "calls"
    ended(command(folder, "train", *run, "--run", "asked", "--machines", address, CALLS=str(calls)))
    ended(command(folder, "train", *run, "--run", "asked-here", "--workers", "1", CALLS=str(calls)))
    assert weights(folder, "asked") == weights(folder, "asked-here")


@pytest.mark.conformance
def test_module_missing_on_worker_ends_run(place):
    folder, port = place[0], free_port()
    address = f"127.0.0.1:{port}"
    agent = command(folder, "worker", address, "--workers", "1", "--patience", "5", paths=MODULES[:2])
    run = (*SMALL[1:], "task.name=pettingzoo:waiting:env", "stop.rounds=1", "attempts=1")
    output = ended(command(folder, "train", *run, "--run", "lacking", "--machines", address), USER_ERROR)
    assert "waiting" in output.splitlines()[-1]
    assert "Traceback" not in output
    ended(agent)


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (("nowhere",), "is not HOST:PORT"),
        (("no-such-host.invalid:1",), "cannot listen on no-such-host.invalid:1"),
        (("127.0.0.1:0", "--backend", "inline"), "--machines is for runs of the back-end local"),
        ('listen = "nowhere"\nany_processor = true', "is not HOST:PORT"),
        ('token_file = "token"', "token_file needs `listen`, the HOST:PORT where workers dial in"),
        ('listen = "127.0.0.1:0"\ntls_cert = "cert.pem"', "tls_cert and tls_key go together"),
        ('listen = "127.0.0.1:0"\ntls_cert = "a.pem"\ntls_key = "a.pem"', "cannot read a.pem"),
        ('tokens = "token"', "machines.toml: there is no tokens here"),
    ],
)
def test_driver_that_cannot_listen_is_one_line(place, marless, argv, line, shell):
    shell.export(MARLESS_TOKEN="a token that both sides hold")
    if isinstance(argv, str):
        Path("machines.toml").write_text(argv)
        argv = ("machines.toml",)
    said = marless("train", *SMALL, "--run", "never", "--machines", *argv)
    assert said.code == USER_ERROR
    assert line in said.err[-1]
    assert not (place[0] / "runs/never").exists()


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (("nowhere",), "is not HOST:PORT"),
        (("127.0.0.1:1", "--token-file", "none"), "cannot read the token in none"),
        (("127.0.0.1:1", "--tls-ca", "none"), "cannot read none"),
        (("127.0.0.1:1", "--patience", "-1"), "is not a number of seconds"),
    ],
)
def test_worker_that_cannot_dial_is_one_line(marless, argv, line):
    said = marless("worker", *argv)
    assert (said.code, len(said.err)) == (USER_ERROR, 1)
    assert line in said.err[0]


def test_exit_code_tells_that_worker_never_served(marless, shell):
    shell.export(MARLESS_TOKEN="a token that both sides hold")
    said = marless("worker", f"127.0.0.1:{free_port()}", "--workers", "1", "--patience", "0")
    assert said.code == UNFINISHED
    assert "no driver answers" in said.err[0]


@pytest.mark.parametrize("backend", [ListeningBackend, RayBackend])
def test_gpu_learner_is_refused_with_dialled_in_workers(backend, tmp_path, shell):
    shell.cd(tmp_path)
    config = convert({"task": {"name": "toy/signal"}, "algorithm": {"engine": "torch", "device": "cuda"}}, "a test")
    folder = RunFolder(tmp_path)
    drive = DriveSettings(1, View, 0.0)
    with pytest.raises(UserError, match=r"^algorithm\.device=cuda is for workers of this machine"):
        drive_run(folder, config, backend.__new__(backend), None, None, drive, None)


def test_a_token_that_can_be_guessed_is_refused(marless, shell):
    shell.export(MARLESS_TOKEN="short")
    said = marless("worker", "127.0.0.1:1")
    assert said.code == USER_ERROR
    assert "fewer than 16 characters" in said.err[0] and "short" not in said.err[0]


def interrupted_alone(folder, *argv):
    """The command is interrupted once while it waits for workers, which stops it."""
    process = command(folder, *argv)
    while "no worker is connected" not in (line := process.stdout.readline()):
        assert line
    process.send_signal(signal.SIGINT)
    return ended(process, 128 + signal.SIGINT, limit_s=60)


def test_driver_with_private_token_stops_without_workers(tmp_path):
    output = interrupted_alone(tmp_path, "train", *SMALL, "attempts=1", "--run", "alone", "--machines", "127.0.0.1:0")
    assert "stopped after round 0" in output and "marless resume" in output
    token = tmp_path / "config/marless/token"
    assert token.stat().st_mode & 0o777 == 0o600
    assert len(token.read_text().strip()) >= 32
