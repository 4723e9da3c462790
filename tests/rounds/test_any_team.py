"""One policy for several team sizes: the same weights everywhere, and play with sizes that were never trained."""

import json
from pathlib import Path

import pytest

from marless.reports.policy import load_policy
from marless.results import export, replay

ANY_SIZE = ("algorithm.network=attention", "sharing.rule=all", "sharing.identity=false")
SIZES = ("task.agents=2,3", *ANY_SIZE)
SPLIT = ("placement.rule=split", "actors.rollouts=4")


@pytest.mark.parametrize("workers", [2, 4])
def test_workers_change_no_weight_of_multi_size_policy(train, workers):
    assert train(*SIZES, *SPLIT, workers=workers).sha256 == train(*SIZES, *SPLIT).sha256


@pytest.mark.parametrize("algorithm", [["ippo"], ["vdn", "algorithm.updates_per_round=2"], ["pqn"]], ids=" ".join)
def test_episodes_of_several_sizes_continue_next_round(train, algorithm):
    name, *more = algorithm
    parts = (*SIZES, f"algorithm.name={name}", *more, "actors.rollout_length=10", "actors.rollouts=2")
    assert train(*parts, "placement.rule=split").sha256 == train(*parts, "placement.rule=fused").sha256


@pytest.mark.slow
def test_policy_plays_with_untrained_sizes(marless):
    assert marless.train("team", "task.name=mpe/simple_spread", *SIZES, "stop.rounds=1").code == 0
    trained, larger = (
        json.loads(marless("evaluate", "team", "--episodes", "4", *more, "--json").out[0])
        for more in ([], ["--agents", "5"])
    )
    assert {"return_2_agents", "return_3_agents"} == {*trained["env_metrics"]} and len(larger["agents"]) == 5
    assert marless("replay", "team", "--agents", "4", "--episodes", "1", "--out", "four.gif").code == 0
    assert replay("team", "five.gif", 1, agents=5).is_file()
    assert marless("export", "team", "--agents", "4", "--to", "safetensors", "--out", "four").code == 0
    export("team", "safetensors", "five", agents=5)
    assert [len(json.loads(Path(f"{x}/policies.json").read_text())["agents"]) for x in ("four", "five")] == [4, 5]
    assert len(load_policy("runs/team").of_size(6).agents) == 6
