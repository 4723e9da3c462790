"""Rounds that learn from earlier rounds, and episodes longer than rounds: the same bytes after many kills."""

import pytest
from driver import train
from killed_runs import kill_in_turn, same

pytestmark = pytest.mark.conformance

SMALL = (
    "actors.num_envs=4", "actors.rollouts=3", "checkpoint_every=4", "evaluation.every=12", "evaluation.episodes=2",
    "evaluation.final_episodes=2",
)  # fmt: skip
# With rounds enough for all kills: each driver goes through some while it is not stopped.
TASKS = {"pettingzoo:mpe2.simple_spread_v3:parallel_env": 60, "mpe/simple_spread": 400}
PLACEMENTS = ("split", "fused", "packed")


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("placement", ["split", "whole"])
def test_twenty_kills_change_no_byte_of_fragments(tmp_path, draw, task, placement):
    rounds = TASKS[task]
    fragments = ("task.options.max_cycles=500", "actors.rollout_length=50", "placement.chain=1")
    options = (*SMALL, *fragments, f"task.name={task}", f"placement.rule={placement}", f"stop.rounds={rounds}")
    expected = train(tmp_path / "undisturbed", options, workers=2)
    assert [line.round for line in expected.lines if line.episodes] == [*range(10, rounds + 1, 10)]
    kill_in_turn(tmp_path / "killed", 20, rounds, draw, lambda kill: options)
    same(train(tmp_path / "killed", options, workers=2), expected)


def test_fifty_kills_in_three_placements_change_no_byte(tmp_path, draw):
    options = (*SMALL, "pipeline.lag=2", "stop.rounds=400")
    expected = train(tmp_path / "undisturbed", options, workers=2)
    kill_in_turn(tmp_path / "killed", 50, 400, draw, lambda kill: (*options, f"placement.rule={PLACEMENTS[kill % 3]}"))
    same(train(tmp_path / "killed", options, workers=3), expected)
