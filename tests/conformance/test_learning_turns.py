"""Games of turns, learned by self-play: what the policies win against play that did not learn, over all seeds."""

from pathlib import Path

import pytest
from connect_four import random_player, results, win_rate
from training_runs import train_seeds

pytestmark = pytest.mark.conformance

EXAMPLE = Path(__file__).parents[2] / "examples" / "connect_four.toml"
FEW_EVALUATIONS = ("evaluation.every=100", "evaluation.episodes=64", "evaluation.final_episodes=64")


def test_connect_four_against_itself_beats_random_play_for_every_seed(tmp_path):
    train_seeds(tmp_path, range(1, 4), str(EXAMPLE), *FEW_EVALUATIONS, at_once=1)
    for seed in range(1, 4):
        rate, half = win_rate(results(tmp_path / f"seed_{seed}" / "runs" / "run", random_player, games=400))
        print(f"seed {seed}: {rate:.3f} ± {half:.3f}")
        assert rate - half > 0.5, seed
