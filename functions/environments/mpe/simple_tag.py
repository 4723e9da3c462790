"""Simple tag: chasers tag faster prey among obstacles (`simple_tag_v3` of mpe2)."""

import numpy as np

from marless.functions.environments.base import AgentClass, FloatArray
from marless.functions.environments.entities.description import Entities
from marless.functions.environments.mpe.entities import bodies
from marless.functions.environments.mpe.options import maker, two_sides
from marless.functions.environments.mpe.pursuit import PURSUIT_OPTIONS, Pursuit
from marless.functions.environments.mpe.world import Body, Real, World
from marless.functions.environments.scene import ORANGE, SKY_BLUE

_COLOURS = ORANGE, SKY_BLUE


class SimpleTag(Pursuit):
    """`num_adversaries` chasers, `num_good` prey, `num_obstacles` landmarks that both bump into.

    For every touch of a chaser and a prey all chasers get 10 and that prey loses 10. Prey also pays for leaving the
    field. All see their velocity, their position, the obstacles, the others, and the velocities of the (other) prey.
    """

    def __init__(self, num_good: int, num_adversaries: int, num_obstacles: int = 2) -> None:
        super().__init__(tuple(f"adversary_{i}" for i in range(num_adversaries)), num_good, 0.05, _COLOURS)
        self.landmarks = tuple(Body(f"landmark_{i}", size=0.2, collides=True) for i in range(num_obstacles))
        agents, others = num_adversaries + num_good, 4 + 2 * num_obstacles
        self._seen = others + 2 * (agents - 1)
        sizes = self._seen + 2 * num_good, self._seen + 2 * (num_good - 1)
        obstacles, fellows = bodies("obstacle", num_obstacles, (4, 2)), others + 2 * num_adversaries
        of_chasers = Entities.of(
            sizes[0],
            obstacles,
            bodies("teammate", num_adversaries - 1, (others, 2), teammates=True),
            bodies("opponent", num_good, (fellows - 2, 2), (self._seen, 2)),
        )
        of_prey = Entities.of(
            sizes[1],
            obstacles,
            bodies("opponent", num_adversaries, (others, 2)),
            bodies("teammate", num_good - 1, (fellows, 2), (self._seen, 2), teammates=True),
        )
        self.classes = (
            AgentClass("adversary", tuple(range(num_adversaries)), sizes[0], actions=5, entities=of_chasers),
            AgentClass("agent", tuple(range(num_adversaries, agents)), sizes[1], actions=5, entities=of_prey),
        )

    def observe(self, world: World, features: tuple[FloatArray, ...]) -> None:
        """Writes own velocity and position, others relative to it, and the velocities of the (other) prey."""
        for rows, members in zip(features, (slice(0, self.chasers), slice(self.chasers, world.agents)), strict=True):
            rows[:, 0:2] = world.velocity[members]
            rows[:, 2:4] = world.position[members]
            rows[:, 4 : self._seen] = world.relative_observations(members)
        chasers, prey = features
        speeds = world.velocity[self.chasers :]
        chasers[:, self._seen :] = speeds.reshape(-1, world.num_envs)
        prey[:, self._seen :] = speeds[self.fellows].reshape(prey[:, self._seen :].shape)

    def reward(self, world: World, out: Real) -> None:
        touches = self.contacts(world).sum(axis=1, dtype=np.int16)
        astray = self.astray(world)
        out[: self.chasers] = 10.0 * touches.sum(axis=0)
        prey = out[self.chasers :]
        np.multiply(touches, -10.0, out=prey)
        prey -= astray[:, 0]
        prey -= astray[:, 1]


make = maker(SimpleTag, two_sides(num_good=1, num_adversaries=3), PURSUIT_OPTIONS)
