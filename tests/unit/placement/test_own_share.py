"""Durations that Lambda measured on a function's own share of a vCPU: a forecast does not stretch them again."""

import math

import pytest
from driver import part_of_run
from simulated import World, answered, make_plan, on_lambda

from marless.coordinator.core.planning import next_placement
from marless.coordinator.placement import planner
from marless.functions.function_specs import NAMES
from marless.functions.messages.actor import SampleTask
from marless.functions.messages.learner import LearnTask, WholeTask

MB, GB_SECOND = 512, 0.0000133334
SIZES = [f"functions.{name}.memory_mb={MB}" for name in NAMES]
AUTO = ["placement.rule=auto", "actors.rollouts=4", "stop.rounds=12", "evaluation.every=50", *SIZES]


def core_ms(request):
    """Milliseconds on a whole core: 20 for a rollout, 30 for learning from it, and 2 for every call."""
    match request:
        case SampleTask():
            return 2 + 20 * len(request.sampling.rollouts)
        case LearnTask():
            return 2 + 30 * len(request.rollouts)
        case WholeTask():
            return request.rounds * (4 + 50 * len(request.sampling.rollouts))
    return 5.0


@pytest.mark.parametrize("by_lambda", [True, False], ids=["on its share", "on a whole core"])
def test_round_forecast_is_bill_of_its_tasks(by_lambda):
    # 512 MB buy 0.289 of a vCPU, so the same work takes 3.455 times as long.
    stretch, billed, forecasts = 1769 / MB, {}, {}

    def script(function, request):
        ms = core_ms(request)
        billed[request.address.round] = billed.get(request.address.round, 0) + math.ceil(ms * stretch)
        return [answered(function, request, duration_ms=ms * stretch if by_lambda else ms)]

    plan = on_lambda(make_plan(*AUTO), cpu_scaling=not by_lambda)

    def look(state):
        if part_of_run(state) == "sample" and state.round not in forecasts and 2 <= state.round < 12:
            terms, layout = next_placement.terms(plan, state), next_placement.layout(plan, state)
            expected = planner.forecast(state.placement, layout, state.timings, terms)
            forecasts[state.round] = expected.compute * state.placement.rounds_per_task

    World(plan, script).finish(after=look)
    assert forecasts
    for round_, dollars in forecasts.items():
        assert dollars == pytest.approx(billed[round_] * MB / 1024 / 1000 * GB_SECOND, rel=0.02), round_
