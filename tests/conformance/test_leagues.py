"""Leagues: the newest policies lose to none of the run's checkpoints, and the ratings rise."""

import json
from pathlib import Path

import pytest
from training_runs import train

from marless.comparison import crossplay_tournament
from marless.runs.run_policies import load_checkpoints, load_team
from marless.runs.run_store import RUNS

pytestmark = pytest.mark.conformance

EXAMPLES = Path(__file__).parents[2] / "examples"
LEAGUE = ("league.rule=prioritised", "league.every=8", "actors.rollouts=4", "actors.num_envs=16")
GAMES = {
    "connect four": (str(EXAMPLES / "connect_four.toml"), "placement.rule=fused"),
    "tag": ("task.name=mpe/simple_tag", "stop.rounds=400"),
}


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("game", GAMES)
def test_a_league_forgets_nothing(tmp_path, shell, game, seed):
    train(tmp_path, *GAMES[game], *LEAGUE, f"seed={seed}")
    shell.cd(tmp_path)
    folder = RUNS.find("run")
    found, checkpoints = load_checkpoints(folder)
    teams = {**checkpoints, "newest": load_team(folder)[1]}
    matrix = crossplay_tournament.play(teams, found.plan.config.task, 160, seed, sampled=True)
    print(game, seed, matrix.ratings, matrix.scores[-1])
    for score, error in zip(matrix.scores[-1], matrix.errors[-1], strict=True):
        assert score + error >= 0.5
    lines = [json.loads(line)["metrics"] for line in (folder.path / "metrics.jsonl").read_text().splitlines()]
    sides = [name for name in lines[-1] if name.startswith("league/elo/")]
    first, last = ([line[name] for name in sides] for line in (lines[len(lines) // 4], lines[-1]))
    print(first, last)
    # How the points are split between the sides depends on the advantage, which is measured to about 25 points.
    assert sum(last) > sum(first) > 0.99 * 1200 * len(sides)
