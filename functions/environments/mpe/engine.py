"""The Multi-Particle Environments (Lowe et al. 2017, arXiv:1706.02275) for E copies at once, in numpy.

`World` is the physics, `Scenario` is what one task adds to it (bodies, start, observation, rewards), `Engine` makes a
vector environment of the two. The arithmetic follows the `mpe2` package operation by operation, in its order, so that
equal states and actions give equal float64 results (agents that collide and stand on one point give NaN in both).
Inside, copies are the last axis: every numpy call then runs over long contiguous rows. Tasks belong in files of their
own.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from functions.environments.base import (
    ActionArray,
    AgentClass,
    BoolArray,
    FloatArray,
    Observation,
    Spec,
    Step,
)

Real = NDArray[np.float64]
Numbers = NDArray[np.int64]

TIME_STEP = 0.1
DAMPING = 0.25
CONTACT_FORCE = 1e2
CONTACT_MARGIN = 1e-3

# Direction of push per action number: none, left, right, down, up.
_PUSH = np.array([[0.0, -1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, -1.0, 1.0]])


@dataclass(frozen=True)
class Body:
    """A disc of mass 1; `size` is its radius, an agent's push is `acceleration` long."""

    name: str
    size: float
    collides: bool
    acceleration: float = 5.0
    max_speed: float = math.inf


@dataclass(frozen=True)
class WorldState:
    """The physical state of E copies, copies first.

    `position` ``[E, agents + landmarks, 2]``, `velocity` ``[E, agents, 2]``, `goals` ``[E, goals]`` landmark numbers,
    `cycle` steps taken since the episode's start.
    """

    position: Real
    velocity: Real
    goals: Numbers
    cycle: int


