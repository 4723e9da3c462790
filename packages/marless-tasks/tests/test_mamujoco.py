"""Multi-Agent MuJoCo: names that need no package, and rewards and states against the package's own environment."""

import os
import sys

import numpy as np
import pytest

from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.errors import BadRequest
from marless.testing.environments import check
from marless_tasks.mamujoco import PARTITIONS


def robots(name="HalfCheetah-2x3", num_envs=1, **options):
    return registry.make(EnvTask(name=f"mamujoco/{name}", options=options), num_envs)


@pytest.fixture
def package():
    pytest.importorskip("gymnasium_robotics")
    import gymnasium_robotics.envs.multiagent_mujoco.mamujoco_v1 as module

    return module


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("HalfCheetah-3x2", "nearest: mamujoco/HalfCheetah-2x3, mamujoco/HalfCheetah-6x1$"),
        ("HalfCheeta-2x3", "nearest: mamujoco/HalfCheetah-2x3"),
        ("Ant", "nearest: mamujoco/Ant-"),
        ("ManySegmentSwimmer-10x2", "has no 'ManySegmentSwimmer-10x2'"),
        ("xyz", "there are: mamujoco/Ant-2x4, .*mamujoco/Walker2d-2x3$"),
    ],
)
def test_unknown_robot_lists_known_robots(name, message):
    with pytest.raises(BadRequest, match=message) as refused:
        robots(name)
    assert "\n" not in str(refused.value)


@pytest.mark.packages
@pytest.mark.parametrize("name", [f"{robot}-{part}" for robot, parts in PARTITIONS.items() for part in parts])
def test_every_robot_has_agents_and_joints_of_partition(package, name):
    robot, _, partition = name.partition("-")
    parts = package.get_parts_and_edges(robot, partition)[0]
    spec = robots(name).spec
    joints = {agent: kind.actions for kind in spec.classes for agent in kind.agents}
    assert [joints[agent] for agent in range(len(spec.agents))] == [len(part) for part in parts]


@pytest.mark.packages
def test_rewards_and_state_match_single_agent_robot(package):
    environment = robots("HalfCheetah-2x3")
    seen = environment.reset(np.random.default_rng(3))
    own = package.parallel_env("HalfCheetah", "2x3")
    own.reset(seed=int(np.random.default_rng(3).integers(2**31)))
    rng = np.random.default_rng(4)
    for _ in range(20):
        assert np.array_equal(seen.state[0], own.state().astype(np.float32))
        actions = rng.uniform(-1, 1, (1, 2, 3)).astype(np.float32)
        step = environment.step((actions,))
        _, rewards, *_ = own.step({"agent_0": actions[0, 0], "agent_1": actions[0, 1]})
        assert step.rewards[0, 0] == step.rewards[0, 1]
        assert step.rewards.sum() == pytest.approx(rewards["agent_0"], rel=1e-12)
        seen = step.observation


@pytest.mark.packages
@pytest.mark.parametrize(("name", "steps"), [("HalfCheetah-2x3", 1000), ("Reacher-2x1", 50), ("Pusher-3p", 100)])
def test_episode_has_gymnasium_length_or_horizon(package, name, steps):
    assert robots(name).spec.horizon == steps
    shorter = robots(name, horizon=3)
    shorter.reset(np.random.default_rng(0))
    still = tuple(np.zeros((1, len(kind.agents), kind.actions), np.float32) for kind in shorter.spec.classes)
    ends = [shorter.step(still) for _ in range(3)]
    assert [step.truncated.tolist() for step in ends] == [[False], [False], [True]]
    assert shorter.spec.horizon == 3


@pytest.mark.packages
def test_falling_robot_ends_episode_by_rules(package):
    environment = robots("Hopper-3x1")
    environment.reset(np.random.default_rng(0))
    actions = tuple(np.ones((1, len(kind.agents), 1), np.float32) for kind in environment.spec.classes)
    steps = [environment.step(actions)]
    while not steps[-1].ended.any():
        steps.append(environment.step(actions))
    assert len(steps) < 1000 and steps[-1].terminated.all() and not steps[-1].truncated.any()


@pytest.mark.packages
def test_option_sets_visible_joint_distance(package):
    # Three joints' positions and velocities, and the torso's five. With 1 a joint of the other agent is added.
    sizes = [robots(agent_obsk=k).spec.classes[0].observation_size for k in (0, 1)]
    assert sizes == [3 + 3 + 5, 3 + 3 + 5 + 1]
    assert robots().spec.classes[0].observation_size == sizes[1]


@pytest.mark.packages
def test_other_options_are_the_robots_own(package):
    rewards = []
    for cost in (0.0, 1.0):
        environment = robots(ctrl_cost_weight=cost)
        environment.reset(np.random.default_rng(0))
        rewards.append(environment.step((np.ones((1, 2, 3), np.float32),)).rewards.sum())
    assert rewards[0] - rewards[1] == pytest.approx(6)  # the sum of squares of six actions of 1


@pytest.mark.packages
def test_robot_is_drawn_offscreen_by_following_camera(package, shell):
    shell.unset("DISPLAY")
    environment = robots(render_mode="rgb_array")
    assert sys.platform != "linux" or os.environ["MUJOCO_GL"] in ("egl", "osmesa")
    assert environment._guards[0].environment.single_agent_env.unwrapped.camera_name == "track"


@pytest.mark.packages
def test_unknown_robot_option_is_refused_in_one_line(package):
    with pytest.raises(BadRequest, match=r"refuses task.options {'weight': 3}") as refused:
        robots(weight=3)
    assert "\n" not in str(refused.value)


@pytest.mark.packages
@pytest.mark.parametrize(
    "name", ["HalfCheetah-6x1", "Ant-2x4d", "Hopper-3x1", "Humanoid-9|8", "CoupledHalfCheetah-1p1"]
)
def test_robots_keep_every_promise(package, name):
    check(lambda num_envs: robots(name, num_envs, horizon=12))
