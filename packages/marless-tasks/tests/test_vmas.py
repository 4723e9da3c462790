"""VMAS behind our protocol. Tests with the package carry the mark `packages`. The tests of errors always run."""

import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from marless.functions.environments import registry
from marless.functions.environments.base import EnvironmentFault, EnvTask
from marless.functions.environments.scene import Disc, Line
from marless.functions.errors import BadRequest
from marless.testing import environments as conformance


def needs_vmas(test):
    skip = pytest.mark.skipif(find_spec("vmas") is None, reason="VMAS is not installed")
    return pytest.mark.packages(skip(test))


def make(scenario, num_envs=2, agents=None, **options):
    return registry.make(EnvTask(name=f"vmas/{scenario}", agents=agents, options=options), num_envs)


def random_actions(environment, rng):
    (kind,) = environment.spec.classes
    shape = (environment.num_envs, len(kind.agents))
    if kind.continuous:
        return (rng.uniform(kind.low, kind.high, (*shape, kind.actions)).astype(np.float32),)
    return (rng.integers(kind.actions, size=shape),)


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("horizon", 0, "task.options.horizon is 0; it must be a whole number from 1"),
        ("horizon", True, "task.options.horizon is True; it must be a whole number from 1"),
        ("continuous_actions", 1, "task.options.continuous_actions is 1; it must be true or false"),
    ],
)
def test_options_of_ours_are_checked(option, value, says):
    with pytest.raises(BadRequest, match=f"vmas/balance: {says}"):
        make("balance", **{option: value})


def test_a_team_of_nobody_is_refused():
    with pytest.raises(BadRequest, match=r"vmas/balance: task\.agents is 0; at least 1 is needed"):
        make("balance", agents=0)


@needs_vmas
def test_nothing_is_printed_when_vmas_loads():
    code = (
        "from marless.functions.environments import registry\n"
        "from marless.functions.environments.base import EnvTask\n"
        "registry.spec(EnvTask(name='vmas/balance'))"
    )
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert (completed.stdout, completed.stderr) == ("", "")


@needs_vmas
@pytest.mark.parametrize("scenario", ["balance", "navigation", "simple_spread"])
@pytest.mark.parametrize("continuous", [False, True])
def test_spaces_are_those_of_vmas(scenario, continuous):
    import vmas

    theirs = vmas.make_env(scenario, num_envs=1, continuous_actions=continuous)
    spec = make(scenario, 1, continuous_actions=continuous).spec
    (kind,) = spec.classes
    assert spec.agents == tuple(agent.name for agent in theirs.agents)
    assert kind.observation_size == theirs.observation_space[0].shape[0]
    assert (spec.horizon, spec.state_size, spec.masked) == (100, 0, False)
    acts = theirs.action_space[0]
    if continuous:
        assert (kind.low, kind.high) == (tuple(acts.low), tuple(acts.high))
    else:
        assert (kind.actions, kind.continuous) == (acts.n, False)


@needs_vmas
@pytest.mark.parametrize("continuous", [False, True])
def test_steps_equal_vmas_with_same_seed_and_actions(continuous):
    import torch
    import vmas

    ours = make("transport", 3, horizon=50, continuous_actions=continuous)
    theirs = vmas.make_env("transport", num_envs=3, continuous_actions=continuous, terminated_truncated=True)
    # The first number that the generator gives is the seed.
    seen = ours.reset(np.random.default_rng(4))
    raw = theirs.reset(seed=int(np.random.default_rng(4).integers(2**31)))
    rng = np.random.default_rng(0)
    for _ in range(20):
        np.testing.assert_array_equal(seen.values[0], torch.stack(raw, dim=1).numpy())
        (chosen,) = random_actions(ours, rng)
        step = ours.step((chosen,))
        raw, rewards, *_ = theirs.step([torch.tensor(chosen[:, agent]) for agent in range(4)])
        np.testing.assert_array_equal(step.rewards, torch.stack(rewards, dim=1).numpy())
        seen = step.observation


@needs_vmas
@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("scenario", ["balance", "wind_flocking"])
def test_the_adapter_keeps_every_promise_of_the_protocol(scenario, continuous):
    conformance.check(lambda num_envs: make(scenario, num_envs, horizon=8, continuous_actions=continuous))


@needs_vmas
def test_environment_promises_hold_with_jointly_computed_contacts():
    conformance.check(
        lambda num_envs: make("navigation", num_envs, horizon=8, continuous_actions=True), independent_envs=False
    )


