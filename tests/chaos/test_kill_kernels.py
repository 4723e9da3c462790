"""Networks and games of the kernels: the same bytes after twenty kills."""

import pytest
from built_kernels import needs_kernels
from driver import train
from killed_runs import kill_in_turn, same

pytestmark = [pytest.mark.conformance, needs_kernels]

# With rounds enough for all kills: each driver goes through some while it is not stopped.
ROUNDS, KILLS = 60, 20
OPTIONS = (
    "algorithm.engine=native", "algorithm.hidden=[32,64]", "algorithm.epochs=2", "actors.num_envs=4",
    "actors.rollouts=2", "checkpoint_every=4", f"stop.rounds={ROUNDS}", "evaluation.every=12", "evaluation.episodes=2",
    "evaluation.final_episodes=2",
)  # fmt: skip
SETS, FRAGMENTS = "algorithm.network=attention", "actors.rollout_length=50"
ANY_TEAM = (SETS, "sharing.rule=all", "sharing.identity=false")
RUNS = {
    "spread": ("task.name=mpe/simple_spread", SETS, "task.order=relation"),
    "teams": ("task.name=mpe/simple_spread", "task.agents=[2, 3, 4]", *ANY_TEAM),
    "battles": ("task.name=smax/3m", SETS, "task.order=distance", FRAGMENTS),
    "enemies": ("task.name=smax/3m+5m_vs_6m", "task.options.equal_enemies=true", *ANY_TEAM, FRAGMENTS),
    "foraging": ("task.name=lbf/8x8-2p-3f", SETS, "task.order=distance", FRAGMENTS),
    "warehouse": ("task.name=rware/tiny-2ag", FRAGMENTS),
    "kitchen": ("task.name=overcooked/cramped_room", FRAGMENTS),
    "pqn": ("task.name=mpe/simple_spread", "algorithm.name=pqn"),
    "pqn, sets": ("task.name=mpe/simple_spread", "algorithm.name=pqn", SETS),
}


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("placement", ["split", "fused"])
def test_twenty_kills_change_no_byte(tmp_path, draw, run, placement):
    options = (*OPTIONS, *RUNS[run], f"placement.rule={placement}")
    expected = train(tmp_path / "undisturbed", options, workers=2)
    kill_in_turn(tmp_path / "killed", KILLS, ROUNDS, draw, lambda kill: options)
    same(train(tmp_path / "killed", options, workers=2), expected)
