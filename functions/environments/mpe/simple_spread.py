"""Simple spread: N agents cover N landmarks without bumping into each other (`simple_spread_v3` of mpe2)."""

import numpy as np

from functions.environments.base import AgentClass, FloatArray
from functions.environments.mpe.engine import Scenario
from functions.environments.mpe.options import any_number, maker, ratio
from functions.environments.mpe.world import Body, Real, World


class SimpleSpread(Scenario):
    """Every agent gets ``local_ratio * own + (1 - local_ratio) * common``.

    Common: minus the sum over landmarks of the distance of the nearest agent. Own: minus the number of agents touched,
    not counting itself (the original MPE does). An agent sees its velocity, its position, the relative positions of the
    landmarks and the others, and the others' messages, which are zeros here.
    """

    def __init__(self, agents: int, local_ratio: float = 0.5) -> None:
        self.agents = tuple(Body(f"agent_{i}", size=0.15, collides=True) for i in range(agents))
        self.landmarks = tuple(Body(f"landmark_{i}", size=0.05, collides=False) for i in range(agents))
        size = 4 + 2 * agents + 4 * (agents - 1)
        self.classes = (AgentClass("agent", tuple(range(agents)), observation_size=size, actions=5),)
        self._local_ratio = local_ratio
        self._touching = 2 * self.agents[0].size

    def observe(self, world: World, features: tuple[FloatArray, ...]) -> None:
        (rows,) = features
        seen = world.relative_observations(slice(0, world.agents))
        rows[:, 0:2] = world.velocity
        rows[:, 2:4] = world.position[: world.agents]
        rows[:, 4 : 4 + seen.shape[1]] = seen

    def reward(self, world: World, out: Real) -> None:
        """The mean of the shared distance term and of each agent's own collisions, weighted by `local_ratio`."""
        nearest = world.distance[:, world.agents :].min(axis=0)
        uncovered = nearest[0]
        # Landmark by landmark, as mpe2 adds: the order of a reduction would depend on the number of environments.
        for distance in nearest[1:]:
            uncovered += distance
        touched = world.distance[:, : world.agents] < self._touching
        np.subtract(1, touched.view(np.int8).sum(axis=1, dtype=np.int16), out=out)
        out *= self._local_ratio
        out -= uncovered * (1 - self._local_ratio)


make = maker(SimpleSpread, any_number(default=3, least=1), {"local_ratio": ratio})
