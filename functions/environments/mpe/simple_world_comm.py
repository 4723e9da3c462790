"""Simple world comm: a chase with food, hiding places and a leader that speaks (`simple_world_comm_v3` of mpe2)."""

import dataclasses

import numpy as np

from marless.functions.environments.base import AgentClass, BoolArray, FloatArray
from marless.functions.environments.entities.description import Entities, EntityBlock
from marless.functions.environments.mpe.entities import bodies
from marless.functions.environments.mpe.options import maker, two_sides, whole
from marless.functions.environments.mpe.pursuit import PURSUIT_OPTIONS, Pursuit
from marless.functions.environments.mpe.world import Body, Numbers, Real, World
from marless.functions.environments.scene import ORANGE, SKY_BLUE

_WORDS = 4
_PREY_SIZE = 0.045
_FOOD_SIZE = 0.03
_FOREST_SIZE = 0.3
_COLOURS = ORANGE, SKY_BLUE
_LEADER, _FOOD, _FOREST = (0.65, 0.15, 0.15), (0.15, 0.15, 0.65), (0.6, 0.9, 0.6)


class SimpleWorldComm(Pursuit):
    """`num_adversaries` chasers, the first their leader, `num_good` prey. Obstacles, food and forests are landmarks.

    For every touch of a chaser and a prey all chasers get 5 and that prey loses 5. A chaser pays a tenth of its
    distance to the nearest prey. Prey gets 2 for every food touched and pays a twentieth of its distance to the nearest
    food and twice `astray`. All see their velocity, their position, the landmarks, the others, the velocities of the
    (other) prey and their forests. Chasers also see the leader's message. Two agents see each other if they share a
    forest or both are in none, and the leader sees all. Unseen values are zeros.
    """

    words = _WORDS

    def __init__(
        self, num_good: int, num_adversaries: int, num_obstacles: int = 1, num_food: int = 2, num_forests: int = 2
    ) -> None:
        followers = tuple(f"adversary_{i}" for i in range(num_adversaries - 1))
        super().__init__(("leadadversary_0", *followers), num_good, _PREY_SIZE, _COLOURS)
        self.agents = (dataclasses.replace(self.agents[0], speaks=True, colour=_LEADER), *self.agents[1:])
        self.landmarks = (
            *(Body(f"landmark_{i}", size=0.2, collides=True) for i in range(num_obstacles)),
            *(Body(f"food_{i}", _FOOD_SIZE, collides=False, colour=_FOOD) for i in range(num_food)),
            *(Body(f"forest_{i}", _FOREST_SIZE, collides=False, colour=_FOREST) for i in range(num_forests)),
        )
        agents = len(self.agents)
        forests = agents + num_obstacles + num_food
        self._food, self._forests = slice(agents + num_obstacles, forests), slice(forests, forests + num_forests)
        self._inside = np.array([body.size + _FOREST_SIZE for body in self.agents])[:, None, None]
        self._others: Numbers = np.array([[i * agents + j for j in range(agents) if j != i] for i in range(agents)])
        self._agents_offset = 4 + 2 * len(self.landmarks)
        self._seen = self._agents_offset + 2 * (agents - 1)
        self.classes = self._classes(num_good, (num_obstacles, num_food, num_forests))

    def observe(self, world: World, features: tuple[FloatArray, ...]) -> None:
        """Writes the observation of each agent, with zeros for values that forests hide."""
        inside = world.distance[:, self._forests] < self._inside
        sees = _sees(inside)
        around = world.relative_observations(slice(0, world.agents))
        self._hide(around, sees)
        speeds = np.where(sees[:, self.chasers :, None], world.velocity[self.chasers :], 0.0)
        hiding = np.where(inside, 1.0, -1.0)
        for rows, kind in zip(features, self.classes, strict=True):
            members = slice(kind.agents[0], kind.agents[-1] + 1)
            rows[:, 0:2] = world.velocity[members]
            rows[:, 2:4] = world.position[members]
            rows[:, 4 : self._seen] = around[members]
            rest = rows[:, self._seen :]
            if kind.agents[0] < self.chasers:
                _write_rest_of_chasers(rest, speeds[members], hiding[members], world.said[0])
            else:
                prey = np.arange(len(rows))[:, None]
                _write_rest_of_prey(rest, speeds[members][prey, self.fellows], hiding[members])

    def reward(self, world: World, out: Real) -> None:
        """Chasers gain by touches and lose by distance. Prey lose by touches and far outside, and gain by food."""
        contacts = self.contacts(world)
        chasers, prey = out[: self.chasers], out[self.chasers :]
        np.multiply(world.distance[: self.chasers, self.chasers : world.agents].min(axis=1), -0.1, out=chasers)
        # Touch by touch and food by food, as mpe2 adds: sums of fractions depend on their order.
        touches = contacts.reshape(-1, world.num_envs)
        for payment in 5.0 * touches[touches.any(axis=1)]:
            chasers += payment
        np.multiply(contacts.sum(axis=1, dtype=np.int16), -5.0, out=prey)
        astray = 2 * self.astray(world)
        prey -= astray[:, 0]
        prey -= astray[:, 1]
        to_food = world.distance[self.chasers :, self._food]
        for payment in 2.0 * (to_food < _PREY_SIZE + _FOOD_SIZE).swapaxes(0, 1):
            prey += payment
        prey -= 0.05 * to_food.min(axis=1)

    def _classes(self, num_good: int, landmarks: tuple[int, int, int]) -> tuple[AgentClass, ...]:
        """The leader, the other chasers if there are any, the prey."""
        agents, num_forests = len(self.agents), landmarks[2]
        of_chasers = self._seen + 2 * num_good + num_forests + _WORDS
        of_prey = self._seen + 2 * (num_good - 1) + num_forests
        fixed = self._landmark_blocks(landmarks, self._seen + 2 * num_good)
        leader = Entities.of(of_chasers, *fixed, *self._seen_by_chasers(num_good, leader=True))
        chaser = Entities.of(of_chasers, *fixed, *self._seen_by_chasers(num_good, leader=False))
        fixed = self._landmark_blocks(landmarks, self._seen)
        prey = Entities.of(of_prey, *fixed, *self._seen_by_prey(num_good, num_forests))
        classes = (
            AgentClass("leadadversary", (0,), of_chasers, actions=5 * _WORDS, entities=leader),
            AgentClass("adversary", tuple(range(1, self.chasers)), of_chasers, actions=5, entities=chaser),
            AgentClass("agent", tuple(range(self.chasers, agents)), of_prey, actions=5, entities=prey),
        )
        return tuple(kind for kind in classes if kind.agents)

    def _landmark_blocks(self, landmarks: tuple[int, int, int], inside: int) -> tuple[EntityBlock, ...]:
        """Return the blocks of obstacles, food and forests. Columns from `inside` name the agent's forests."""
        obstacles, food, forests = landmarks
        return (
            bodies("obstacle", obstacles, (4, 2)),
            bodies("food", food, (4 + 2 * obstacles, 2)),
            bodies("forest", forests, (4 + 2 * (obstacles + food), 2), (inside, 1)),
        )

    def _seen_by_chasers(self, num_good: int, leader: bool) -> tuple[EntityBlock, ...]:
        """Return the blocks of agents that a chaser sees. No one can hide from the leader."""
        others, prey = self._agents_offset, (self._agents_offset + 2 * (self.chasers - 1), 2)
        chasers, follows = self.chasers - 1, not leader
        return (
            bodies("leader", int(follows), (others, 2), teammates=True, hidden=True),
            bodies("teammate", chasers - follows, (others + 2 * follows, 2), teammates=True, hidden=follows),
            bodies("opponent", num_good, prey, (self._seen, 2), hidden=follows),
        )

    def _seen_by_prey(self, num_good: int, num_forests: int) -> tuple[EntityBlock, ...]:
        others, speeds = self._agents_offset, (self._seen + num_forests, 2)
        fellows = (others + 2 * self.chasers, 2)
        return (
            bodies("leader", 1, (others, 2), hidden=True),
            bodies("opponent", self.chasers - 1, (others + 2, 2), hidden=True),
            bodies("teammate", num_good - 1, fellows, speeds, teammates=True, hidden=True),
        )

    def _hide(self, around: Real, sees: BoolArray) -> None:
        """Sets unseen agents in `around`, the `World.relative_observations` of all agents, to zeros."""
        agents, _, num_envs = around.shape
        positions = around[:, self._agents_offset - 4 :].reshape(agents, agents - 1, 2, num_envs)
        np.copyto(positions, 0.0, where=~sees.reshape(-1, num_envs).take(self._others, axis=0)[:, :, None])


