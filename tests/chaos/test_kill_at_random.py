"""The thorough half of the kill tests: interruptions of every kind at random moments."""

import os
import signal
import time

import pytest
from driver import train
from killed_runs import OPTIONS, Process, gone, same

pytestmark = pytest.mark.conformance


@pytest.fixture(scope="module")
def lasts(tmp_path_factory):
    start = time.monotonic()
    Process(tmp_path_factory.mktemp("lasts")).end()
    return time.monotonic() - start


def started(folder, draw, lasts):
    process = Process(folder)
    time.sleep(draw.uniform(0, lasts))
    return process


@pytest.mark.parametrize("number", range(10))
def test_a_coordinator_killed_at_a_random_moment(tmp_path, undisturbed, lasts, draw, number):
    process = started(tmp_path, draw, lasts)
    workers = process.workers() if process.alive() else []
    process.send(signal.SIGKILL)
    process.end()
    assert gone(workers)
    same(train(tmp_path, OPTIONS, workers=2), undisturbed)


@pytest.mark.parametrize("number", range(10))
def test_a_worker_killed_at_a_random_moment(tmp_path, undisturbed, lasts, draw, number):
    process = started(tmp_path, draw, lasts)
    workers = process.workers()
    if workers:
        os.kill(draw.choice(workers), signal.SIGKILL)
    assert process.end() == f"finished {undisturbed.sha256}"
    same(train(tmp_path, OPTIONS, workers=2), undisturbed)


def test_a_coordinator_killed_five_times_on_its_way(tmp_path, undisturbed, lasts, draw):
    for _ in range(5):
        process = started(tmp_path, draw, lasts)
        process.send(signal.SIGKILL)
        process.end()
    same(train(tmp_path, OPTIONS, workers=2), undisturbed)


# Three micro-batches a round.
SUMMED = (*OPTIONS, "algorithm.epochs=1", "algorithm.num_minibatches=1", "actors.rollouts=6", "pipeline.micro_batch=2")


@pytest.fixture(scope="module")
def summed(tmp_path_factory):
    return train(tmp_path_factory.mktemp("summed"), SUMMED, workers=2)


@pytest.mark.parametrize("number", range(10))
def test_coordinator_killed_five_times_in_partial_sums(tmp_path, summed, lasts, draw, number):
    for _ in range(5):
        process = Process(tmp_path, options=SUMMED)
        time.sleep(draw.uniform(0, lasts))
        workers = process.workers() if number % 2 and process.alive() else []
        if workers:
            os.kill(draw.choice(workers), signal.SIGKILL)
            time.sleep(draw.uniform(0, 0.3))
        process.send(signal.SIGKILL)
        process.end()
    same(train(tmp_path, SUMMED, workers=2), summed)


# Objects are stored every third round only, and sharing is switched on after a trial, then off.
CONTROLLER = (
    *OPTIONS, "placement.rule=whole", "placement.inline_objects=true", "trend.rule=paper", "trend.gamma=100.0",
    "trend.window=3", "sharing.rule=dynamic", "sharing.start=apart", "sharing.epsilon=1.0", "sharing.margin=10.0",
    "sharing.trial_episodes=16", "scaling.rule=gns", "actors.rollouts=6",
)  # fmt: skip


@pytest.fixture(scope="module")
def thoughtful(tmp_path_factory):
    trained = train(tmp_path_factory.mktemp("thoughtful"), CONTROLLER, workers=2)
    assert {"shared", "split"} <= {line.event for line in trained.lines}
    return trained


@pytest.mark.parametrize("number", range(10))
def test_a_coordinator_killed_while_its_controller_decides(tmp_path, thoughtful, lasts, draw, number):
    process = Process(tmp_path, options=CONTROLLER)
    time.sleep(draw.uniform(0, lasts))
    process.send(signal.SIGKILL)
    process.end()
    found = train(tmp_path, CONTROLLER, workers=2)
    assert found.sha256 == thoughtful.sha256
    assert [(line.team, line.rollouts, line.event) for line in found.lines] == [
        (line.team, line.rollouts, line.event) for line in thoughtful.lines
    ]


@pytest.mark.parametrize("signal_", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("number", range(3))
def test_an_interruption_at_a_random_moment(tmp_path, undisturbed, lasts, draw, number, signal_):
    process = started(tmp_path, draw, lasts)
    process.send(signal_)
    process.end()
    same(train(tmp_path, OPTIONS, workers=2), undisturbed)


@pytest.mark.parametrize("number", range(3))
def test_a_suspension_at_a_random_moment(tmp_path, undisturbed, lasts, draw, number):
    process = started(tmp_path, draw, lasts)
    process.send(signal.SIGSTOP)
    time.sleep(0.5)
    process.send(signal.SIGCONT)
    assert process.end() == f"finished {undisturbed.sha256}"
    same(train(tmp_path, OPTIONS, workers=2), undisturbed)
