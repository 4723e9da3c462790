"""PettingZoo's own families, and others of its interface, through the adapter, where their packages are installed."""

import pytest

from functions.environments import registry
from functions.environments.base import Task
from functions.environments.conformance import check

# Name, the packages it needs, options, and whether its first observations depend on the seed.
FAMILIES = [
    ("pettingzoo.classic.rps_v2:parallel_env", ["pygame"], {"max_cycles": 4}, False),
    (
        "pettingzoo.butterfly.knights_archers_zombies_v11:parallel_env",
        ["pygame"],
        {"max_cycles": 12, "rebuild": True},
        False,
    ),
    ("pettingzoo.butterfly.cooperative_pong_v6:parallel_env", ["pygame"], {"max_cycles": 1}, False),
    (
        "pettingzoo.butterfly.pistonball_v6:parallel_env",
        ["pygame", "pymunk"],
        {"max_cycles": 2, "n_pistons": 3},
        True,
    ),
    ("pettingzoo.sisl.multiwalker_v9:parallel_env", ["pygame", "Box2D"], {"max_cycles": 12}, True),
    (
        "pettingzoo.sisl.pursuit_v5:parallel_env",
        ["pygame", "scipy", "pymunk"],
        {"max_cycles": 8, "x_size": 6, "y_size": 6, "n_pursuers": 2, "n_evaders": 2},
        True,
    ),
    (
        "magent2.environments.adversarial_pursuit_v4:parallel_env",
        ["magent2"],
        {"max_cycles": 8, "map_size": 16, "sides": "predator,prey"},
        True,
    ),
    (
        "gymnasium_robotics.envs.multiagent_mujoco.mamujoco_v1:parallel_env",
        ["gymnasium_robotics"],
        {"scenario": "HalfCheetah", "agent_conf": "6x1", "horizon": 8},
        True,
    ),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "packages", "options", "random_starts"), FAMILIES, ids=[row[0] for row in FAMILIES])
def test_a_family_keeps_every_promise(name, packages, options, random_starts):
    for package in packages:
        pytest.importorskip(package)
    task = Task(name=f"pettingzoo:{name}", options=options)
    check(lambda copies: registry.make(task, copies), episodes=1, random_starts=random_starts)