def _sees(inside: BoolArray) -> BoolArray:
    """Flags of agents that see each other ``[agents, agents, E]``, given `inside` ``[agents, forests, E]``. 0 leads."""
    in_forest: BoolArray = np.logical_or.reduce(inside, axis=1)
    sees = ~(in_forest[:, None] | in_forest)
    for forest in inside.swapaxes(0, 1):
        sees |= forest[:, None] & forest
    sees[0] = True
    return sees


def _write_rest_of_chasers(rest: FloatArray, speeds: Real, hiding: Real, message: Real) -> None:
    """Speeds ``[n, prey, 2, E]``, forests ``[n, forests, E]``, then the leader's words ``[words, E]``."""
    ends = 2 * speeds.shape[1], 2 * speeds.shape[1] + hiding.shape[1]
    rest[:, : ends[0]] = speeds.reshape(rest[:, : ends[0]].shape)
    rest[:, ends[0] : ends[1]] = hiding
    rest[:, ends[1] :] = message


def _write_rest_of_prey(rest: FloatArray, speeds: Real, hiding: Real) -> None:
    """Forests ``[n, forests, E]``, then speeds of the others ``[n, prey - 1, 2, E]``."""
    forests = hiding.shape[1]
    rest[:, :forests] = hiding
    rest[:, forests:] = speeds.reshape(rest[:, forests:].shape)


# mpe2 fails with zero food, because there is no nearest food.
make = maker(
    SimpleWorldComm,
    two_sides(num_good=2, num_adversaries=4),
    PURSUIT_OPTIONS | {"num_food": whole(1), "num_forests": whole(0)},
)
