"""Episodes of 500 steps, trained in rounds of 50 steps: the same bytes after twenty kills."""

import os
import random

import pytest
from driver import train
from killed_runs import kill_in_turn, same

pytestmark = pytest.mark.conformance

# Every run draws new moments; set this to repeat those of a failure.
SEED = int(os.environ.get("CHAOS_SEED", random.SystemRandom().randrange(2**32)))
OPTIONS = (
    "task.options.max_cycles=500", "actors.rollout_length=50", "actors.num_envs=4", "actors.rollouts=3",
    "checkpoint_every=4", "placement.chain=1", "evaluation.every=12", "evaluation.episodes=2",
    "evaluation.final_episodes=2",
)  # fmt: skip
# With rounds enough for all kills: each driver goes through some while it is not stopped.
TASKS = {"pettingzoo:mpe2.simple_spread_v3:parallel_env": 60, "mpe/simple_spread": 400}
KILLS = 20


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("placement", ["split", "whole"])
def test_twenty_kills_change_no_byte(tmp_path, task, placement):
    print(f"CHAOS_SEED={SEED}")
    draw = random.Random(SEED)
    rounds = TASKS[task]
    options = (*OPTIONS, f"task.name={task}", f"placement.rule={placement}", f"stop.rounds={rounds}")
    expected = train(tmp_path / "undisturbed", options, workers=2)
    assert [line.round for line in expected.lines if line.episodes] == [*range(10, rounds + 1, 10)]

    folder = tmp_path / "killed"
    kill_in_turn(folder, KILLS, rounds, draw, lambda kill: options)
    same(train(folder, options, workers=2), expected)