class World:
    """Bodies of E copies and their physics; distances stand ready after every `measure`.

    `position` ``[agents + landmarks + goals, 2, E]``: goal rows repeat the place of the landmark that `goals`
    ``[goals, E]`` names, so a goal is seen like a body. `velocity` ``[agents, 2, E]``. `relative`
    ``[agents, rows of position, 2, E]``: places seen from each agent; `distance` ``[agents, rows of position, E]``.
    """

    def __init__(self, agents: tuple[Body, ...], landmarks: tuple[Body, ...], goals: int, copies: int) -> None:
        self.agents = len(agents)
        self.bodies = len(agents) + len(landmarks)
        self.copies = copies
        rows = self.bodies + goals
        self.position: Real = np.zeros((rows, 2, copies))
        self.velocity: Real = np.zeros((self.agents, 2, copies))
        self.goals: Numbers = np.zeros((goals, copies), np.int64)
        self.relative: Real = np.zeros((self.agents, rows, 2, copies))
        self.distance: Real = np.zeros((self.agents, rows, copies))
        self._squares: Real = np.zeros_like(self.relative)
        self._force: Real = np.zeros_like(self.velocity)
        self._change: Real = np.zeros_like(self.velocity)
        self._acceleration: Real = np.array([body.acceleration for body in agents])[:, None, None]
        self._max_speed: Real = np.array([body.max_speed for body in agents])[:, None]
        self._places = self.position[: self.agents]
        seen = (*range(self.agents, self.bodies), *range(self.agents))
        self._others: Numbers = np.array(
            [[agent * rows + body for body in seen if body != agent] for agent in range(self.agents)], np.int64
        )
        self._limited = bool(np.isfinite(self._max_speed).any())
        self._prepare_contacts(agents + landmarks)

    def advance(self, actions: tuple[ActionArray, ...], classes: tuple[AgentClass, ...]) -> None:
        """One time step; `actions` holds per class ``[E, n]`` movements 0..4."""
        for chosen, group in zip(actions, classes, strict=True):
            members = slice(group.agents[0], group.agents[-1] + 1)
            push = _PUSH.take(chosen.T, axis=1).swapaxes(0, 1)
            np.multiply(push, self._acceleration[members], out=self._force[members])
        if self._contacts:
            self._collide()
        np.multiply(self.velocity, TIME_STEP, out=self._change)
        np.add(self._places, self._change, out=self._places)
        self.velocity *= 1 - DAMPING
        np.multiply(self._force, TIME_STEP, out=self._change)
        self.velocity += self._change
        if self._limited:
            self._limit_speed()
        self.measure()

    def measure(self) -> None:
        """Brings `relative` and `distance` up to date with `position`."""
        np.subtract(self.position, self._places[:, None], out=self.relative)
        np.multiply(self.relative, self.relative, out=self._squares)
        np.add(self._squares[:, :, 0], self._squares[:, :, 1], out=self.distance)
        np.sqrt(self.distance, out=self.distance)

    def settle(self) -> None:
        """Follows a change of `position` or `goals` from outside."""
        for row, landmark in enumerate(self.goals, start=self.bodies):
            self.position[row] = self.position[self.agents + landmark, :, np.arange(self.copies)].T
        self.measure()

    def take(self, block: "World", first: int) -> None:
        """The state of `block` into its number of copies from `first` on; `settle` follows."""
        copies = slice(first, first + block.copies)
        self.position[..., copies] = block.position
        self.velocity[..., copies] = block.velocity
        self.goals[:, copies] = block.goals

    def surroundings(self, agents: slice) -> Real:
        """The landmarks, then the other agents, from each of `agents`: ``[n, 2 * (landmarks + agents - 1), E]``."""
        seen = self.relative.reshape(-1, 2, self.copies).take(self._others[agents], axis=0)
        return seen.reshape(len(seen), -1, self.copies)

    def _prepare_contacts(self, bodies: tuple[Body, ...]) -> None:
        """The pairs that can touch, at least one of them an agent, in the order in which mpe2 adds up their forces."""
        pairs = [
            (a, b)
            for a in range(self.agents)
            for b in range(a + 1, self.bodies)
            if bodies[a].collides and bodies[b].collides
        ]
        self._pairs: Numbers = np.array([a * len(self.position) + b for a, b in pairs], np.int64)
        self._reach: Real = np.array([bodies[a].size + bodies[b].size for a, b in pairs])[:, None]
        self._apart: Real = np.zeros((len(pairs), self.copies))
        self._overlap: Real = np.zeros_like(self._apart)
        self._push: Real = np.zeros((len(pairs), 2, self.copies))
        forces = [*self._force, *[None] * (self.bodies - self.agents)]
        self._contacts = [(forces[a], forces[b], push) for (a, b), push in zip(pairs, self._push, strict=True)]

    def _collide(self) -> None:
        """Adds the contact forces: k log(1 + exp(overlap / k)) along the line of centres, at any distance."""
        apart, overlap, push = self._apart, self._overlap, self._push
        # mode="clip" lets take write into `out` unbuffered; no index is out of range.
        np.take(self.distance.reshape(-1, self.copies), self._pairs, axis=0, out=apart, mode="clip")
        np.take(self.relative.reshape(-1, 2, self.copies), self._pairs, axis=0, out=push, mode="clip")
        np.subtract(self._reach, apart, out=overlap)
        overlap /= CONTACT_MARGIN
        # Keeps exp off its slow way through numbers below 1e-308; such a force changes nothing but a zero.
        np.maximum(overlap, -700.0, out=overlap)
        np.logaddexp(0.0, overlap, out=overlap)
        overlap *= CONTACT_MARGIN
        push *= CONTACT_FORCE
        push /= apart[:, None]
        push *= overlap[:, None]
        for first, second, away in self._contacts:
            np.subtract(first, away, out=first)
            if second is not None:
                np.add(second, away, out=second)

    def _limit_speed(self) -> None:
        squares = np.square(self.velocity)
        speed = np.sqrt(squares[:, 0] + squares[:, 1])
        fast = (speed > self._max_speed)[:, None]
        np.divide(self.velocity, speed[:, None], out=self.velocity, where=fast)
        np.multiply(self.velocity, self._max_speed[:, None], out=self.velocity, where=fast)


class Scenario(ABC):
    """What one task adds to the physics.

    Agents of a class are neighbours in `agents`. `goals` is how many landmarks are singled out in an episode.
    """

    agents: tuple[Body, ...]
    landmarks: tuple[Body, ...]
    classes: tuple[AgentClass, ...]
    goals: int = 0

    def start(self, world: World, rng: np.random.Generator) -> None:
        """Draws the places of all bodies, uniform in the square [-1, 1), and the goals; velocities are zero already."""
        world.position[: world.bodies] = rng.uniform(-1.0, 1.0, (world.bodies, 2, world.copies))
        world.goals[:] = rng.integers(len(self.landmarks), size=world.goals.shape)

    def moves(self, actions: tuple[ActionArray, ...]) -> tuple[ActionArray, ...]:
        """The movements 0..4 in `actions`, shaped alike; where agents speak, the scenario takes the words out here."""
        return actions

    @abstractmethod
    def observe(self, world: World, features: tuple[FloatArray, ...]) -> None:
        """Writes what agents see into `features`, per class ``[n, observation_size, E]``, zero where never written."""

    @abstractmethod
    def reward(self, world: World, out: Real) -> None:
        """Writes the rewards into `out` ``[agents, E]``."""


