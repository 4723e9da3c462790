"""Runs that learn from a dataset: equal bytes in each placement, their reads, and mistakes in one line."""

import json
import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest
from commands import SMALL as SIGNAL
from driver import train as drive

from marless.backends.registry import backend
from marless.coordinator.config.loading import load
from marless.estimation.estimate import estimate, record_briefly
from marless.estimation.targets import Target
from marless.functions.encoding import from_json
from marless.functions.environments.base import EnvSpec
from marless.infra.local.file_storage import FileStorage
from marless.reports.journal import read
from marless.runs.inputs.npz import opened_numbers
from marless.runs.inputs.recorded_episodes import read_episodes
from marless.runs.inputs.stored_inputs import store_inputs

DYING = ("task.options.masked=true", "task.options.elimination=true", "task.agents=3", "task.options.mixed=true")
REPLAYED = ("algorithm.updates_per_round=2", "algorithm.batch_size=16", "algorithm.buffer_size=200")
METHODS = {
    "bc": ("algorithm.name=bc", "algorithm.num_minibatches=2"),
    "iql": ("algorithm.name=iql", "algorithm.cql_alpha=1.0", *REPLAYED),
    "qmix": ("algorithm.name=qmix", "algorithm.cql_alpha=1.0", *REPLAYED, "actors.rollouts=2"),
}


class Described(msgspec.Struct):
    """The part of dataset.json that tells how to read the arrays."""

    spec: EnvSpec


@pytest.fixture
def dataset(marless):
    assert marless.train("a", *DYING).code == 0
    assert marless("export", "a", "--to", "npz", "--episodes", "50", "--out", "data").code == 0
    return Path("data")


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_the_placement_and_a_kill_change_nothing(dataset, tmp_path, method):
    settings = [*SIGNAL, *DYING, *METHODS[method], f"offline.dataset={dataset}", "stop.rounds=5", "placement.chain=2"]

    def weights(name, *more, **how):
        folder = tmp_path / name
        inputs = store_inputs(load(None, settings), "run", FileStorage(folder / "objects"))
        trained = drive(folder, [*settings, *more], inputs=inputs, **how)
        if "leave" in how:
            trained = drive(folder, [*settings, *more], inputs=inputs)
        assert trained.state.status == "finished"
        return trained.sha256, [line.env_steps for line in trained.lines]

    plain = weights("plain")
    assert plain[0]
    assert weights("split", "placement.rule=split", workers=2) == plain
    assert weights("whole", "placement.rule=whole") == plain
    assert weights("killed", leave=lambda state: state.round == 3) == plain
    assert weights("other", "seed=9")[0] != plain[0]


@pytest.mark.parametrize("workers", [1, 2])
def test_each_actor_reads_dataset_once_for_any_workers(dataset, tmp_path, workers):
    own = ("algorithm.name=bc", "algorithm.num_minibatches=2", "actors.rollouts=2", "placement.rule=packed")
    settings = [*SIGNAL, *DYING, *own, f"offline.dataset={dataset}", "stop.rounds=5"]
    inputs = store_inputs(load(None, settings), "run", FileStorage(tmp_path / "run" / "objects"))
    state = drive(tmp_path / "run", settings, inputs=inputs, workers=workers).state
    # Two actors begin with the dataset. Each learner reads two trajectories and its state in two objects. Two
    # evaluations during training, the final evaluation and the evaluation of the best policies read one object each.
    assert state.meter.gets == 2 + 5 * (2 + 2) + 4
    config, target = load(None, settings), Target(backend("local"), workers)
    estimated = estimate(config, record_briefly(config, 1), target)
    assert (estimated.meter.gets, estimated.meter.puts) == (state.meter.gets, state.meter.puts)


def test_sampled_return_is_of_recorded_episodes(dataset, marless):
    data = np.load(dataset / "episodes.npz")
    data = {name: data[name] for name in data.files}
    starts = data["episode_starts"]
    for agent in range(3):
        data[f"agent_{agent}/rewards"][:] = 0
    data["agent_0/rewards"][starts[:-1]] = 3  # every episode returns 3, in its first step
    for agent in range(3):
        data[f"agent_{agent}/rewards"][~data[f"agent_{agent}/alive"]] = 50
    np.savez(dataset / "episodes.npz", **data)
    assert marless.train("b", *DYING, "algorithm.name=bc", "offline.dataset=data").code == 0
    sampled = [line.return_mean for line in read(Path("runs/b/metrics.jsonl"))]
    assert len(sampled) == 4 and all(value == pytest.approx(3) for value in sampled)


