"""Simple spread: N agents cover N landmarks without bumping into each other (`simple_spread_v3` of mpe2)."""

import numpy as np

from marless.functions.environments.base import AgentClass, FloatArray
from marless.functions.environments.entities.description import Entities, EntityBlock
from marless.functions.environments.mpe.engine import Scenario
from marless.functions.environments.mpe.entities import bodies
from marless.functions.environments.mpe.options import any_number, flag, maker, ratio
from marless.functions.environments.mpe.world import Body, Real, World

# Of an entity.
FEATURES = 7
_BLUE = (0.35, 0.35, 0.85)


class SimpleSpread(Scenario):
    """Every agent gets ``local_ratio * own + (1 - local_ratio) * common``.

    Common: minus the sum over landmarks of the distance of the nearest agent. Own: minus the number of agents touched,
    not counting itself (the original MPE does). An agent sees its velocity, its position, the relative positions of the
    landmarks and the others, and the others' messages, which are zeros here. With `entities` it sees the same as a set
    ``[2 agents, 7]``, itself first. The features are position (of others relative to it), velocity (of others 0), and
    the kind: itself, a landmark or another agent.
    """

    def __init__(self, agents: int, local_ratio: float = 0.5, entities: bool = False) -> None:
        self.agents = tuple(Body(f"agent_{i}", size=0.15, collides=True, colour=_BLUE) for i in range(agents))
        self.landmarks = tuple(Body(f"landmark_{i}", size=0.05, collides=False) for i in range(agents))
        shape = (2 * agents, FEATURES) if entities else ()
        size = 2 * agents * FEATURES if entities else 4 + 2 * agents + 4 * (agents - 1)
        description = Entities.of(size, *(_rows_of_table(agents) if entities else _blocks(agents)))
        everyone = tuple(range(agents))
        self.classes = (AgentClass("agent", everyone, size, 5, observation_shape=shape, entities=description),)
        self._entities = entities
        self._local_ratio = local_ratio
        self._touching = 2 * self.agents[0].size

    def observe(self, world: World, features: tuple[FloatArray, ...]) -> None:
        """Own velocity and position, then landmarks and other agents relative to it, or all of it as entities."""
        (rows,) = features
        relative = world.relative_observations(slice(0, world.agents))
        if self._entities:
            self._observe_entities(world, relative, rows)
            return
        rows[:, 0:2] = world.velocity
        rows[:, 2:4] = world.position[: world.agents]
        rows[:, 4 : 4 + relative.shape[1]] = relative

    def _observe_entities(self, world: World, relative: Real, rows: FloatArray) -> None:
        agents, landmarks = world.agents, len(self.landmarks)
        table = rows.reshape(agents, 2 * agents, FEATURES, -1)
        table[...] = 0
        table[:, 0, 0:2] = world.position[:agents]
        table[:, 0, 2:4] = world.velocity
        table[:, 0, 4] = table[:, 1 : 1 + landmarks, 5] = table[:, 1 + landmarks :, 6] = 1
        table[:, 1:, 0:2] = relative.reshape(agents, -1, 2, relative.shape[-1])[:, : 2 * agents - 1]

    def reward(self, world: World, out: Real) -> None:
        """The mean of the shared distance term and of each agent's own collisions, weighted by `local_ratio`."""
        nearest = world.distance[:, world.agents :].min(axis=0)
        distance_sum = nearest[0]
        # Landmark by landmark, as mpe2 adds: the order of a reduction would depend on the number of environments.
        for distance in nearest[1:]:
            distance_sum += distance
        collisions = world.distance[:, : world.agents] < self._touching
        np.subtract(1, collisions.view(np.int8).sum(axis=1, dtype=np.int16), out=out)
        out *= self._local_ratio
        out -= distance_sum * (1 - self._local_ratio)


def _blocks(agents: int) -> tuple[EntityBlock, ...]:
    others = 4 + 2 * agents
    messages = others + 2 * (agents - 1)
    return (
        bodies("landmark", agents, (4, 2)),
        bodies("teammate", agents - 1, (others, 2), (messages, 2), teammates=True),
    )


def _rows_of_table(agents: int) -> tuple[EntityBlock, ...]:
    return (
        bodies("landmark", agents, (FEATURES, FEATURES)),
        bodies("teammate", agents - 1, (FEATURES * (1 + agents), FEATURES), teammates=True),
    )


make = maker(SimpleSpread, any_number(default=3, least=1), {"local_ratio": ratio, "entities": flag})
