"""Example configurations with resources are trained unchanged, except for smaller sizes."""

import hashlib
from pathlib import Path

import pytest
from commands import Commands
from installed_commands import STOCKFISH, needs_bubblewrap, needs_stockfish
from loopback import serving

from examples.resources.unreliable_service import Service

EXAMPLES = Path(__file__).parents[2] / "examples"
TINY = (
    "stop.rounds=1",
    "actors.num_envs=2",
    "actors.rollouts=1",
    "evaluation.every=1",
    "evaluation.episodes=2",
    "evaluation.final_episodes=2",
    "algorithm.hidden=[8]",
)


@pytest.fixture
def command(shell, tmp_path, capfd):
    shell.cd(tmp_path)
    return Commands(capfd)


@pytest.fixture
def trained(command):
    def train(name, *settings):
        said = command("train", str(EXAMPLES / f"{name}.toml"), *TINY, *settings, "--backend", "inline")
        assert said.code == 0, said.err
        return hashlib.sha256(Path("runs/latest/policies.safetensors").read_bytes()).hexdigest()

    return train


@needs_bubblewrap
def test_retried_service_teaches_like_sandboxed_judge(trained):
    with serving(Service(per_s=10**6, hang_s=5, every=1)) as service:
        address = f"http://127.0.0.1:{service.server_address[1]}"
        served = trained("service", f"resources.judge.http={address}", "resources.judge.timeout_s=2")
    assert served == trained("judge")
    assert service.troubles.total() >= 4


@pytest.mark.slow
def test_heaters_ask_the_solver(trained):
    few = "task.options.plates=2"
    assert trained("solver", few) == trained("solver", few, "resources.solver.slots=1", "resources.solver.cores=[1,1]")


@needs_stockfish
@pytest.mark.parametrize("name", ["stockfish", "stockfish_opponent"])
def test_stockfish_judges_a_game_and_plays_one(trained, name):
    pytest.importorskip("chess", reason="chess is not installed: pip install 'pettingzoo[classic]'")
    engine = f"resources.engine.command={STOCKFISH}"
    assert trained(name, engine) == trained(name, engine, "resources.engine.keep=false")


def test_a_reward_model_pays_a_team(trained, command):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'marless[networks]'")
    assert command("train", *TINY, "--run", "teacher", "--backend", "inline").code == 0
    assert command("export", "teacher", "--to", "onnx").code == 0
    assert trained("reward_model") != trained("reward_model", "seed=2")
