"""The predictions and the table of the benchmark of resources are worked out by hand."""

import os

import msgspec
import numpy as np
import pytest

from benchmarks.comparisons.measurement_record import Record
from benchmarks.resources import prediction, ways
from benchmarks.resources.asking_task import Line, make
from benchmarks.resources.prediction import Predicted, Resource, Trajectory
from benchmarks.resources.record import FILE, Comparison, Ratio
from marless.functions.environments.base import EnvTask
from marless.infra.local.resources.elastic import ElasticCores

# Two steps, each of a second's thought and an action of two.
TWICE = Trajectory([1.0, 1.0], [2.0, 2.0])


def slots(number):
    return lambda clock: Resource(clock, number)


def test_actions_take_the_slot_that_is_free_first():
    """Two trajectories ask at 1 s. On one slot the first is answered at 3 s and asks again at 4 s. The second is
    answered at 5 s and asks again at 6 s. The last answers come at 7 s and 9 s."""
    rounds = [[TWICE, TWICE]]
    assert prediction.shared([rounds], slots(2)) == Predicted(2.0, 6.0)
    assert prediction.shared([rounds], slots(1)) == Predicted((2 + 4 + 3 + 3) / 4, 9.0)


def test_rounds_follow_each_other_and_runs_are_parallel():
    assert prediction.shared([[[TWICE], [TWICE]]], slots(1)) == Predicted(2.0, 6.0)
    both = prediction.shared([[[TWICE]], [[TWICE]]], slots(1))
    assert both == Predicted(3.0, (7 + 9) / 2)
    assert prediction.split([[[TWICE]], [[TWICE]]], [1, 1]) == Predicted(2.0, 6.0)


def test_reserved_slot_is_held_until_trajectory_ends():
    """Three trajectories of 6 s on two slots: the third waits 6 s, which its first action includes."""
    assert prediction.reserved([[TWICE] * 3], 2) == Predicted((6 * 2 + 6) / 6, 12.0)


def test_elastic_actions_have_cores_of_scheduler():
    """Nothing is measured at first, so the first action has one core, and the next, which is alone too, both."""
    alone = [[Trajectory([1.0, 1.0], [2.0, 2.0])]]
    halved = prediction.shared(
        [alone], lambda clock: Resource(clock, 2, lambda size, cores: size / cores, 2, ElasticCores(1, 2, 2))
    )
    assert halved == Predicted((2 + 1) / 2, 1 + 2 + 1 + 1)


def test_nine_slots_are_split_over_runs():
    assert sum(ways.SPLIT) == ways.SLOTS and len(ways.SPLIT) == ways.RUNS
    split = ways.several(0.2, 0.1, ways.SPLIT)
    assert [split.tables[name]["slots"] for name in split.asked] == list(ways.SPLIT)
    assert ways.several(0.2, 0.1, (9,)).asked == ("judge0",) * 4
    # With a duty of 0.2 an action of 0.1 s follows 0.4 s of thought.
    assert split.think_s == pytest.approx(0.4) and split.trajectories * ways.RUNS == ways.TRAJECTORIES


def drawn_rounds(trajectories, duty, number=5):
    """As the task draws them, for actions of a second in the mean."""
    draw = np.random.default_rng(1)

    def times(mean):
        return (mean * np.exp(0.8 * draw.standard_normal(12) - 0.32)).tolist()

    return [[Trajectory(times((1 - duty) / duty), times(1.0)) for _ in range(trajectories)] for _ in range(number)]


def test_nine_shared_slots_suffice_for_32_trajectories():
    rounds = drawn_rounds(ways.TRAJECTORIES, 0.2)
    own, every = (prediction.shared([rounds], slots(number)) for number in (ways.SLOTS, ways.TRAJECTORIES))
    reserved = prediction.reserved(rounds, ways.SLOTS)
    assert own.round_s <= 1.05 * every.round_s
    assert reserved.action_s >= 4.3 * own.action_s and reserved.round_s >= 1.5 * own.round_s


@pytest.mark.parametrize(("trajectories", "duty", "least"), [(2, 0.2, 1.3), (12, 0.5, 1 / 1.02)])
def test_elastic_cores_gain_when_idle_and_never_lose(trajectories, duty, least):
    """On two cores, with an action that is divisible to 0.95."""
    rounds = drawn_rounds(trajectories, duty)

    def served(elastic):
        return prediction.shared(
            [rounds], lambda clock: Resource(clock, 2, lambda size, cores: size * (0.05 + 0.95 / cores), 2, elastic)
        )

    assert served(None).action_s >= least * served(ElasticCores(1, 2, 2)).action_s


def test_resource_table_tells_whether_targets_were_reached():
    actions = Ratio(values=[4.0, 5.0, 9.0], predicted=7.2, least=4.3)
    rounds = Ratio(values=[0.9, 1.0], predicted=1.0, least=0.9)
    comparison = Comparison(name="a", against="b", action_ms=123.4, actions=actions, rounds=rounds)
    assert comparison.cells() == (
        "a",
        "123",
        "b",
        "5.00 (4.00 to 9.00)",
        "7.20",
        "0.95 (0.90 to 1.00)",
        "1.00",
        "actions ≥ 4.30: MISSED: kept in 2 of 3; rounds ≥ 0.90: kept in 2 of 2, 5 are needed",
    )
    record = Record(
        commit=None, date="2026-11-26", cores=2, kernel="Zen", load=(0.1, 2.0), seconds=3.0, comparisons=[comparison]
    )
    assert "MISSED" in FILE.text(record)
    assert msgspec.json.decode(msgspec.json.encode(record), type=Record[Comparison]) == record


class Answers:
    def __init__(self):
        self.asked = []

    def call(self, name, questions):
        self.asked += [(name, float(question)) for question in questions]
        return [b""] * len(questions)


def test_trajectory_leaves_slot_after_its_drawn_time(tmp_path):
    tokens, lines = tmp_path / "tokens", tmp_path / "lines"
    os.mkfifo(tokens)
    pipe = os.open(tokens, os.O_RDWR | os.O_NONBLOCK)
    os.write(pipe, b"x")
    options = {"resource": "judge", "lines": str(lines), "think_s": 1e-9, "size": 3.0, "steps": 2}
    answers = Answers()
    for salt in (0, 0, 1):
        task = EnvTask(name="asking", options={**options, "salt": salt, "tokens": str(tokens)})
        environment = make(task, 1, answers)
        environment.reset(np.random.default_rng(7))
        with pytest.raises(BlockingIOError):
            os.read(pipe, 1)
        for _ in range(2):
            environment.step((np.zeros((1, 3), np.int64),))
        environment.close()
    assert os.read(pipe, 9) == b"x"
    os.close(pipe)
    first, again, salted = msgspec.json.Decoder(Line).decode_lines(lines.read_bytes())
    assert first.sizes == again.sizes != salted.sizes and first.thinks_s == again.thinks_s
    assert answers.asked == [("judge", size) for line in (first, again, salted) for size in line.sizes]
    assert len(first.took_s) == 2


def test_copies_that_are_evaluated_neither_think_nor_ask(tmp_path):
    options = {"resource": "judge", "lines": str(tmp_path / "lines"), "think_s": 1e9, "size": 1.0}
    answers = Answers()
    environment = make(EnvTask(name="asking", options=options), 2, answers)
    environment.reset(np.random.default_rng(7))
    environment.step((np.zeros((2, 3), np.int64),))
    environment.close()
    assert not answers.asked and not (tmp_path / "lines").exists()
