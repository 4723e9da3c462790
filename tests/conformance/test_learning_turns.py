"""Games of turns, learned by self-play: the trained policies beat untrained play over all seeds."""

from pathlib import Path

import pytest
from connect_four import random_player, results, win_rate
from training_runs import train, train_seeds

from marless.runs.cross_evaluation import plays
from marless.runs.run_store import RUNS

pytestmark = pytest.mark.conformance

SCRIPTED = Path(__file__).parents[2] / "examples" / "connect_four_scripted.toml"
EXAMPLE = Path(__file__).parents[2] / "examples" / "connect_four.toml"
FEW_EVALUATIONS = ("evaluation.every=100", "evaluation.episodes=64", "evaluation.final_episodes=64")


def test_connect_four_self_play_beats_random_every_seed(tmp_path):
    train_seeds(tmp_path, range(1, 4), str(EXAMPLE), *FEW_EVALUATIONS, at_once=1)
    for seed in range(1, 4):
        rate, half = win_rate(results(tmp_path / f"seed_{seed}" / "runs" / "run", random_player, games=400))
        print(f"seed {seed}: {rate:.3f} ± {half:.3f}")
        assert rate - half > 0.5, seed


def test_leduc_self_play_wins_chips_as_either_player(tmp_path, shell):
    pytest.importorskip("rlcard")
    game = ("task.name=pettingzoo:pettingzoo.classic.leduc_holdem_v4:env", "task.options.horizon=12")
    train(tmp_path, str(EXAMPLE), *game, "seed=1", *FEW_EVALUATIONS)
    shell.cd(tmp_path)
    found = plays(RUNS.find("run"), ["random"], episodes=2000).plays
    print([(play.side, play.returns.mean, play.returns.ci95) for play in found])
    assert [play.side for play in found] == ["player_0", "player_1"]
    assert all(play.returns.ci95[0] > 0 for play in found)


@pytest.mark.parametrize("fixed", [0, 1])
def test_connect_four_player_beats_script_and_random(tmp_path, shell, fixed):
    train(tmp_path, str(SCRIPTED), f"opponents.side={fixed}", "seed=1", *FEW_EVALUATIONS)
    shell.cd(tmp_path)
    found = plays(RUNS.find("run"), ["scripted", "random"], episodes=1600).plays
    print([(play.side, play.against, play.returns.mean, play.returns.ci95) for play in found])
    assert [(play.side, play.against) for play in found] == [
        (f"player_{1 - fixed}", "scripted"),
        (f"player_{1 - fixed}", "random"),
    ]
    assert all(play.returns.ci95[0] > 0 for play in found)
