"""What learners read of the state where rounds learn from data of earlier rounds."""

import pytest
from simulated import World, make_plan

from marless.functions.messages.learner import LearnTask


@pytest.mark.parametrize(
    ("lag", "correction", "reads"),
    [(0, "vtrace", False), (2, "vtrace", True), (2, "decoupled", False), (2, "none", False)],
)
def test_advantages_need_policies_only_for_v_trace_of_old_data(lag, correction, reads):
    settings = (f"pipeline.lag={lag}", f"algorithm.correction={correction}", "placement.rule=split", "stop.rounds=4")
    world = World(make_plan(*settings, "algorithm.name=ippo"))
    world.finish_over_kills(set(), most_steps=2000)
    tasks = [request for request in world.invoker.asked if isinstance(request, LearnTask)]
    by_stage = {stage: [task for task in tasks if task.stages == (stage,)] for stage in ("postprocess", "policy")}
    for stage, expected in (("postprocess", reads), ("policy", True)):
        assert by_stage[stage]
        for task in by_stage[stage]:
            assert any(ref.key.endswith("policies.safetensors") for ref in task.state) == expected, (stage, task.state)
