"""Runs on a cluster of Ray with two nodes on this machine have the weights that they have without it."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer

import pytest
from commands import SMALL
from dialled_in import free_port, head_at
from language_runs import RELAY, relay_base
from studies import EACH_ONCE, hashes, settings_of, study

from marless.infra.local.available_cores import cores

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'marless[ray]'"),
]

MARLESS = (sys.executable, "-P", "-c", "import sys; from marless.cli.app import main; sys.exit(main())")
# Long enough for all events meanwhile.
LONG = (*SMALL[:-1], "actors.num_envs=64", "stop.rounds=150")
# An ablation of four runs.
FEW = ("ablate", *SMALL, "--arms", "marless-minus,packed", "--seeds", "1-2", "--workers", "2")
_STORE = 80_000_000
# A machine is kept busy for so long at most.
_BUSY_S = 90


@pytest.fixture
def cluster(shell, tmp_path):
    """A head that has no core for workers, and one node that has one."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, "object_store_memory": _STORE}
    )
    cluster.node = cluster.add_node(num_cpus=1, object_store_memory=_STORE)
    shell.export(RAY_ADDRESS=cluster.address)
    shell.cd(tmp_path)
    yield cluster
    cluster.shutdown()


@pytest.fixture
def guarded_head(shell, tmp_path):
    """The address of a head that asks for a token, and the variables that hold it."""
    address = f"127.0.0.1:{free_port()}"
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 4}
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--num-cpus=1"]
    where = ["--node-ip-address=127.0.0.1", f"--port={address.rpartition(':')[2]}", "--include-dashboard=false"]
    shell.unset("RAY_ADDRESS", *token)
    shell.cd(tmp_path)
    # A path of pytest's is too long for Ray's sockets.
    with TemporaryDirectory() as folder:
        head = subprocess.Popen(
            [*command, *where, f"--object-store-memory={_STORE}"],
            env={**os.environ, **token, "RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": folder},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        yield address, token
        head.terminate()
        head.wait(60)


def marless(*arguments):
    said = subprocess.run([*MARLESS, *arguments], capture_output=True, text=True, check=False, timeout=300)
    assert said.returncode == 0, said.stderr
    return said


def begin(*arguments):
    return subprocess.Popen(
        [*MARLESS, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def joined(address, said):
    """The nodes and cores of the joined cluster, with a head at the port of this address."""
    line = rf"joined the Ray cluster of the head at \S+:{address.rpartition(':')[2]}, which has nodes: (.*)"
    return re.search(line, said.stderr)[1]


def weights(run):
    return json.loads(Path("runs", run, "summary.json").read_text(encoding="utf-8"))["weights_sha256"]


def rounds(run):
    path = Path("runs", run, "metrics.jsonl")
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def after_rounds(run, count):
    until = time.monotonic() + 120
    while rounds(run) < count:
        assert time.monotonic() < until
        time.sleep(0.05)


def placed():
    folders = [folder for folder in Path("/proc").iterdir() if folder.name.isdecimal()]
    return [int(folder.name) for folder in folders if _name(folder).startswith(b"ray::Placed.serve")]


def _name(folder):
    try:
        return (folder / "cmdline").read_bytes()
    except OSError:
        return b""


def train_here():
    marless("train", *LONG, "--run", "here", "--workers", "1")
    return weights("here")


def on_ray(run):
    return begin("train", *LONG, "--run", run, "--backend", "ray", "--workers", "1")


def test_user_files_hide_no_worker_module(cluster):
    for name in ("functions", "random", "coordinator", "secrets"):
        Path(f"{name}.py").write_text("raise RuntimeError('a file of the user was imported')")
    Path("my_judge.py").write_text("def grade(question):\n    return b'1'\n")
    judge = ("task.judge=judge", "resources.judge.serve=my_judge:grade")
    marless(
        "train",
        "--run",
        "first",
        "task.name=matrix/penalty",
        *judge,
        "stop.rounds=2",
        "--backend",
        "ray",
        "--workers",
        "1",
    )
    assert json.loads(Path("runs/first/summary.json").read_text())["status"] == "finished"


def test_run_keeps_weights_when_worker_and_node_die(cluster):
    process = on_ray("there")
    after_rounds("there", 20)
    for pid in placed():
        os.kill(pid, signal.SIGKILL)
    after_rounds("there", 40)
    cluster.remove_node(cluster.node, allow_graceful=False)
    cluster.add_node(num_cpus=1, object_store_memory=_STORE)  # it is used, or the run would wait for ever
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    assert "a worker on Ray has ended" in output
    assert rounds("there") == 150 and weights("there") == train_here()


def test_speaking_agents_have_local_weights(cluster):
    Path("relay.safetensors").write_bytes(relay_base())
    speak = ("train", *RELAY, "base.model=relay.safetensors", "base.rank=2", "actors.rollouts=2", "--workers", "1")
    marless(*speak, "--run", "there", "--backend", "ray")
    marless(*speak, "--run", "here")
    assert weights("there") == weights("here")


def test_run_of_killed_driver_is_resumed_on_ray(cluster):
    process = on_ray("there")
    after_rounds("there", 30)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    marless("resume", "there")
    assert weights("there") == train_here()
    until = time.monotonic() + 60
    while placed():  # neither driver has left a worker
        assert time.monotonic() < until
        time.sleep(0.1)


def test_wait_for_ray_is_reported_and_others_refused(shell, tmp_path):
    shell.cd(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        process = begin("train", *SMALL, "--run", "there", "--backend", "ray", *head_at(address))
        output, _ = process.communicate(timeout=200)
    assert process.returncode == 2
    assert re.search(rf"waits for Ray \({address}\) since \d+ s; the load of this machine is \d+", output)
    assert f"marless: back-end ray: what answers at {address} " in output
    assert not Path("runs").exists() or not list(Path("runs").iterdir())


def test_study_killed_on_ray_continues_with_local_weights(cluster):
    study(Path("there.toml"), *settings_of(EACH_ONCE))
    cluster.add_node(num_cpus=1, object_store_memory=_STORE)
    command = ("study", "there.toml", "--backend", "ray")
    process = begin(*command)
    until = time.monotonic() + 200
    while len(hashes(Path("studies/there"))) < 3:
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.05)
    assert len(placed()) == 2  # one on each node that has a core
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    begun = marless("study", "there")
    assert joined(cluster.address, begun) == "3, cores: 2"
    marless("study", "there.toml", "--out", "here")
    assert len(hashes(Path("here"))) == 8
    assert hashes(Path("studies/there")) == hashes(Path("here"))


def test_ablation_on_ray_has_local_weights(cluster):
    cluster.add_node(num_cpus=1, object_store_memory=_STORE)
    marless(*FEW, "--out", "there", "--backend", "ray", *head_at(cluster.address))
    marless(*FEW, "--out", "here")
    assert len(hashes(Path("here"))) == 4
    assert hashes(Path("there")) == hashes(Path("here"))


def test_head_with_token_is_named_and_joined(guarded_head, shell):
    address, token = guarded_head
    command = ("train", *SMALL, "--backend", "ray", *head_at(address), "--workers", "1", "--run")
    until = time.monotonic() + 120
    while "no Ray head answers" in (output := begin(*command, "never").communicate(timeout=200)[0]):
        assert time.monotonic() < until  # it is about to begin
    assert f"marless: back-end ray: the Ray head at {address} asks for a token: set RAY_AUTH_MODE=token" in output
    shell.export(**{**token, "RAY_AUTH_TOKEN": "fedcba9876543210" * 4})
    output = begin(*command, "never").communicate(timeout=200)[0]
    assert f"the Ray head at {address} asks for a token, which is not in RAY_AUTH_TOKEN" in output
    shell.export(**token)
    assert joined(address, marless(*command, "there")) == "1, cores: 1"
    assert not Path("runs/never").exists()


def test_unanswering_head_is_explained_by_busy_machine(cluster):
    head = cluster.head_node.all_processes["gcs_server"][0].process
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(10 * cores())]
    head.send_signal(signal.SIGSTOP)  # as one that gets no processor, on machines of any speed
    process = begin("train", *SMALL, "--run", "there", "--backend", "ray", "--workers", "1")
    watch = Timer(_BUSY_S, process.kill)
    watch.start()
    try:
        reason = next((line for line in iter(process.stdout.readline, "") if "waits for Ray" in line), "")
    finally:
        watch.cancel()
        head.send_signal(signal.SIGCONT)
        for each in busy:
            each.kill()
            each.wait()
    assert re.search(rf"waits for Ray \({cluster.address}\) since \d+ s; the load of this machine is \d+", reason)
    rest, _ = process.communicate(timeout=300)
    assert process.returncode == 0, rest
    assert "joined the Ray cluster of the head at " in rest and rounds("there") == 4
