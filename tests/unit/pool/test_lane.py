"""A lane's expectations of its tasks decide the order of service."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import synthetic
from task_fields import make_task

from marless.functions.environments.base import EnvTask
from marless.functions.messages.actor import SampleTask
from marless.functions.messages.learner import LearnTask
from marless.functions.messages.order import Attempt
from marless.functions.messages.team import Team
from marless.infra.local.dispatch import CORES, GPUS, SLOTS, Capacity
from marless.infra.local.lane import Lane


def lane_of(capacity, tmp_path):
    pool = SimpleNamespace(
        modules={"actor": "actor", "learner": "learner"},
        logs=Path(tmp_path),
        capacity=capacity,
        usual_cores={},
        presumed_cores=1.0,
        any_processor=False,
        waits=lambda lane: None,
        cores=SimpleNamespace(dispatch=lambda: None),
        drop=lambda lane: None,
    )
    return Lane(pool, "run", tmp_path, 1.0)


@pytest.fixture
def lane(tmp_path):
    return lane_of(Capacity(2, 2.0), tmp_path)


def learn(lane, device):
    task = make_task(
        LearnTask, id="run/000000/learn/0", run="run", round=0, output="o", timeout_s=60.0, seed=1,
        team=Team(groups=(0, 0, 0)), spec=synthetic.spec("one choice"), algorithm="ippo", stages=("policy",),
        groups=(0,), hyperparameters={"device": device}, rollouts=(0,), trajectories=(), state=(),
    )  # fmt: skip
    lane.invoke(Attempt("learner", task))


def sample(lane, round_, rollouts):
    name = f"run/{round_:06d}/sample/{rollouts[0]:05d}-{rollouts[-1]:05d}"
    task = make_task(
        SampleTask, id=name, run="run", round=round_, output="o", timeout_s=60.0, seed=1, policies=(),
        environment=EnvTask(name="toy/signal"), team=Team(groups=(0, 0)),
        rollouts=rollouts, num_envs=1, rollout_length=5,
    )  # fmt: skip
    lane.invoke(Attempt("actor", task))


def served(lane, *seconds):
    """Serve the waiting tasks in the order of the lane, and return the names."""
    names = []
    for took_s in seconds:
        pending = lane.pop(lane.waiting.first()[0])
        lane.measured(pending, took_s, 1.0)
        names.append(pending.work)
    return names


def test_rollouts_are_sampled_in_order_despite_earlier_times(lane):
    """The first rollouts of a round are learned from first. A rollout of the next round is different."""
    names = [f"sample/{number:05d}-{number:05d}" for number in range(3)]
    for round_ in range(2):
        for number in range(3):
            sample(lane, round_, (number,))
        assert served(lane, 1.0, 5.0, 3.0) == names


def test_task_with_most_rollouts_is_longest(lane):
    sample(lane, 0, (0,))
    served(lane, 2.0)
    sample(lane, 1, (0, 1))
    sample(lane, 1, (2, 3, 4))
    expected = [task.expected_s for task in lane.waiting.first()]
    assert expected == [6.0, 4.0]


def test_gpu_learner_takes_one_pool_gpu(tmp_path):
    lane = lane_of(Capacity(4, 4.0, others={GPUS: 1.0}), tmp_path)
    learn(lane, "cuda")
    lane.expect("learn", 0.5)
    assert lane.pop(lane.waiting.first()[0]).task.need == {SLOTS: 1.0, CORES: 0.5, GPUS: 1.0}


@pytest.mark.parametrize("capacity", [Capacity(4, 4.0, others={GPUS: 1.0}), Capacity(4, 4.0)])
def test_remote_computation_takes_no_gpu(capacity, tmp_path):
    lane = lane_of(capacity, tmp_path)
    learn(lane, "cpu" if capacity.others else "cuda")
    sample(lane, 0, (0,))
    assert [task.need for task in lane.waiting.first()] == 2 * [{SLOTS: 1.0, CORES: 1.0}]
