"""`marless export`: what it writes, that episodes are the run's, and that mistakes are one line."""

import itertools
import json
from contextlib import chdir

import numpy as np
import pytest
from commands import SMALL, Commands

from marless.cli.app import main
from marless.reports import load_policy


@pytest.fixture
def marless(tmp_path, shell, capfd):
    shell.cd(tmp_path)
    return Commands(capfd)


def arrays(folder):
    return dict(np.load(f"exports/{folder}/episodes.npz"))


def test_policies_are_written_with_a_player_and_nothing_is_replaced(marless, tmp_path):
    marless.train("a")
    said = marless("export", "a", "--to", "safetensors")
    assert (said.code, said.out[-1]) == (0, "exports/a-safetensors")
    written = sorted(path.name for path in (tmp_path / "exports/a-safetensors").iterdir())
    assert written == [
        "README.txt",
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
    assert again.err == ["marless: exports/a-safetensors exists already; delete it, or name another folder with -o"]
    best = marless("export", "a", "--to", "safetensors", "--best", "-o", "best")
    assert "policies of 2 agents, of the best evaluation; try: python best/play.py" in best.out
    assert (best.code, json.loads((tmp_path / "best/policies.json").read_text())["round"]) == (0, "best")


def test_greedy_episodes_are_those_of_the_policy_and_repeat(marless):
    marless.train("a", "task.options.masked=true")
    assert marless("export", "a", "--to", "npz", "--episodes", "70", "--greedy").code == 0
    assert marless("export", "a", "--to", "npz", "--episodes", "70", "--greedy", "-o", "exports/again").code == 0
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


def test_an_agent_that_leaves_is_not_alive_after_its_termination(marless):
    marless.train("a", "task.options.elimination=true", "task.agents=3")
    assert marless("export", "a", "--to", "npz", "--episodes", "40").code == 0
    data = arrays("a-npz")
    for start, end in itertools.pairwise(data["episode_starts"]):
        for agent in ("agent_0", "agent_1", "agent_2"):
            alive, over = (data[f"{agent}/{name}"][start:end] for name in ("alive", "terminations"))
            # Terminated in the last step in which it was alive, or never.
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


def test_stored_rounds_are_written_where_a_replay_buffer_keeps_them(marless):
    marless.train("a", "algorithm.name=iql", "algorithm.buffer_size=80", "actors.rollout_length=7")
    said = marless("export", "a", "--to", "npz", "--rounds", "1-4")
    assert said.code == 2
    assert "stores rounds" in said.err[0] and "algorithm.buffer_size" in said.err[0]
    last = marless("export", "a", "--to", "npz", "--rounds", "4")
    assert last.code == 0, last.err
    data = arrays("a-npz")
    assert len(data["state"]) % (8 * 7) == 0  # steps of 8 environments, in whole rollouts
    right = [data[f"{a}/actions"] == data[f"{a}/observations"].argmax(1) for a in ("agent_0", "agent_1")]
    np.testing.assert_allclose(data["agent_0/rewards"], np.mean(right, axis=0))
    ends = data["episode_starts"][1:] - 1
    over = data["agent_0/terminations"] | data["agent_0/truncations"]
    assert np.flatnonzero(over).tolist() == ends.tolist()


WRONG = {
    "an unknown format": (["--to", "gguf"], "invalid choice: 'gguf'"),
    "episodes of how many": (["--to", "npz"], "say which: --episodes N to play them, or --rounds A-B"),
    "policies by episodes": (
        ["--to", "safetensors", "--episodes", "3"],
        "leave --episodes",
    ),
    "rounds backwards": (["--to", "npz", "--rounds", "4-2"], "'4-2' is not rounds such as 390-400"),
    "rounds of an on-policy run": (["--to", "npz", "--rounds", "1-2"], "a stores no rounds"),
    "a folder that is a file": (["--to", "safetensors", "-o", "file"], "file exists already"),
    "a folder below a file": (["--to", "safetensors", "-o", "file/x"], "file/x cannot be written"),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a run, and a file that nothing may touch."""
    folder = tmp_path_factory.mktemp("trained")
    with chdir(folder):
        assert main(["train", *SMALL, "--run", "a", "--workers", "1"]) == 0
    (folder / "file").write_text("kept")
    return folder


@pytest.mark.parametrize(("arguments", "message"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_one_line_and_nothing_is_written(trained, shell, capfd, arguments, message):
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
