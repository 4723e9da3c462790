"""`marless export`: its files, the episodes of the run, and mistakes in one line."""

import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from commands import Commands, train_in

from marless.functions import codec
from marless.reports import load_policy
from marless.runs.run_store import RUNS
from marless.runs.stored_run import look


def arrays(folder):
    return dict(np.load(f"exports/{folder}/episodes.npz"))


def test_policies_are_written_with_player_and_replace_nothing(marless, tmp_path):
    marless.train("a")
    said = marless("export", "a", "--to", "safetensors")
    assert (said.code, said.out[-1]) == (0, "exports/a-safetensors")
    written = sorted(path.name for path in (tmp_path / "exports/a-safetensors").iterdir())
    assert written == [
        "README.txt",
        "marless_attention.py",
        "marless_layers.py",
        "marless_spaces",
        "play.py",
        "policies.json",
        "policies.safetensors",
    ]
    document = json.loads((tmp_path / "exports/a-safetensors/policies.json").read_text())
    assert (document["run"], document["round"], list(document["agents"])) == ("a", 4, ["agent_0", "agent_1"])
    again = marless("export", "a", "--to", "safetensors")
    assert again.code == 2
    assert again.err == ["marless: exports/a-safetensors exists already; delete it, or choose another `out`"]
    best = marless("export", "a", "--to", "safetensors", "--best", "--out", "best")
    assert "policies of 2 agents, of the best evaluation; try: python best/play.py" in best.out
    assert (best.code, json.loads((tmp_path / "best/policies.json").read_text())["round"]) == (0, "best")


def test_greedy_episodes_are_of_policy_and_repeat(marless):
    marless.train("a", "task.options.masked=true")
    assert marless("export", "a", "--to", "npz", "--episodes", "70", "--greedy").code == 0
    assert marless("export", "a", "--to", "npz", "--episodes", "70", "--greedy", "--out", "exports/again").code == 0
    data, again = arrays("a-npz"), arrays("again")
    assert all((data[name] == again[name]).all() for name in data)
    starts, team = data["episode_starts"], load_policy("runs/a")
    assert len(starts) == 71
    assert (np.diff(starts) >= 1).all() and (np.diff(starts) <= 5).all()  # the horizon
    ends = starts[1:] - 1
    for agent in ("agent_0", "agent_1"):
        seen, actions = data[f"{agent}/observations"], data[f"{agent}/actions"]
        expected = team.act({agent: seen}, {agent: data[f"{agent}/masks"]})[agent]
        np.testing.assert_array_equal(actions, expected)
        over = data[f"{agent}/terminations"] | data[f"{agent}/truncations"]
        assert np.flatnonzero(over).tolist() == ends.tolist()
    # Both answers are rewarded by the share that was right.
    right = [data[f"{a}/actions"] == data[f"{a}/observations"].argmax(1) for a in ("agent_0", "agent_1")]
    np.testing.assert_allclose(data["agent_0/rewards"], np.mean(right, axis=0))
    assert data["final/state"].shape == (70, data["state"].shape[1])


def test_departed_agent_is_not_alive_after_termination(marless):
    marless.train("a", "task.options.elimination=true", "task.agents=3")
    assert marless("export", "a", "--to", "npz", "--episodes", "40").code == 0
    data = arrays("a-npz")
    for start, end in itertools.pairwise(data["episode_starts"]):
        for agent in ("agent_0", "agent_1", "agent_2"):
            alive, over = (data[f"{agent}/{name}"][start:end] for name in ("alive", "terminations"))
            # Each agent terminates in its last living step, or never.
            left = int(alive.sum())
            assert alive[:left].all()
            assert np.flatnonzero(over).tolist() in ([], [left - 1])
            assert over.any() or left == end - start
            assert not data[f"{agent}/rewards"][start:end][left:].any()
            assert data[f"{agent}/truncations"][end - 1] == (not over.any())
    assert any(not data[f"agent_{i}/alive"].all() for i in range(3))


