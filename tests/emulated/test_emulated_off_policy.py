"""Runs in the emulated account that learn from earlier rounds: the same bytes as a local run, for any lost events."""

import pytest
from emulated_runs import QUICK, SOON, detach, same, summary

# A replay buffer of two rounds out of three: the last round learns from part of the rollouts.
WINDOW = (
    "sharing.rule=none",
    "algorithm.updates_per_round=2",
    "algorithm.batch_size=8",
    "algorithm.buffer_size=80",
    "stop.rounds=3",
)
NUMBERS = (
    "task.name=mpe/simple_adversary", "task.options.continuous_actions=true", "algorithm.noise_start=0.5",
    "algorithm.buffer_size=400",
)  # fmt: skip
METHODS = {
    "vdn": (*WINDOW, "algorithm.name=vdn", "actors.rollouts=2"),
    "qmix by priority": (*WINDOW, "algorithm.name=qmix", "algorithm.priority=0.7"),
    "maddpg": (*WINDOW, "algorithm.name=maddpg"),
    "iddpg in numbers": (*WINDOW, *NUMBERS, "algorithm.name=iddpg"),
    "lag": ("pipeline.lag=2", "actors.rollouts=2", "evaluation.every=1", "stop.rounds=4"),
}
BY_PRIORITY = METHODS["qmix by priority"]
DRIVEN = {
    "vdn": ("placement.rule=fused",),
    "qmix by priority": ("placement.rule=packed",),
    "maddpg": ("placement.rule=split",),
    "iddpg in numbers": ("placement.rule=whole", "placement.chain=2"),
    "lag": ("placement.rule=split",),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("method", METHODS)
def test_driven_run_of_method_has_local_weights(place, marless, expected, method):
    name = f"driven-{method.split()[0]}"
    said = marless.train(name, *METHODS[method], *DRIVEN[method], "--backend", "emulated")
    assert said.code == 0, said.err
    same(summary(place.home, name), expected(marless, *METHODS[method]))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["maddpg", "lag"])
def test_lost_and_doubled_events_change_no_weight(place, marless, finished, expected, method):
    event = {"service": "lambda", "action": "POST", "key": f"{method}-twice"}
    place.inject({**event, "fault": "swallow", "skip": 6}, {**event, "fault": "twice", "count": 10_000})
    detach(marless, f"{method}-twice", *METHODS[method], *SOON)
    (found,) = finished(f"{method}-twice", sweeping=True)
    same(found, expected(marless, *METHODS[method]))
    struck = [fault["fault"] for fault in place.struck()]
    assert struck.count("swallow") == 1 and struck.count("twice") > 10


def test_function_killed_between_updates_repeats_no_learning(place, marless, finished, expected):
    """The function is killed after the first write of a round's second update."""
    second = "replayed-killed/rounds/000001/learn/00001"
    place.inject({"service": "s3", "action": "PUT", "functions": True, "key": second, "fault": "kill"})
    detach(marless, "replayed-killed", *BY_PRIORITY, *QUICK, "placement.rule=split")
    (found,) = finished("replayed-killed", sweeping=True)
    same(found, expected(marless, *BY_PRIORITY))
    assert [fault["fault"] for fault in place.struck()] == ["kill"]
