"""Blind-particle spread: every agent goes to the landmark of its colour, which it cannot see: `roles/blind_spread`.

After Christianos et al., "Scaling Multi-Agent Reinforcement Learning with Selective Parameter Sharing", 2021
(arXiv:2102.07475), where episodes have 50 steps and up to 30 agents. There is one landmark per colour. An agent sees
its velocity, its position and the relative positions of the landmarks, always in the order of their colours. So agents
with equal observations differ only in their hidden role, the colour. Bodies do not collide, so agents act
independently. Physics and actions come from the Multi-Particle Environments.

Reward of an agent in each step: minus the distance from the landmark of its colour. The option `pay` gives agents one
reward for all.

An agent that stands still from the start loses the mean distance of two uniform points of a square of side 2 in every
step. This is 1.0428 = 2 (2 + sqrt 2 + 5 ln(1 + sqrt 2)) / 15, so the return summed over 6 agents and 25 steps is
-156.4.
"""

import colorsys
from typing import Annotated

import msgspec

from marless.functions.environments.base import AgentClass, EnvTask, FloatArray, options_of
from marless.functions.environments.mpe.engine import Engine, Scenario
from marless.functions.environments.mpe.world import Body, Real, World
from marless.functions.environments.roles.partition import RoleOptions, WithRoles, assign, paid
from marless.functions.setting_limits import MOST_STEPS

_AGENTS = 6


class BlindSpreadOptions(RoleOptions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The options of `roles/blind_spread`."""

    # Steps of an episode.
    horizon: Annotated[int, msgspec.Meta(ge=1, le=MOST_STEPS)] = 25


def make(task: EnvTask, num_envs: int) -> WithRoles:
    """`num_envs` environments. Raises `ValueError` for wrong options or too few agents."""
    options = options_of(task, BlindSpreadOptions)
    return paid(BlindSpread(assign(task, options, _AGENTS), options.horizon, num_envs), options)


class BlindSpread(Engine):
    """E environments. `roles` holds the colour of every agent."""

    def __init__(self, roles: tuple[int, ...], horizon: int, num_envs: int) -> None:
        super().__init__(ColouredLandmarks(roles), num_envs, horizon)
        self.roles = roles


class ColouredLandmarks(Scenario):
    """One landmark for each role of `roles`. The module has observations and rewards."""

    def __init__(self, roles: tuple[int, ...]) -> None:
        colours = max(roles) + 1
        palette = [colorsys.hsv_to_rgb(colour / colours, 0.6, 0.9) for colour in range(colours)]
        self.agents = tuple(
            Body(f"agent_{i}", size=0.15, collides=False, colour=palette[role]) for i, role in enumerate(roles)
        )
        self.landmarks = tuple(
            Body(f"landmark_{i}", size=0.05, collides=False, colour=colour) for i, colour in enumerate(palette)
        )
        self.classes = (AgentClass("agent", tuple(range(len(roles))), observation_size=4 + 2 * colours, actions=5),)
        self._own = [len(roles) + role for role in roles]

    def observe(self, world: World, features: tuple[FloatArray, ...]) -> None:
        (rows,) = features
        rows[:, 0:2] = world.velocity
        rows[:, 2:4] = world.position[: world.agents]
        rows[:, 4:] = world.landmarks(slice(0, world.agents))

    def reward(self, world: World, out: Real) -> None:
        for agent, landmark in enumerate(self._own):
            out[agent] = -world.distance[agent, landmark]
