"""Workers that dial in over bad networks, from machines that stand still, go silent, or come and go: the same bytes."""

import json
import os
import signal
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from commands import SMALL
from dialled_in import command, ended, free_port
from slow_network import FarMachine, NoNamespaces, SlowRelay
from studies import EVERYTHING, hashes, settings_of, study, train_alone

from marless.cli.app import main

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.skipif(sys.platform != "linux", reason="namespaces and /proc are Linux's"),
]

TOKEN = {"MARLESS_TOKEN": "a token that both sides hold"}
LONG = (*SMALL, "stop.rounds=150", "actors.rollouts=4", "placement.rule=split")
_EVERYWHERE = "0.0.0.0"


@pytest.fixture
def machines():
    """Makes separate machines, joined to this one by cables."""
    with ExitStack() as stack:

        def make(count):
            try:
                return [stack.enter_context(FarMachine(number)) for number in range(1, count + 1)]
            except NoNamespaces as error:
                pytest.skip(f"no namespaces for networks: {error}")

        yield make


@pytest.fixture
def place(tmp_path, shell):
    shell.cd(tmp_path)
    return tmp_path


@contextmanager
def agent(folder, address, slots=1, inside=()):
    """`marless worker` in this folder."""
    process = command(folder, "worker", address, "--workers", str(slots), before=inside, **TOKEN)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def driver(folder, port, *argv):
    return command(folder, *argv, "--machines", f"{_EVERYWHERE}:{port}", **TOKEN)


def weights(name):
    return json.loads(Path("runs", name, "summary.json").read_text())["weights_sha256"]


def alone(*settings):
    assert main(["train", *settings, "--run", "alone", "--workers", "2"]) == 0
    return weights("alone")


def outcomes(name):
    return [json.loads(line).get("outcome", "answered") for line in Path("runs", name, "attempts.jsonl").open()]


def rounds_done(process, name, count):
    metrics, until = Path("runs", name, "metrics.jsonl"), time.monotonic() + 300
    while not metrics.exists() or metrics.read_text().count("\n") < count:
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.05)


def family(pid):
    children = [int(word) for path in Path(f"/proc/{pid}/task").glob("*/children") for word in path.read_text().split()]
    return [pid, *(each for child in children for each in family(child))]


def send(signal_number, processes):
    for pid in processes:
        try:
            os.kill(pid, signal_number)
        except ProcessLookupError:
            continue


def test_late_stalled_or_closed_network_changes_no_byte(place, machines):
    [far], port = machines(1), free_port()
    relay = SlowRelay(port, delay_s=0.05, one_in=100, stall_s=0.25)
    run = (*SMALL, "stop.rounds=30")
    with agent(place, f"{far.driver}:{relay.port}", slots=2, inside=far.inside):
        process = driver(place, port, "train", *run, "--run", "late")
        for count in (5, 15):
            rounds_done(process, "late", count)
            relay.cut()
        output = ended(process)
    print(f"{relay.pieces} pieces, {relay.stalls} stalls")
    assert relay.stalls > 0
    assert "dials" not in output
    assert weights("late") == alone(*run)
    assert set(outcomes("late")) == {"answered"}


@pytest.mark.parametrize("seconds", [2, 60])
def test_stalled_machine_costs_no_attempt_and_no_byte(place, seconds):
    port = free_port()
    timeouts = [f"functions.{name}.timeout_s=15" for name in ("actor", "learner", "evaluator")]
    with agent(place, f"127.0.0.1:{port}") as still, agent(place, f"127.0.0.1:{port}"):
        process = driver(place, port, "train", *LONG, *timeouts, "--run", "stopped")
        rounds_done(process, "stopped", 5)
        processes = family(still.pid)
        send(signal.SIGSTOP, processes)
        time.sleep(seconds)
        send(signal.SIGCONT, processes)
        ended(process)
    assert weights("stopped") == alone(*LONG)
    assert set(outcomes("stopped")) == {"answered"}  # its silence causes the time-outs


def test_silent_machine_is_lost_and_its_tasks_reassigned(place, machines):
    [far], port = machines(1), free_port()
    with agent(place, f"{far.driver}:{port}", inside=far.inside), agent(place, f"127.0.0.1:{port}"):
        process = driver(place, port, "train", *LONG, "--run", "silent")
        rounds_done(process, "silent", 5)
        far.cut_cable()
        output = ended(process)
    assert "was lost; its task is served elsewhere" in output
    assert weights("silent") == alone(*LONG)
    assert set(outcomes("silent")) == {"answered"}


def test_sixteen_runs_keep_weights_while_machines_die(place, machines):
    three, port, over, deaths = machines(3), free_port(), threading.Event(), []
    base = (*SMALL[:-1], "stop.rounds=60")
    study(place / "sixteen.toml", *settings_of(), base=base, head='seeds = "1-2"\n')

    def live_and_die(number, far):
        life_s = 10.0 * (number + 1)
        while not over.is_set():
            with agent(place, f"{far.driver}:{port}", inside=far.inside):
                if over.wait(life_s):
                    return
            deaths.append(number)
            life_s = 27.0
            over.wait(3.0)

    lives = [threading.Thread(target=live_and_die, args=each) for each in enumerate(three)]
    process = driver(place, port, "study", "sixteen.toml")
    for each in lives:
        each.start()
    try:
        output = ended(process, limit_s=1200)
    finally:
        over.set()
        for each in lives:
            each.join()
    print(f"{len(deaths)} deaths;", *(line for line in output.splitlines() if "busy" in line))
    assert len(deaths) >= 2
    train_alone((1, 2), base=base)
    expected = {f"{name}-s{seed}": weights(f"{name}-s{seed}") for name in EVERYTHING for seed in (1, 2)}
    assert len(expected) == 16
    assert hashes(place / "studies/sixteen") == expected
