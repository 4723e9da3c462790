"""Simple reference: two agents communicate each other's goals (`simple_reference_v3` of mpe2)."""

import numpy as np

from marless.functions.environments.base import AgentClass, FloatArray
from marless.functions.environments.entities.description import Entities
from marless.functions.environments.mpe.engine import Scenario
from marless.functions.environments.mpe.entities import bodies
from marless.functions.environments.mpe.options import exactly, maker, ratio
from marless.functions.environments.mpe.shapes import colour_of
from marless.functions.environments.mpe.world import Body, Real, World
from marless.functions.environments.scene import Colour

_WORDS = 10
# A column per landmark.
_COLOURS = 0.25 + 0.5 * np.eye(3)


class SimpleReference(Scenario):
    """Each agent knows the goal of the other, one of three landmarks, by its colour, and both move and speak.

    Every agent gets ``local_ratio * own + (1 - local_ratio) * common``. Own: minus the distance of the other from the
    goal that the agent knows. Common: the mean of both. An agent sees its velocity, the landmarks, the colour of the
    other's goal and the other's message.
    """

    goals = 2
    words = _WORDS

    def __init__(self, local_ratio: float = 0.5) -> None:
        self.agents = tuple(Body(f"agent_{i}", size=0.05, collides=False, speaks=True) for i in range(2))
        self.landmarks = tuple(
            Body(f"landmark_{i}", size=0.05, collides=False, colour=colour_of(_COLOURS[:, i])) for i in range(3)
        )
        # A goal's colour and messages name landmarks by their places.
        entities = Entities.of(21, *(bodies(f"landmark_{i}", 1, (2 + 2 * i, 2)) for i in range(3)))
        self.classes = (AgentClass("agent", (0, 1), observation_size=21, actions=5 * _WORDS, entities=entities),)
        self._local_ratio = local_ratio

    def colours(self, goals: tuple[int, ...]) -> list[Colour]:
        """Each agent has the colour of the goal that the other knows."""
        _, _, *landmarks = super().colours(goals)
        return [landmarks[goals[1]], landmarks[goals[0]], *landmarks]

    def observe(self, world: World, features: tuple[FloatArray, ...]) -> None:
        (rows,) = features
        rows[:, 0:2] = world.velocity
        rows[:, 2:8] = world.landmarks(slice(0, 2))
        rows[:, 8:11] = _COLOURS.take(world.goals, axis=1).swapaxes(0, 1)
        rows[:, 11:21] = world.said[::-1]

    def reward(self, world: World, out: Real) -> None:
        first, second = -world.distance[1, world.bodies], -world.distance[0, world.bodies + 1]
        common = (first + second) / 2 * (1 - self._local_ratio)
        np.add(common, first * self._local_ratio, out=out[0])
        np.add(common, second * self._local_ratio, out=out[1])


make = maker(SimpleReference, exactly(2), {"local_ratio": ratio})
