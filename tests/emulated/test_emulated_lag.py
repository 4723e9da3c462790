"""Runs in the emulated account that learn from earlier rounds: the same bytes as a local run, whatever is lost."""

import pytest
from emulated_runs import SOON, detach, same, summary

LAG = ("pipeline.lag=2", "actors.rollouts=2", "evaluation.every=1", "stop.rounds=4")


@pytest.mark.conformance
def test_a_driven_run_has_the_weights_of_a_local_one(place, marless, expected):
    said = marless.train("lag-driven", *LAG, "placement.rule=split", "--backend", "emulated")
    assert said.code == 0, said.err
    same(summary(place.home, "lag-driven"), expected(marless, *LAG))


def test_a_detached_run_comes_to_the_same_weights_although_an_event_is_lost_and_all_later_ones_are_doubled(
    place, marless, finished, expected
):
    event = {"service": "lambda", "action": "POST", "key": "lag-twice"}
    place.inject({**event, "fault": "swallow", "skip": 6}, {**event, "fault": "twice", "count": 10_000})
    detach(marless, "lag-twice", *LAG, *SOON)
    (found,) = finished("lag-twice", sweeping=True)
    same(found, expected(marless, *LAG))
    struck = [fault["fault"] for fault in place.struck()]
    assert struck.count("swallow") == 1 and struck.count("twice") > 10
