"""Simple: one agent goes to one landmark (`simple_v3` of mpe2), to try things out."""

import numpy as np

from marless.functions.environments.base import AgentClass, FloatArray
from marless.functions.environments.entities.description import Entities
from marless.functions.environments.mpe.engine import Scenario
from marless.functions.environments.mpe.entities import bodies
from marless.functions.environments.mpe.options import exactly, maker
from marless.functions.environments.mpe.world import Body, Real, World


class Simple(Scenario):
    """The agent gets minus its squared distance to the landmark. It sees its velocity and the landmark's offset."""

    def __init__(self) -> None:
        self.agents = (Body("agent_0", size=0.05, collides=False),)
        self.landmarks = (Body("landmark_0", size=0.05, collides=False, colour=(0.75, 0.25, 0.25)),)
        entities = Entities.of(4, bodies("landmark", 1, (2, 2)))
        self.classes = (AgentClass("agent", (0,), observation_size=4, actions=5, entities=entities),)

    def observe(self, world: World, features: tuple[FloatArray, ...]) -> None:
        (rows,) = features
        rows[:, 0:2] = world.velocity
        rows[:, 2:4] = world.landmarks(slice(0, 1))

    def reward(self, world: World, out: Real) -> None:
        away = world.squares[0, 1]
        np.negative(away[0] + away[1], out=out[0])


make = maker(Simple, exactly(1))