@pytest.mark.packages
def test_parquet_has_the_numbers_of_npz(marless):
    parquet = pytest.importorskip("pyarrow.parquet")
    marless.train("a")
    for format_ in ("npz", "parquet"):
        assert marless("export", "a", "--to", format_, "--episodes", "9").code == 0
    data, steps = arrays("a-npz"), parquet.read_table("exports/a-parquet/steps.parquet")
    assert steps["agent_1/observations"].to_pylist() == data["agent_1/observations"].tolist()
    assert steps["agent_1/actions"].to_pylist() == data["agent_1/actions"].tolist()
    assert np.flatnonzero(np.array(steps["step"]) == 0).tolist() == data["episode_starts"][:-1].tolist()
    final = parquet.read_table("exports/a-parquet/final.parquet")
    assert final["length"].to_pylist() == np.diff(data["episode_starts"]).tolist()


def test_stored_rounds_are_written_from_replay_buffer(marless):
    marless.train("a", "algorithm.name=iql", "algorithm.buffer_size=130", "actors.rollout_length=7")
    last = marless("export", "a", "--to", "npz", "--rounds", "3-4")
    assert (last.code, last.err) == (0, []) and last.out[-2].endswith("as the run stored them")
    data = arrays("a-npz")
    assert len(data["state"]) % (8 * 7) == 0  # steps of 8 environments, in whole rollouts
    right = [data[f"{a}/actions"] == data[f"{a}/observations"].argmax(1) for a in ("agent_0", "agent_1")]
    np.testing.assert_allclose(data["agent_0/rewards"], np.mean(right, axis=0))
    ends = data["episode_starts"][1:] - 1
    over = data["agent_0/terminations"] | data["agent_0/truncations"]
    assert np.flatnonzero(over).tolist() == ends.tolist()
    # Rounds 1 and 2 have left the buffer, so the run is played again. The result equals the stored rounds.
    again = marless("export", "a", "--to", "npz", "--rounds", "1-4", "--workers", "1", "--out", "exports/again")
    assert again.code == 0 and again.out[-2].endswith("played again")
    assert again.err[0].startswith(
        "rounds 1 to 4 of a are not stored: playing its first 4 rounds again, which took it "
    )
    replayed = arrays("again")
    is_stored = replayed["round"] >= 3
    for name in data.keys() - {"episode_starts", "round"}:
        among = is_stored[replayed["episode_starts"][:-1]] if name.startswith("final/") else is_stored
        np.testing.assert_array_equal(replayed[name][among], data[name], err_msg=name)
    assert origins("again")[2:] == origins("a-npz")
    assert [one["round"] for one in origins("again")] == [0, 1, 2, 3]
    with look(RUNS.find("a")) as run:
        for one in origins("a-npz"):
            assert {one["policies"]} == headers(run, one["round"])


def origins(folder):
    return json.loads(Path(f"exports/{folder}/dataset.json").read_text())["origins"]


def headers(run, round_):
    refs = next(past.trajectories for past in run.state.past if past.round == round_)
    of_objects = [codec.header(run.storage.get(ref.key), ref.key).origins for ref in refs]
    assert all(origin.round == round_ for of_object in of_objects for origin in of_object)
    return {origin.policies for of_object in of_objects for origin in of_object}


