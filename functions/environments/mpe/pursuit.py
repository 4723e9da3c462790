"""The common part of the two pursuits of mpe2: fast prey, slower chasers, obstacles, and bounds for the prey."""

import numpy as np

from marless.functions.environments.base import BoolArray
from marless.functions.environments.mpe.engine import Scenario
from marless.functions.environments.mpe.options import Check, whole
from marless.functions.environments.mpe.world import Body, Numbers, Real, World
from marless.functions.environments.scene import Colour

PURSUIT_OPTIONS: dict[str, Check] = {"num_good": whole(1), "num_adversaries": whole(1), "num_obstacles": whole(0)}

_CHASER_SIZE = 0.075
_LANDMARK_REACH = 0.9


class Pursuit(Scenario):
    """Agents named `chasers`, then `num_good` prey, in the two `colours`. A scenario adds landmarks and classes.

    `fellows` ``[prey, prey - 1]``: the other prey for each, counted from the first prey.
    """

    def __init__(
        self, chasers: tuple[str, ...], num_good: int, prey_size: float, colours: tuple[Colour, Colour]
    ) -> None:
        self.chasers = len(chasers)
        prey = (f"agent_{i}" for i in range(num_good))
        chaser_hue, prey_hue = colours
        self.agents = (
            *(
                Body(name, _CHASER_SIZE, collides=True, acceleration=3.0, max_speed=1.0, colour=chaser_hue)
                for name in chasers
            ),
            *(Body(name, prey_size, collides=True, acceleration=4.0, max_speed=1.3, colour=prey_hue) for name in prey),
        )
        self.sides = (0,) * self.chasers + (1,) * num_good
        self.fellows: Numbers = np.array([[j for j in range(num_good) if j != i] for i in range(num_good)], np.int64)
        self._touching = prey_size + _CHASER_SIZE

    def start(self, world: World, rng: np.random.Generator) -> None:
        """Start like `Scenario`, but with landmarks uniform in [-0.9, 0.9) squared."""
        super().start(world, rng)
        world.position[world.agents : world.bodies] *= _LANDMARK_REACH

    def contacts(self, world: World) -> BoolArray:
        """The touches of chasers and prey: ``[prey, chasers, E]``."""
        return np.asarray(world.distance[self.chasers :, : self.chasers] < self._touching)

    def astray(self, world: World) -> Real:
        """The penalty of prey for each coordinate outside the bounds: ``[prey, 2, E]``, from 0 within 0.9 up to 10."""
        distance = np.abs(world.position[self.chasers : world.agents])
        # Also capped before exp, which would overflow at large distances.
        far = np.minimum(world.exp(np.minimum(2 * distance - 2, 3.0)), 10.0)
        return np.where(distance < 0.9, 0.0, np.where(distance < 1.0, (distance - 0.9) * 10, far))
