"""Simple adversary: good agents reach a goal that an adversary has to guess (`simple_adversary_v3` of mpe2)."""

import numpy as np

from marless.functions.environments.base import AgentClass, FloatArray
from marless.functions.environments.entities.description import Entities
from marless.functions.environments.mpe.engine import Scenario
from marless.functions.environments.mpe.entities import bodies
from marless.functions.environments.mpe.options import any_number, maker
from marless.functions.environments.mpe.world import Body, Real, World
from marless.functions.environments.scene import Colour

_RED, _BLUE = (0.85, 0.35, 0.35), (0.35, 0.35, 0.85)
_LANDMARK, _GOAL = (0.15, 0.15, 0.15), (0.15, 0.65, 0.15)


class SimpleAdversary(Scenario):
    """One adversary, the other agents good, as many landmarks as good agents, one of them the goal.

    The adversary gets minus its distance to the goal. Every good agent gets that distance minus the distance of the
    nearest good agent. All see the relative positions of landmarks and other agents. Good agents also see the goal's.
    """

    goals = 1

    def __init__(self, agents: int) -> None:
        good = agents - 1
        self.agents = (
            Body("adversary_0", size=0.15, collides=False, colour=_RED),
            *(Body(f"agent_{i}", size=0.15, collides=False, colour=_BLUE) for i in range(good)),
        )
        self.landmarks = tuple(Body(f"landmark_{i}", size=0.08, collides=False, colour=_LANDMARK) for i in range(good))
        self.sides = (0,) + (1,) * good
        good_size = 4 * good
        of_adversary = Entities.of(good_size, bodies("landmark", good, (0, 2)), bodies("opponent", good, (2 * good, 2)))
        others = 2 + 2 * good
        of_good = Entities.of(
            2 + good_size,
            bodies("landmark", good, (2, 2)),
            bodies("opponent", 1, (others, 2)),
            bodies("teammate", good - 1, (others + 2, 2), teammates=True),
        )
        self.classes = (
            AgentClass("adversary", (0,), observation_size=good_size, actions=5, entities=of_adversary),
            AgentClass("agent", tuple(range(1, agents)), 2 + good_size, actions=5, entities=of_good),
        )

    def colours(self, goals: tuple[int, ...]) -> list[Colour]:
        """The goal is green."""
        colours = super().colours(goals)
        colours[len(self.agents) + goals[0]] = _GOAL
        return colours

    def observe(self, world: World, features: tuple[FloatArray, ...]) -> None:
        adversary, good = features
        adversary[:] = world.relative_observations(slice(0, 1))
        good[:, 0:2] = world.relative[1:, world.bodies]
        good[:, 2:] = world.relative_observations(slice(1, world.agents))

    def reward(self, world: World, out: Real) -> None:
        to_goal = world.distance[:, world.bodies]
        np.negative(to_goal[0], out=out[0])
        np.subtract(to_goal[0], to_goal[1:].min(axis=0), out=out[1:])


make = maker(SimpleAdversary, any_number(default=3, least=2))
