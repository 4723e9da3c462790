"""Simple push: an adversary keeps an agent away from its goal (`simple_push_v3` of mpe2)."""

import numpy as np

from marless.functions.environments.base import AgentClass, FloatArray
from marless.functions.environments.entities.description import Entities
from marless.functions.environments.mpe.engine import Scenario
from marless.functions.environments.mpe.entities import bodies
from marless.functions.environments.mpe.options import exactly, maker
from marless.functions.environments.mpe.shapes import colour_of
from marless.functions.environments.mpe.world import Body, Real, World
from marless.functions.environments.scene import Colour

# A column per landmark: its own colour, and the colour of the agent that has it as its goal.
_COLOURS = np.array([[0.1, 0.1], [0.9, 0.1], [0.1, 0.9]])
_GOAL_COLOURS = np.array([[0.25, 0.25], [0.75, 0.25], [0.25, 0.75]])


class SimplePush(Scenario):
    """One adversary, one good agent, two landmarks, one of them the goal, which only the good agent knows.

    The good agent gets minus its distance to the goal. The adversary gets that distance minus its own. Both see their
    velocity, the landmarks and the other. The good agent also sees the goal and all colours.
    """

    goals = 1
    sides = (0, 1)

    def __init__(self) -> None:
        self.agents = (Body("adversary_0", size=0.05, collides=True), Body("agent_0", size=0.05, collides=True))
        self.landmarks = tuple(
            Body(f"landmark_{i}", size=0.05, collides=False, colour=colour_of(_COLOURS[:, i])) for i in range(2)
        )
        of_adversary = Entities.of(8, bodies("landmark", 2, (2, 2)), bodies("opponent", 1, (6, 2)))
        of_good = Entities.of(19, bodies("landmark", 2, (7, 2), (11, 3)), bodies("opponent", 1, (17, 2)))
        self.classes = (
            AgentClass("adversary", (0,), observation_size=8, actions=5, entities=of_adversary),
            AgentClass("agent", (1,), observation_size=19, actions=5, entities=of_good),
        )

    def colours(self, goals: tuple[int, ...]) -> list[Colour]:
        """The agent has the colour of its goal."""
        colours = super().colours(goals)
        colours[1] = colour_of(_GOAL_COLOURS[:, goals[0]])
        return colours

    def observe(self, world: World, features: tuple[FloatArray, ...]) -> None:
        """Only the agent sees the goal. The adversary sees landmarks without their meaning."""
        (adversary,), (good,) = features
        relative = world.relative_observations(slice(0, 2))
        adversary[0:2], good[0:2] = world.velocity
        adversary[2:8] = relative[0]
        good[2:4] = world.relative[1, world.bodies]
        good[4:7] = _GOAL_COLOURS.take(world.goals[0], axis=1)
        good[7:11] = relative[1, 0:4]
        good[11:17] = _COLOURS.T.reshape(-1, 1)
        good[17:19] = relative[1, 4:6]

    def reward(self, world: World, out: Real) -> None:
        adversary, good = world.distance[:, world.bodies]
        np.subtract(good, adversary, out=out[0])
        np.negative(good, out=out[1])


make = maker(SimplePush, exactly(2))
