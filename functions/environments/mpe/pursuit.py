"""What the two chases of mpe2 have in common: fast prey, slower chasers, obstacles, and a field that prey stays in."""

import numpy as np

from functions.environments.base import BoolArray
from functions.environments.mpe.engine import Scenario
from functions.environments.mpe.options import Check, whole
from functions.environments.mpe.world import Body, Numbers, Real, World

PURSUIT_OPTIONS: dict[str, Check] = {"num_good": whole(1), "num_adversaries": whole(1), "num_obstacles": whole(0)}

_CHASER_SIZE = 0.075
_LANDMARK_REACH = 0.9


class Pursuit(Scenario):
    """`chasers`, named so, before `num_good` prey; a scenario adds landmarks and classes.

    `fellows` ``[prey, prey - 1]``: the other prey for each, counted from the first prey.
    """

    def __init__(self, chasers: tuple[str, ...], num_good: int, prey_size: float) -> None:
        self.chasers = len(chasers)
        prey = (f"agent_{i}" for i in range(num_good))
        self.agents = (
            *(Body(name, _CHASER_SIZE, collides=True, acceleration=3.0, max_speed=1.0) for name in chasers),
            *(Body(name, prey_size, collides=True, acceleration=4.0, max_speed=1.3) for name in prey),
        )
        self.sides = (0,) * self.chasers + (1,) * num_good
        self.fellows: Numbers = np.array([[j for j in range(num_good) if j != i] for i in range(num_good)], np.int64)
        self._touching = prey_size + _CHASER_SIZE

    def start(self, world: World, rng: np.random.Generator) -> None:
        """As everywhere, but landmarks are in the square [-0.9, 0.9)."""
        super().start(world, rng)
        world.position[world.agents : world.bodies] *= _LANDMARK_REACH

    def caught(self, world: World) -> BoolArray:
        """Whether chasers touch prey: ``[prey, chasers, E]``."""
        touched: BoolArray = world.distance[self.chasers :, : self.chasers] < self._touching
        return touched

    def astray(self, world: World) -> Real:
        """What prey pays for each coordinate outside the field: ``[prey, 2, E]``, from 0 within 0.9 up to 10."""
        place = np.abs(world.position[self.chasers : world.agents])
        # Capped before exp, too, which would overflow far out.
        far = np.minimum(np.exp(np.minimum(2 * place - 2, 3.0)), 10.0)
        return np.where(place < 0.9, 0.0, np.where(place < 1.0, (place - 0.9) * 10, far))
