"""The predictions and the table of the benchmark of rounds are worked out by hand."""

import msgspec
import numpy as np

from benchmarks.comparisons.measurement_record import Record
from benchmarks.pipeline import prediction
from benchmarks.pipeline.barriers import BARRIERS
from benchmarks.pipeline.record import FILE, Comparison
from benchmarks.pipeline.waiting_task import make
from marless.coordinator.core.round_graph import Gate
from marless.functions.environments.base import EnvTask


def test_task_takes_first_free_slot():
    assert prediction.ends_s([3.0, 1.0, 1.0, 2.0], 2) == [3.0, 1.0, 2.0, 4.0]


def test_round_parts_begin_after_their_own_samples():
    """Four samples of a second on two slots end after 1, 1, 2 and 2 s. A part of two of them takes a second."""
    samples, parts = [1.0] * 4, [1.0] * 2
    assert prediction.streamed_s(samples, parts, 0.5, 2, learners=1) == 3.5
    assert prediction.behind_s(samples, parts, 0.5, 2, learners=1) == 4.5
    assert prediction.behind_s(samples, parts, 0.5, 2, learners=2) == 3.5
    assert prediction.whole_s(samples, 2.5, 2) == 4.5


def test_sample_takes_learner_slot_with_lag():
    """Three learners and a sample, a second each, on two slots: 1 + 2 s in turn, else 2 s."""
    assert prediction.in_turn_s([1.0], [1.0] * 3, 2) == 3.0
    assert prediction.beside_s([1.0], [1.0] * 3, 2) == 2.0


def test_learners_begin_while_an_evaluation_is_played():
    """A sample of 1 s and an evaluation of 3 s run together. Two learners of 1 s follow the sample on its slot."""
    assert prediction.after_samples_s([1.0], [3.0], [1.0] * 2, 2) == 3.0
    assert prediction.in_turn_s([1.0, 3.0], [1.0] * 2, 2) == 4.0


def test_barrier_makes_gates_wait_for_whole_kind():
    none = list
    gates = [
        Gate("sample/0", (), none),
        Gate("sample/1", (), none),
        Gate("evaluate", (), none),
        Gate("grad/0", (), none, ("sample/0",)),
        Gate("learn/0", (), none, ("grad/0",)),
    ]
    after = {gate.name: {*gate.after} for gate in BARRIERS["partials"](gates)}
    assert after["grad/0"] == {"sample/0", "sample/1"} and after["learn/0"] == {"grad/0"}
    after = {gate.name: {*gate.after} for gate in BARRIERS["evaluation"](gates)}
    assert after["learn/0"] == {"grad/0", "evaluate"} and after["grad/0"] == {"sample/0"}


def test_pipeline_table_tells_whether_targets_were_reached():
    met = Comparison(
        name="a", against="b", ms=[1000.0, 3000.0], ratios=[1.4, 1.8], same_weights=True, predicted=1.7, least=1.4
    )
    missed = msgspec.structs.replace(met, least=1.7)
    assert met.cells() == (
        "a",
        "2,000",
        "b",
        "1.60",
        "1.40 to 1.80 (2)",
        "1.70",
        "the same",
        "≥ 1.40: kept in 2 of 2, 5 are needed",
    )
    assert missed.cells()[-1] == "≥ 1.70: MISSED: kept in 1 of 2"
    record = Record(
        commit="0123456789",
        date="2026-11-26",
        cores=2,
        kernel="Zen",
        load=(0.1, 2.0),
        seconds=300.4,
        comparisons=[met, missed],
    )
    assert "MISSED" in FILE.text(record)
    assert record.sentence().endswith("load 0.1 before and 2.0 after, in 300 s, commit 01234567.")
    assert msgspec.json.decode(msgspec.json.encode(record), type=Record[Comparison]) == record


def test_waiting_task_rollout_is_same_in_any_place():
    task = EnvTask(name="waiting", options={"horizon": 2, "median_s": 1e-6})
    first, again = (make(task, 3) for _ in range(2))
    for environment in (first, again):
        environment.reset(np.random.default_rng(7))
    right = first._right
    steps = [environment.step((right,)) for environment in (first, again)]
    assert (steps[0].rewards == 1.0).all() and (steps[0].observation.values[0] == steps[1].observation.values[0]).all()
    ended = first.step((first._right,))
    assert ended.ended.all() and ended.truncated.all() and ended.final is not None and not ended.terminated.any()
