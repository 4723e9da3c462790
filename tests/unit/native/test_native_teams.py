"""The engine of actors is a fact of a run's team, and stays when the team changes."""

import numpy as np
import pytest
from built_kernels import needs_kernels
from msgspec.structs import replace
from task_fields import make_task

from marless.coordinator.config.loading import load
from marless.coordinator.core.opponents import initial_team
from marless.functions.actor.handler import play, play_match
from marless.functions.algorithms import registry
from marless.functions.encoding import to_json
from marless.functions.environments.base import EnvTask
from marless.functions.environments.registry import spec
from marless.functions.messages.actor import Match, SampleTask
from marless.functions.messages.team import Team

TAG = EnvTask(name="mpe/simple_tag", options={"max_cycles": 5})
SPEC = spec(TAG)
NATIVE = Team(groups=(0, 0, 0, 3), identity=True, kernels=True)


@pytest.mark.parametrize("opponents", [(), ("opponents.side=0",)])
def test_the_engine_of_the_run_decides(opponents):
    teams = [
        initial_team(load(None, ["task.name=mpe/simple_tag", f"algorithm.engine={engine}", *opponents]), SPEC, None)
        for engine in ("native", "numpy")
    ]
    assert [team.kernels for team in teams] == [True, False]
    assert replace(teams[0], kernels=False) == teams[1]


def test_messages_of_other_runs_are_as_they_were():
    assert b"kernels" not in to_json(replace(NATIVE, kernels=False)) and b"kernels" in to_json(NATIVE)


@needs_kernels
@pytest.mark.parametrize("agents", [(0, 1, 2), (3,)])
def test_in_a_match_both_sides_act_by_kernels(agents):
    algorithm = registry.algorithm("ippo")
    config = registry.configuration(algorithm, {"hidden": [8]}).resolved(SPEC)
    weights = {}
    for group in (0, 3):
        weights |= registry.implementation(algorithm).initialise(SPEC, NATIVE, config, 1, group)
    weights = {name: 30 * array if name.endswith("/w1") else array for name, array in weights.items()}

    def task(team, match=None):
        return make_task(SampleTask,
            id="r/000000/x", run="r", round=0, output="x", timeout_s=9.0, seed=1, environment=TAG, team=team,
            policies=(), rollouts=(2,), num_envs=40, rollout_length=5, match=match,
        )  # fmt: skip

    alone, plain = (play(task(team), weights, 0).trajectories for team in (NATIVE, replace(NATIVE, kernels=False)))
    match = Match(agents=agents, team=NATIVE)
    met = play_match(task(NATIVE, match), match, weights, weights).trajectories
    for name, array in alone.items():
        np.testing.assert_array_equal(met[name], array, name)
    name = "u00002/log_probability/0"
    assert (alone[name] != plain[name]).any()  # else nothing would be shown
    np.testing.assert_allclose(alone[name], plain[name], rtol=1e-4, atol=1e-5)