def test_numbers_of_departed_agent_mean_nothing(dataset):
    spec = from_json((dataset / "dataset.json").read_bytes(), Described).spec
    with opened_numbers(dataset / "episodes.npz") as numbers:
        before = read_episodes(numbers, spec)
    data = {name: array.copy() for name, array in np.load(dataset / "episodes.npz").items()}
    ends = data["episode_starts"][1:] - 1
    for name in spec.agents:
        gone, terminated = ~data[f"{name}/alive"], data[f"{name}/terminations"]
        left = gone[ends] | terminated[ends]
        assert gone.any() and left.any()
        for at, rows in (("", gone), ("final/", left)):
            data[f"{at}{name}/observations"][rows] = np.nan
            data[f"{at}{name}/masks"] = np.where(rows[:, None], 7, data[f"{at}{name}/masks"])
        data[f"{name}/rewards"][gone] = np.inf
        data[f"{name}/actions"][gone] = -9
        data[f"{name}/terminations"] = terminated | gone
    np.savez(dataset / "episodes.npz", **data)
    with opened_numbers(dataset / "episodes.npz") as numbers:
        after = read_episodes(numbers, spec)
    for name, array in before.items():
        if not name.endswith("/actions"):
            np.testing.assert_array_equal(after[name], array, err_msg=name)
            continue
        alive = before[name.replace("actions", "alive")]
        np.testing.assert_array_equal(after[name], np.where(alive, array, 0))


def test_a_scripted_team_is_cloned(marless):
    """The scripted agents answer every signal right, so that the best return is 2 agents times 5 steps."""
    assert marless.train("a").code == 0
    assert marless("export", "a", "--to", "npz", "--episodes", "400", "--out", "data").code == 0
    data = np.load("data/episodes.npz")
    data = {name: data[name] for name in data.files}
    for agent in ("agent_0", "agent_1"):
        data[f"{agent}/actions"] = data[f"{agent}/observations"].argmax(1)
    np.savez("data/episodes.npz", **data)
    said = marless.train(
        "b", "algorithm.name=bc", "offline.dataset=data", "stop.rounds=40", "actors.num_envs=32", "algorithm.lr=0.02"
    )
    assert said.code == 0
    assert json.loads(Path("runs/b/summary.json").read_text())["final_return"]["mean"] == pytest.approx(10)


def test_mistakes_are_one_line(dataset, marless):
    bc = ("algorithm.name=bc", "offline.dataset=data")

    def refused(*settings):
        said = marless.train("b", *settings)
        assert said.code == 2 and len(said.err) == 1 and not Path("runs/b").exists()
        return said.err[0]

    assert "mappo learns from its own newest policies alone; use one of iql" in refused(*DYING, "offline.dataset=data")
    assert "vdn learns no probabilities" in refused(*DYING, "algorithm.name=vdn", "evaluation.greedy=false")
    assert "bc imitates recorded episodes; name their folder: offline.dataset" in refused(*DYING, "algorithm.name=bc")
    assert "it was recorded on another task (toy/signal, or other options)" in refused(*bc)
    assert "nowhere/dataset.json cannot be read" in refused(*DYING, "algorithm.name=bc", "offline.dataset=nowhere")
    data = np.load("data/episodes.npz")
    data = {name: data[name] for name in data.files}

    def with_data(without="", **changed):
        changed = {name.replace("__", "/"): array for name, array in changed.items()}
        np.savez("data/episodes.npz", **{k: v for k, v in {**data, **changed}.items() if k != without})
        return refused(*DYING, *bc)

    assert "data: it has no array agent_1/masks" in with_data(without="agent_1/masks")
    assert "it has no array episode_starts" in with_data(without="episode_starts")
    assert "agent_0/rewards is of shape (3,), not" in with_data(agent_0__rewards=np.zeros(3))
    assert "agent_0/rewards holds what is not a number" in with_data(agent_0__rewards=data["agent_0/rewards"] * np.nan)
    assert "agent_0/actions has values beyond 0 to" in with_data(agent_0__actions=data["agent_0/actions"] + 9)
    assert "episode_starts does not rise" in with_data(episode_starts=np.r_[0, 0, data["episode_starts"][2:]])
    Path("data/episodes.npz").write_text("no numbers")
    assert "episodes.npz is no file of numpy arrays" in refused(*DYING, *bc)
    Path("data/dataset.json").write_text("{}")
    assert "dataset.json does not describe a dataset" in refused(*DYING, *bc)
    shutil.rmtree("data")


def test_dataset_that_mismatches_its_task_is_refused(dataset, marless):
    document = json.loads((dataset / "dataset.json").read_text())
    document["spec"]["horizon"] -= 1
    (dataset / "dataset.json").write_text(json.dumps(document))
    said = marless.train("c", *DYING, "algorithm.name=bc", "offline.dataset=data")
    assert said.code == 2 and "its dataset.json describes other agents, sizes or horizons than the task" in said.err[-1]
