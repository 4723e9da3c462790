"""PettingZoo's families, and others with its interface, through the adapter, if their packages are installed."""

import pytest

from marless.coordinator.config.loading import load
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.testing.environments import check

KNIGHTS = "pettingzoo.butterfly.knights_archers_zombies_v11:parallel_env"
# Name, required packages, options next to its family's defaults, and whether its first observations depend on the seed.
FAMILIES = [
    ("pettingzoo.classic.rps_v2:parallel_env", ["pygame"], {"max_cycles": 4}, False),
    (KNIGHTS, ["pygame"], {"max_cycles": 12}, False),
    ("pettingzoo.classic.connect_four_v3:env", ["pygame"], {"horizon": 42, "sides": "player_0,player_1"}, False),
    ("pettingzoo.classic.tictactoe_v3:env", ["pygame"], {"horizon": 9, "sides": "player_1,player_2"}, False),
    ("pettingzoo.classic.go_v5:env", ["pygame"], {"horizon": 20, "board_size": 5}, False),
    ("pettingzoo.classic.chess_v6:env", ["chess"], {"horizon": 12}, False),
    ("pettingzoo.classic.leduc_holdem_v4:env", ["rlcard"], {"horizon": 12, "sides": "player_0,player_1"}, True),
    ("pettingzoo.classic.texas_holdem_v4:env", ["rlcard"], {"horizon": 30}, True),
    ("pettingzoo.classic.texas_holdem_no_limit_v6:env", ["rlcard"], {"horizon": 30}, True),
    ("pettingzoo.classic.hanabi_v5:env", ["pyspiel", "shimmy"], {"horizon": 30}, True),
    ("pettingzoo.butterfly.cooperative_pong_v6:parallel_env", ["pygame"], {"max_cycles": 1}, False),
    ("pettingzoo.butterfly.pistonball_v6:parallel_env", ["pygame", "pymunk"], {"max_cycles": 2, "n_pistons": 3}, True),
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
# Packages that `make test` does not install.
LARGE = {"pymunk", "Box2D", "chess", "rlcard", "pyspiel"}
ROWS = [
    pytest.param(*row, id=row[0], marks=[pytest.mark.packages] if LARGE.intersection(row[1]) else [])
    for row in FAMILIES
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "packages", "options", "random_starts"), ROWS)
def test_a_family_keeps_every_promise_with_its_defaults(name, packages, options, random_starts):
    for package in packages:
        pytest.importorskip(package)
    name = f"pettingzoo:{name}"
    task = EnvTask(name=name, options=load(None, (f"task.name={name}",)).task.options | options)
    check(lambda num_envs: registry.make(task, num_envs), episodes=1, random_starts=random_starts)


@pytest.mark.filterwarnings("ignore")
def test_reused_knights_remember_last_episode():
    pytest.importorskip("pygame")
    # Once this fails, remove the family's default.
    task = EnvTask(name=f"pettingzoo:{KNIGHTS}", options={"max_cycles": 12})
    with pytest.raises(AssertionError, match="reset leaves something behind"):
        check(lambda num_envs: registry.make(task, num_envs), episodes=1, random_starts=False)
