"""Multi-Agent MuJoCo, of the package `gymnasium-robotics`: ``mamujoco/HalfCheetah-2x3`` is Gymnasium's half cheetah,
moved by two agents with three joints each.

Agents see the positions and velocities of their joints, and the positions of joints up to `agent_obsk` joints away (the
package's option, 1 by default). The state is a single agent's observation of everything. Every agent gets an equal part
of the robot's reward. So the return, a sum over agents, is the robot's return, which papers report. `horizon` is
Gymnasium's `max_episode_steps`. Other options are arguments of the robot's class, such as `ctrl_cost_weight`. An
episode is terminated when the robot falls, where its class has that, and truncated at the horizon.

The many-segment swimmer and ant are left out. The package writes their models into its own folder whenever it makes
them, so processes that start together would disturb each other.

Source: Peng et al., "FACMAC: Factored Multi-Agent Centralised Policy Gradients", 2021.
"""

import difflib
import os
import sys
from typing import Any

from marless.functions.environments.base import EnvTask, VectorEnvironment
from marless.functions.environments.pettingzoo.adapter import assemble
from marless.functions.environments.pettingzoo.factory import build, quiet_module_of

# The partitions of each robot's joints among agents. `get_parts_and_edges` of the package has the details.
PARTITIONS = {
    "Ant": ("2x4", "2x4d", "4x2"),
    "CoupledHalfCheetah": ("1p1",),
    "HalfCheetah": ("2x3", "6x1"),
    "Hopper": ("3x1",),
    "Humanoid": ("9|8",),
    "HumanoidStandup": ("9|8",),
    "Pusher": ("3p",),
    "Reacher": ("2x1",),
    "Swimmer": ("2x1",),
    "Walker2d": ("2x3",),
}


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """`num_envs` environments. Raises `ValueError` for unknown robots, partitions and options, `MissingExtra` if the
    package is not installed, and the errors of `pettingzoo.assemble`."""
    scenario, partition = _robot(task.name)
    module = quiet_module_of(task.name, "gymnasium_robotics.envs.multiagent_mujoco.mamujoco_v1")
    limit = {"max_episode_steps": task.options["horizon"]} if "horizon" in task.options else {}

    def robot(**options: Any) -> Any:
        """The task's parallel environment, which draws without a screen too."""
        from gymnasium.wrappers import TransformReward

        if "render_mode" in options:
            options = {"camera_name": "track"} | options
            if sys.platform == "linux" and "DISPLAY" not in os.environ:
                os.environ.setdefault("MUJOCO_GL", "egl")  # draws without a screen
        # Gymnasium's checks of every step cost time, and ours follow.
        environment = module.parallel_env(scenario, partition, disable_env_checker=True, **limit, **options)
        single = environment.single_agent_env
        environment.max_cycles = single.get_wrapper_attr("_max_episode_steps")
        environment.single_agent_env = TransformReward(
            single, lambda reward: float(reward) / len(environment.possible_agents)
        )
        return environment

    return assemble(task, num_envs, lambda: build(task, robot))


def _robot(name: str) -> tuple[str, str]:
    """The robot and its partition in the name of a task. Raises `ValueError`."""
    label = name.partition("/")[2]
    scenario, _, partition = label.partition("-")
    if partition in PARTITIONS.get(scenario, ()):
        return scenario, partition
    labels = [f"{robot}-{part}" for robot, parts in PARTITIONS.items() for part in parts]
    likely = [candidate for candidate in labels if candidate.startswith(f"{scenario}-")] or difflib.get_close_matches(
        label, labels
    )
    raise ValueError(
        f"Multi-Agent MuJoCo has no '{label}' for {name}; {'nearest' if likely else 'there are'}: "
        + ", ".join(f"mamujoco/{candidate}" for candidate in likely or labels)
    )