@pytest.mark.packages
def test_every_agent_has_table_with_origin_of_rows(trained, tmp_path, shell, capfd):
    parquet = pytest.importorskip("pyarrow.parquet")
    shell.cd(tmp_path)
    marless = Commands(capfd)
    for format_ in ("parquet", "npz"):
        assert marless("export", f"{trained}/runs/a", "--to", format_, "--rounds", "2-3").code == 0
    data, table = arrays("a-npz"), parquet.read_table("exports/a-parquet/agent_1.parquet").to_pydict()
    assert list(table) == [
        "agent", "version", "policies", "round", "rollout", "environment", "episode", "step", "observation", "action",
        "log_probability", "reward", "terminated", "truncated", "alive", "state",
    ]  # fmt: skip
    assert set(table["agent"]) == {"agent_1"}
    assert table["version"] == [round_ - 1 for round_ in table["round"]] == data["agent_1/version"].tolist()
    hashes = {one["round"]: one["policies"] for one in origins("a-parquet")}
    assert table["policies"] == [hashes[version] for version in table["version"]]
    assert table["step"] == [
        step for start, end in itertools.pairwise(data["episode_starts"]) for step in range(end - start)
    ]
    for column, name in {"observation": "observations", "action": "actions", "reward": "rewards"}.items():
        assert table[column] == data[f"agent_1/{name}"].tolist()
    assert parquet.read_table("exports/a-parquet/final.parquet").num_rows == len(data["episode_starts"]) - 1


def test_the_first_round_that_plays_otherwise_is_refused(trained, tmp_path, shell, capfd):
    shell.cd(tmp_path)
    shutil.copytree(trained / "runs/a", "runs/a")
    metrics = Path("runs/a/metrics.jsonl")
    lines = metrics.read_text().splitlines()
    line = json.loads(lines[1])
    lines[1] = json.dumps({**line, "return_mean": line["return_mean"] + 1e-12})
    metrics.write_text("\n".join(lines) + "\n")
    said = Commands(capfd)("export", "a", "--to", "npz", "--rounds", "4")
    assert (said.code, said.out) == (2, [])
    assert "a played again is another run from round 2 on, its return_mean differs: " in said.err[-1]
    metrics.write_text(lines[0] + "\n")
    said = Commands(capfd)("export", "a", "--to", "npz", "--rounds", "4")
    assert (said.code, len(said.err)) == (2, 1)
    assert "metrics.jsonl has no round 2, with which the run played again is compared" in said.err[0]
    assert not Path("exports").exists()


def test_rounds_with_damaged_objects_are_refused(marless, tmp_path):
    marless.train("a", "algorithm.name=iql")
    path = next((tmp_path / "runs/a/objects/rounds/000000/sample").iterdir())
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    said = marless("export", "a", "--to", "npz", "--rounds", "1")
    assert (said.code, len(said.err)) == (2, 1)
    assert f"{path.name} is not the object the run recorded (its hash differs)" in said.err[0]


WRONG = {
    "an unknown format": (["--to", "gguf"], "invalid choice: 'gguf'"),
    "episodes of how many": (["--to", "npz"], "say how many to play (episodes), or of which rounds"),
    "policies by episodes": (["--to", "safetensors", "--episodes", "3"], "leave episodes"),
    "rounds backwards": (["--to", "npz", "--rounds", "4-2"], "'4-2' is not rounds such as 390-400"),
    "rounds to come": (["--to", "npz", "--rounds", "2-5"], "a has finished 4 rounds; rounds 2-5 are not among them"),
    "a folder that is a file": (["--to", "safetensors", "--out", "file"], "file exists already"),
    "a folder below a file": (["--to", "safetensors", "--out", "file/x"], "file/x cannot be written"),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    train_in(folder, "a")
    (folder / "file").write_text("kept")
    return folder


@pytest.mark.parametrize(("arguments", "message"), WRONG.values(), ids=WRONG)
def test_mistake_is_one_line_and_writes_nothing(trained, shell, capfd, arguments, message):
    shell.cd(trained)
    said = Commands(capfd)("export", "a", *arguments)
    assert (said.code, len(said.err)) == (2, 1)
    assert message in said.err[0]
    assert sorted(path.name for path in trained.iterdir()) == ["file", "runs"]
    assert (trained / "file").read_text() == "kept"


def test_a_missing_package_is_named_with_its_extra(trained, shell, capfd):
    shell.cd(trained)
    shell.uninstall("onnx")
    said = Commands(capfd)("export", "a", "--to", "onnx")
    assert (said.code, said.out) == (2, [])
    assert "--to onnx needs packages that are not installed" in said.err[0]
    assert "[export]" in said.err[0]
