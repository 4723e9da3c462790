"""Simple speaker listener: one agent names a goal, the other goes there (`simple_speaker_listener_v4` of mpe2)."""

import numpy as np

from marless.functions.environments.base import AgentClass, FloatArray
from marless.functions.environments.entities.description import Entities
from marless.functions.environments.mpe.engine import Scenario
from marless.functions.environments.mpe.entities import bodies
from marless.functions.environments.mpe.options import exactly, maker
from marless.functions.environments.mpe.shapes import colour_of
from marless.functions.environments.mpe.world import Body, Real, World
from marless.functions.environments.scene import Colour

# A column per landmark.
_COLOURS = 0.15 + 0.5 * np.eye(3)
# By how much the listener is lighter than its goal.
_LIGHTER = 0.45


class SimpleSpeakerListener(Scenario):
    """A speaker that does not move, a silent listener, and three landmarks, one of them the goal.

    Both get minus the squared distance of the listener from the goal. The speaker sees the goal's colour. The listener
    sees its velocity, the landmarks and the speaker's message, one of three words.
    """

    goals = 1
    words = 3

    def __init__(self) -> None:
        self.agents = (
            Body("speaker_0", size=0.075, collides=False, moves=False, speaks=True),
            Body("listener_0", size=0.075, collides=False),
        )
        self.landmarks = tuple(
            Body(f"landmark_{i}", size=0.04, collides=False, colour=colour_of(_COLOURS[:, i])) for i in range(3)
        )
        # Messages name landmarks by their places.
        landmarks = Entities.of(11, *(bodies(f"landmark_{i}", 1, (2 + 2 * i, 2)) for i in range(3)))
        self.classes = (
            AgentClass("speaker", (0,), observation_size=3, actions=3, entities=Entities.of(3)),
            AgentClass("listener", (1,), observation_size=11, actions=5, entities=landmarks),
        )

    def colours(self, goals: tuple[int, ...]) -> list[Colour]:
        """The listener has the colour of its goal, but lighter."""
        colours = super().colours(goals)
        colours[1] = colour_of(_COLOURS[:, goals[0]] + _LIGHTER)
        return colours

    def observe(self, world: World, features: tuple[FloatArray, ...]) -> None:
        speaker, listener = features
        speaker[0] = _COLOURS.take(world.goals[0], axis=1)
        listener[:, 0:2] = world.velocity[1:]
        listener[:, 2:8] = world.landmarks(slice(1, 2))
        listener[:, 8:11] = world.said[:1]

    def reward(self, world: World, out: Real) -> None:
        away = world.squares[1, world.bodies]
        np.negative(away[0] + away[1], out=out)


make = maker(SimpleSpeakerListener, exactly(2))
