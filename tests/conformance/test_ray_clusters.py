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

import pytest
from commands import SMALL

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'marless[ray]'"),
]

MARLESS = (sys.executable, "-c", "import sys; from marless.cli.app import main; sys.exit(main())")
# Long enough for what happens to it meanwhile.
LONG = (*SMALL[:-1], "actors.num_envs=64", "stop.rounds=150")
_STORE = 80_000_000


@pytest.fixture
def cluster(shell, tmp_path):
    """A head that has no core for workers, and one node that has one."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "include_dashboard": False, "object_store_memory": _STORE},
    )
    cluster.node = cluster.add_node(num_cpus=1, object_store_memory=_STORE)
    shell.export(RAY_ADDRESS=cluster.address)
    shell.cd(tmp_path)
    yield cluster
    cluster.shutdown()


def marless(*arguments):
    said = subprocess.run([*MARLESS, *arguments], capture_output=True, text=True, check=False, timeout=300)
    assert said.returncode == 0, said.stderr
    return said


def begin(*arguments):
    return subprocess.Popen(
        [*MARLESS, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


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
    """The processes of Ray in which workers are."""
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


def test_a_run_keeps_its_weights_when_its_worker_and_its_node_are_killed(cluster):
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


def test_a_run_whose_driver_was_killed_is_resumed_on_ray(cluster):
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


def test_who_waits_for_ray_is_told_and_what_is_no_head_is_refused(shell, tmp_path):
    shell.cd(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        process = begin("train", *SMALL, "--run", "there", "--backend", "ray", "--address", address)
        output, _ = process.communicate(timeout=200)
    assert process.returncode == 2
    assert re.search(rf"waits for Ray \({address}\) since \d+ s; the load of this machine is \d+", output)
    assert f"marless: back-end ray: what answers at {address} " in output
    assert not Path("runs").exists() or not list(Path("runs").iterdir())