class Engine:
    """A scenario as a `VectorEnvironment`; all copies are in step, so all end together after `max_cycles` steps."""

    def __init__(self, scenario: Scenario, copies: int, max_cycles: int) -> None:
        self.copies = copies
        self.spec = Spec(
            agents=tuple(body.name for body in scenario.agents), classes=scenario.classes, horizon=max_cycles
        )
        self._scenario = scenario
        self._world = World(scenario.agents, scenario.landmarks, scenario.goals, copies)
        self._features = tuple(
            np.zeros((len(group.agents), group.observation_size, copies), np.float32) for group in scenario.classes
        )
        self._cycle = 0
        self._rngs: tuple[np.random.Generator, ...] = ()
        self._block = self._world
        agents = len(scenario.agents)
        self._alive = _constant(True, (copies, agents))
        self._unterminated = _constant(False, (copies, agents))
        self._running = _constant(False, (copies,))
        self._ended = _constant(True, (copies,))

    def reset(self, rng: np.random.Generator) -> Observation:
        return self.reset_blocks((rng,))

    def reset_blocks(self, rngs: Sequence[np.random.Generator]) -> Observation:
        """Starts every copy anew: as many equal blocks of copies as there are generators, each on its own.

        Raises `ValueError` when the copies cannot be shared out equally.
        """
        if not rngs or self.copies % len(rngs):
            raise ValueError(f"{self.copies} copies are not {len(rngs)} equal blocks")
        self._rngs = tuple(rngs)
        world, scenario, copies = self._world, self._scenario, self.copies // len(rngs)
        # Scenarios draw for a world of the block's size, whatever they draw: the numbers are those of the block alone.
        self._block = world if len(rngs) == 1 else World(scenario.agents, scenario.landmarks, scenario.goals, copies)
        return self._restart()

    def step(self, actions: tuple[ActionArray, ...]) -> Step:
        """Steps all copies at once; every copy ends, and starts anew, after `horizon` steps."""
        if not self._rngs:
            raise RuntimeError("an environment is reset before it is stepped")
        self._world.advance(self._scenario.moves(actions), self.spec.classes)
        self._cycle += 1
        rewards = np.empty((len(self.spec.agents), self.copies))
        self._scenario.reward(self._world, rewards)
        seen = self._observe()
        if self._cycle < self.spec.horizon:
            return Step(seen, rewards.T, self._unterminated, self._running, self._running)
        return Step(self._restart(), rewards.T, self._unterminated, self._ended, self._ended, final=seen)

    def close(self) -> None:
        """Nothing is held."""

    def snapshot(self) -> WorldState:
        """A copy of the physical state."""
        world = self._world
        return WorldState(
            position=world.position[: world.bodies].transpose(2, 0, 1).copy(),
            velocity=world.velocity.transpose(2, 0, 1).copy(),
            goals=world.goals.T.copy(),
            cycle=self._cycle,
        )

    def restore(self, state: WorldState) -> Observation:
        """Continues from `state`; resets that follow draw on the generator of the last `reset`."""
        world = self._world
        world.position[: world.bodies] = state.position.transpose(1, 2, 0)
        world.velocity[:] = state.velocity.transpose(1, 2, 0)
        world.goals[:] = state.goals.T
        self._cycle = state.cycle
        world.settle()
        return self._observe()

    def _restart(self) -> Observation:
        self._cycle = 0
        for number, rng in enumerate(self._rngs):
            self._block.velocity[:] = 0.0
            self._scenario.start(self._block, rng)
            if self._block is not self._world:
                self._world.take(self._block, number * self._block.copies)
        self._world.settle()
        return self._observe()

    def _observe(self) -> Observation:
        self._scenario.observe(self._world, self._features)
        # Fresh arrays, agent by agent contiguous: callers keep them and multiply them per agent.
        values = tuple(rows.transpose(0, 2, 1).copy().swapaxes(0, 1) for rows in self._features)
        return Observation(values, self._alive)


def _constant(value: bool, shape: tuple[int, ...]) -> BoolArray:
    """An array that all steps share, hence read-only."""
    array = np.full(shape, value)
    array.flags.writeable = False
    return array
