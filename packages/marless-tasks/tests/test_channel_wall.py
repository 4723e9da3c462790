"""The task `channel/wall`: observations, rewards, options and saved states."""

import numpy as np
import pytest

from marless.functions.environments import registry
from marless.functions.environments.base import EnvironmentFault, EnvTask
from marless.functions.environments.scene import Box, Scene
from marless.functions.errors import BadRequest
from marless.testing import environments as conformance
from marless_tasks.channel.solver import INSIDE, KAPPA
from marless_tasks.channel.walls import INTERCEPT, Channel

SMALL = {"cells": "8x10x8", "patches": "2x2", "horizon": 6}


def make(num_envs=1, agents=None, **options):
    return registry.make(EnvTask(name="channel/wall", agents=agents, options={**SMALL, **options}), num_envs)


def factors(environment, factor):
    return (np.full((environment.num_envs, len(environment.spec.agents), 1), factor, np.float32),)


@pytest.mark.parametrize("viscosity", [False, True])
def test_channel_keeps_environment_promises_and_continues_with_bytes(viscosity):
    tiny = {"cells": "4x10x4", "patches": "2x1", "horizon": 3}
    conformance.check(lambda num_envs: make(num_envs, viscosity=viscosity, **tiny))


def test_agent_has_wall_patch_and_acts_by_factor():
    spec = make(patches="4x2").spec
    assert (spec.agents[0], spec.agents[-1], len(spec.agents)) == ("lower_0_0", "upper_3_1", 16)
    (kind,) = spec.classes
    assert (kind.observation_size, kind.low, kind.high, spec.horizon) == (2, (0.9,), (1.1,), 6)


@pytest.mark.parametrize("reynolds", [2000, 1e6])
def test_agents_observe_log_law_at_every_reynolds_number(reynolds):
    environment = make(reynolds=reynolds, spread=0)
    environment.reset(np.random.default_rng(0))
    saved = environment.save()
    saved["velocity"][:] = 0
    profile = Channel.at(reynolds).profile(environment.grid.heights)
    saved["velocity"][0, 0][1:-1] = profile[:, None, None]
    (seen,) = environment.resume(saved, np.random.default_rng(0)).values
    assert seen == pytest.approx(np.broadcast_to([1 / KAPPA, INTERCEPT], (1, 8, 2)), rel=1e-5)


@pytest.mark.parametrize(
    ("before", "factor", "reward"),
    [
        (0.8, 1.1, 0.08),
        (0.8, 0.9, -0.08),
        (1.2, 0.9, 0.12),
        (0.95, 1.05, 0.0475 + 1),
        (1.0, 1.0, 1.0),
        (1.0, 1.02, -0.02),
    ],
)
def test_reward_is_gain_plus_one_near_right_stress(before, factor, reward):
    """|1 - before| - |1 - before x factor|, in units of the right stress."""
    environment = make(reynolds=4200, spread=0)
    environment.reset(np.random.default_rng(0))
    saved = environment.save()
    saved["wall"] *= before
    environment.resume(saved, np.random.default_rng(0))
    step = environment.step(factors(environment, factor))
    assert step.rewards == pytest.approx(np.full((1, 8), reward), abs=1e-6)
    assert environment.stress() == pytest.approx(Channel.at(4200).stress * before * factor, rel=1e-6)


def test_stresses_stay_within_four_times_the_right_one():
    environment = make(reynolds=4200, spread=0, horizon=20)
    environment.reset(np.random.default_rng(0))
    for _ in range(18):
        environment.step(factors(environment, 1.1))
    assert environment.stress() == pytest.approx(4 * Channel.at(4200).stress)


def test_stresses_between_agents_are_linear():
    environment = make(cells="8x10x8", patches="2x1")
    environment.reset(np.random.default_rng(0))
    along, across = environment._weights
    # Centres of patches are at 2 and 6 of 8 cells. The channel repeats after the last cell.
    expected = [0.375, 0.125, 0.125, 0.375, 0.625, 0.875, 0.875, 0.625]
    assert along @ np.array([[0.0], [1.0]]) @ across.T == pytest.approx(np.repeat(np.array(expected)[:, None], 8, 1))


def test_eddy_viscosity_stress_follows_the_velocity():
    environment = make(reynolds=4200, spread=0, viscosity=True)
    environment.reset(np.random.default_rng(0))
    right = Channel.at(4200).stress
    assert environment.stress() == pytest.approx(np.full((1, 2, 2, 2), right), rel=1e-12)
    saved = environment.save()
    saved["velocity"] *= 1.5
    environment.resume(saved, np.random.default_rng(0))
    assert environment.stress() == pytest.approx(np.full((1, 2, 2, 2), 1.5 * right), rel=1e-12)


def test_episodes_report_errors_of_their_second_half():
    environment = make(reynolds=4200, spread=0)
    environment.reset(np.random.default_rng(0))
    for factor in (1.1, 1.0, 1.0, 1.0, 1.0, 1.0):
        step = environment.step(factors(environment, factor))
    assert step.truncated.all() and not step.terminated.any()
    assert step.env_metrics["stress_error"] == pytest.approx([0.1], rel=1e-5)
    assert step.env_metrics["patch_stress_error"] == pytest.approx([0.1], rel=1e-5)


def test_episodes_start_turbulent_with_equal_bulk_velocity():
    environment = make(2, cells="32x24x24", patches="4x4", reynolds=8000)
    environment.reset(np.random.default_rng(0))
    velocity = environment.save()["velocity"]
    for flow in velocity:
        assert flow[0][INSIDE].mean() == pytest.approx(1, abs=1e-12)
        # In channels the highest deviation of v from 0 is about 1.1 u_τ (Pope 2000, section 7.1.6).
        assert 0.5 < flow[1][INSIDE].std(axis=(1, 2)).max() / Channel.at(8000).speed < 1.5
    assert abs(np.corrcoef(velocity[:, 1].reshape(2, -1))[0, 1]) < 0.2


def test_the_picture_has_the_stress_of_each_agent():
    environment = make(reynolds=4200)
    environment.reset(np.random.default_rng(0))
    scene = environment.render(0)
    assert isinstance(scene, Scene)
    boxes = [shape for shape in scene.shapes if isinstance(shape, Box)]
    ratio = environment.stress()[0, 0, 0, 0] / Channel.at(4200).stress
    assert len(boxes) == 8 and boxes[0].label == f"{ratio:.2f}"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"cells": "32x24"}, "task.options.cells is 32x24. Write three numbers such as 32x24x24, at least 4x10x4"),
        ({"cells": "32 24 24"}, "task.options.cells is '32 24 24'. Write numbers with 'x' between them"),
        ({"patches": "3x2"}, r"task.options.patches is 3x2. .* divide the cells along the flow \(8\)"),
        ({"reynolds": "4200,5"}, "task.options.reynolds is 4200,5. Each number must be at least 100"),
        ({"agents": 3}, "task.agents is 3, but task.options.patches makes 8 agents"),
        ({"dt": 0}, "task.options.dt"),
        ({"unknown": 1}, "task.options"),
    ],
)
def test_wrong_options_are_refused_in_one_line(options, says):
    with pytest.raises(BadRequest, match=f"channel/wall: {says}"):
        make(**options)


def test_too_long_time_step_is_named():
    environment = make(dt=2.0)
    environment.reset(np.random.default_rng(0))
    with pytest.raises(EnvironmentFault, match=r"the Courant number is .*. Set task.options.dt below 2.0"):
        environment.step(factors(environment, 1.0))