@needs_vmas
def test_other_environments_and_draws_change_nothing():
    import torch

    def played(others):
        environment, rng = make("navigation", 2, horizon=5), np.random.default_rng(0)
        environment.reset(np.random.default_rng(1))
        outputs = []
        for _ in range(12):
            step = environment.step(random_actions(environment, rng))
            outputs += [step.observation.values[0].tobytes(), step.rewards.tobytes()]
            others()
        return outputs

    other, drawn = make("navigation", 3), np.random.default_rng(2)
    other.reset(np.random.default_rng(3))

    def disturb():
        other.step(random_actions(other, drawn))
        torch.rand(3)

    alone = played(lambda: None)
    torch.manual_seed(7)
    first = torch.rand(1)
    torch.manual_seed(7)
    assert played(lambda: None) == alone
    assert torch.rand(1) == first  # torch's own numbers were not touched
    assert played(disturb) == alone


@needs_vmas
def test_ended_episode_terminates_and_resets_only_its_environment():
    environment, rng = make("balance", 16), np.random.default_rng(0)
    environment.reset(np.random.default_rng(0))
    step = environment.step(random_actions(environment, rng))
    while not step.ended.any():
        step = environment.step(random_actions(environment, rng))
    ended = step.ended
    assert not ended.all() and not step.truncated.any()
    assert (step.terminated == ended[:, None]).all()
    assert not step.final.values[0][ended].any() and not step.final.alive[ended].any()
    np.testing.assert_array_equal(step.observation.values[0][~ended], step.final.values[0][~ended])
    assert step.observation.values[0][ended].any() and step.observation.alive.all()


@needs_vmas
def test_timed_out_episode_is_truncated_with_last_observation():
    environment, rng = make("transport", 2, horizon=3), np.random.default_rng(0)
    environment.reset(np.random.default_rng(0))
    steps = [environment.step(random_actions(environment, rng)) for _ in range(3)]
    assert [step.ended.tolist() for step in steps] == [[False] * 2, [False] * 2, [True] * 2]
    assert steps[-1].truncated.all() and not steps[-1].terminated.any()
    assert steps[-1].final.alive.all() and (steps[-1].final.values[0] != steps[-1].observation.values[0]).any()


@needs_vmas
def test_the_number_of_agents_is_the_scenarios_argument():
    assert make("balance", agents=5).spec.agents == tuple(f"agent_{i}" for i in range(5))


@needs_vmas
@pytest.mark.parametrize(
    ("scenario", "agents", "options", "says"),
    [
        ("balence", None, {}, "vmas/balence: VMAS has no scenario 'balence'; there are: balance"),
        ("balance", None, {"packages": 2}, "vmas/balance: VMAS refuses task.options .*'packages': 2.* not used"),
        ("balance", None, {"package_mass": "x"}, "vmas/balance: VMAS refuses task.options"),
        ("balance", None, {"device": "cuda"}, "vmas/balance: task.options.device cannot be chosen"),
        ("football", 4, {}, "vmas/football: VMAS refuses task.options .*'n_agents': 4.* not used"),
    ],
)
def test_options_unknown_to_vmas_are_refused(scenario, agents, options, says):
    with pytest.raises(BadRequest, match=says) as error:
        environment = make(scenario, agents=agents, **options)
        environment.reset(np.random.default_rng(0))
    assert "\n" not in str(error.value)


@needs_vmas
def test_error_inside_vmas_names_task_and_method():
    environment = make("balance", 2)
    environment.reset(np.random.default_rng(0))
    with pytest.raises(EnvironmentFault, match="vmas/balance, step: AssertionError: Discrete physical actions"):
        environment.step((np.full((2, 3), 9),))


@needs_vmas
def test_a_picture_has_every_body_in_its_place():
    environment = make("balance", 2)
    environment.reset(np.random.default_rng(0))
    scene = environment.render(1)
    world = environment._simulation.environment.world
    discs = [shape for shape in scene.shapes if isinstance(shape, Disc)]
    spheres = [entity for entity in world.entities if hasattr(entity.shape, "radius")]
    assert len(discs) == len(spheres) == 5  # the package, its goal and three agents
    for disc, entity in zip(discs, spheres, strict=True):
        right, up = (float(part) for part in entity.state.pos[1])
        np.testing.assert_allclose((disc.x, disc.y), (scene.width / 2 + right, scene.height / 2 - up), atol=1e-5)
    # The beam, level and as long as it is, and the four sides of the floor.
    lines = [shape for shape in scene.shapes if isinstance(shape, Line)]
    (beam,) = [entity for entity in world.entities if entity.name == "line"]
    assert [line for line in lines if abs(abs(line.to_x - line.x) - beam.shape.length) < 1e-5 and line.y == line.to_y]
    assert len(lines) == 5
