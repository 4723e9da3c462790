"""The quick half of the kill tests: one kill of each kind. The weights equal an undisturbed run's."""

import os
import signal

import pytest
from driver import train
from killed_runs import OPTIONS, Process, gone, same

from marless.coordinator.pricing.bill import charge_of
from marless.functions.function_specs import NAMES

# Each round's two updates use the last three rounds. Each writes the priorities for the next one's draws.
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


def lost(state):
    meter = state.meter
    return sum(charge_of(meter, name).attempts_lost for name in NAMES)


def test_killed_coordinator_resumes_to_same_weights(tmp_path, undisturbed):
    process = Process(tmp_path, hold=3)
    workers = process.workers()
    process.send(signal.SIGKILL)
    process.end()
    assert workers and gone(workers)
    resumed = train(tmp_path, OPTIONS, workers=2)
    same(resumed, undisturbed)
    # Two rollouts were being sampled, by an invocation each, and an evaluation was due.
    assert lost(resumed.state) == 3
    assert resumed.dollars > undisturbed.dollars


def test_killed_worker_changes_nothing_and_run_continues(tmp_path, undisturbed):
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


@pytest.mark.conformance
@pytest.mark.parametrize("options", [REPLAYED, (*OPTIONS, "algorithm.engine=torch")], ids=["replayed", "torch"])
def test_demanding_run_survives_killed_coordinator_and_worker(tmp_path, options):
    expected = train(tmp_path / "undisturbed", options, workers=2)
    folder = tmp_path / "killed"
    process = Process(folder, hold=4, options=options)
    process.send(signal.SIGKILL)
    process.end()
    process = Process(folder, hold=6, options=options)
    os.kill(process.workers()[0], signal.SIGKILL)
    process.send(signal.SIGCONT)
    assert process.end() == f"finished {expected.sha256}"
    same(train(folder, options, workers=2), expected)
