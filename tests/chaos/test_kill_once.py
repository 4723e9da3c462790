"""The quick half of the kill tests: one kill of each kind, each followed by the same weights as without it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import driver
import pytest
from driver import train

OPTIONS = (
    "actors.num_envs=8",
    "scaling.rollouts=2",
    "placement.rule=fused",
    "stop.rounds=8",
    "checkpoint_every=3",
    "evaluation.every=3",
    "evaluation.episodes=4",
    "evaluation.final_episodes=4",
)
# Every round's two updates are from the last three rounds, and each writes the priorities that the next draws by.
REPLAYED = (
    *OPTIONS,
    "algorithm.name=qmix",
    "algorithm.priority=0.7",
    "algorithm.updates_per_round=2",
    "algorithm.batch_size=16",
    "algorithm.buffer_size=1200",
    "placement.rule=split",
    "sharing.rule=none",
)
DRIVER = Path(driver.__file__)


class Process:
    """The driver in a process of its own; with `hold` it stops itself when it has asked for what follows that round."""

    def __init__(self, folder, hold=None, options=OPTIONS):
        hold_setting = {} if hold is None else {"HOLD": str(hold)}
        self._process = subprocess.Popen(
            [sys.executable, str(DRIVER), str(folder), "2", *options],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **hold_setting, "PYTHONPATH": str(DRIVER.parents[2])},
        )
        if hold is not None:
            while (line := self._process.stdout.readline()) != "holding\n":
                assert line, "the driver ended before it held"
            while not any(pid == self._process.pid and state.startswith("T") for pid, _, state in processes()):
                time.sleep(0.01)

    def alive(self):
        return self._process.poll() is None

    def send(self, *signals):
        for number in signals:
            self._process.send_signal(number)

    def end(self):
        """What it says last, '' if nothing."""
        try:
            output, _ = self._process.communicate(timeout=60)
        finally:
            self._process.kill()
        return output.rstrip().rpartition("\n")[2]

    def workers(self):
        """The process ids of its workers."""
        return [pid for pid, parent, _ in processes() if parent == self._process.pid]


def processes():
    """(pid, parent, state) of every process of this machine."""
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid=,stat="], capture_output=True, text=True).stdout
    rows = (line.split() for line in listed.splitlines())
    return [(int(pid), int(parent), state) for pid, parent, state, *_ in rows]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return train(tmp_path_factory.mktemp("undisturbed"), OPTIONS, workers=2)


def lost(state):
    meter = state.meter
    return sum(charge.attempts_lost for charge in (meter.actor, meter.learner, meter.evaluator))


def gone(pids, within_s=5.0):
    """Whether none of the processes is left after a while; a zombie is one that nobody has buried yet."""
    until = time.monotonic() + within_s
    while any(pid in pids and not state.startswith("Z") for pid, _, state in processes()):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def same(trained, undisturbed):
    """Whether the run arrived where the other did: weights, evaluations, and every round recorded once."""
    assert trained.sha256 == undisturbed.sha256
    assert trained.state.final == undisturbed.state.final
    assert [line.round for line in trained.lines] == list(range(1, 9))
    assert [(line.env_steps, line.return_mean, line.evaluation) for line in trained.lines] == [
        (line.env_steps, line.return_mean, line.evaluation) for line in undisturbed.lines
    ]


def test_a_killed_coordinator_is_resumed_to_the_same_weights(tmp_path, undisturbed):
    process = Process(tmp_path, hold=3)
    workers = process.workers()
    process.send(signal.SIGKILL)
    process.end()
    assert workers and gone(workers)
    resumed = train(tmp_path, OPTIONS, workers=2)
    same(resumed, undisturbed)
    # Two units were being sampled, by an invocation each, and an evaluation was due.
    assert lost(resumed.state) == 3
    assert resumed.dollars > undisturbed.dollars


def test_a_killed_worker_changes_nothing_and_the_run_goes_on_by_itself(tmp_path, undisturbed):
    process = Process(tmp_path, hold=2)
    os.kill(process.workers()[0], signal.SIGKILL)
    process.send(signal.SIGCONT)
    assert process.end() == f"finished {undisturbed.sha256}"
    same(train(tmp_path, OPTIONS, workers=2), undisturbed)


def test_an_interrupted_run_loses_no_attempt(tmp_path, undisturbed):
    process = Process(tmp_path, hold=3)
    process.send(signal.SIGINT, signal.SIGCONT)
    assert process.end().startswith("running ")
    resumed = train(tmp_path, OPTIONS, workers=2)
    same(resumed, undisturbed)
    assert lost(resumed.state) == 0


def test_a_run_that_learns_from_earlier_rounds_survives_the_death_of_its_coordinator_and_of_a_worker(tmp_path):
    expected = train(tmp_path / "undisturbed", REPLAYED, workers=2)
    folder = tmp_path / "killed"
    process = Process(folder, hold=4, options=REPLAYED)
    process.send(signal.SIGKILL)
    process.end()
    process = Process(folder, hold=6, options=REPLAYED)
    os.kill(process.workers()[0], signal.SIGKILL)
    process.send(signal.SIGCONT)
    assert process.end() == f"finished {expected.sha256}"
    same(train(folder, REPLAYED, workers=2), expected)
