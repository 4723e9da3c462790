"""Bodies in the plane, their physics for E environments at once (pushes, contacts, speed limits), and messages.

The arithmetic repeats the operations of the `mpe2` package in their order. So equal states and actions give equal
float64 results (colliding agents on one point give NaN in both). Environments are the last axis, so that every numpy
call runs over long contiguous rows.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.scene import Colour

Real = NDArray[np.float64]
Numbers = NDArray[np.int64]

TIME_STEP = 0.1
DAMPING = 0.25
CONTACT_FORCE = 1e2
CONTACT_MARGIN = 1e-3

GREY: Colour = (0.25, 0.25, 0.25)


@dataclass(frozen=True)
class Body:
    """A disc of mass 1: an agent or a landmark, which never moves."""

    name: str
    # Radius.
    size: float
    collides: bool
    # Length of an agent's push.
    acceleration: float = 5.0
    max_speed: float = math.inf
    moves: bool = True
    speaks: bool = False
    # In pictures.
    colour: Colour = GREY


class World:
    """Bodies of E environments and their physics. `measure` updates all distances.

    `position` ``[agents + landmarks + goals, 2, E]``: goal rows repeat the position of the landmark that `goals`
    ``[goals, E]`` names, so that goals are observed like bodies. `velocity` ``[agents, 2, E]``. `said` ``[agents,
    words, E]``: the latest message of each agent, zeros without one. `relative` ``[agents, rows of position, 2, E]``:
    positions relative to each agent. `squares` are their squares, and `distance` is ``[agents, rows of position, E]``.
    """

    def __init__(
        self, agents: tuple[Body, ...], landmarks: tuple[Body, ...], goals: int, words: int, num_envs: int
    ) -> None:
        self.agents = len(agents)
        self.bodies = len(agents) + len(landmarks)
        self.num_envs = num_envs
        rows = self.bodies + goals
        self.position: Real = np.zeros((rows, 2, num_envs))
        self.velocity: Real = np.zeros((self.agents, 2, num_envs))
        self.said: Real = np.zeros((self.agents, words, num_envs))
        self.goals: Numbers = np.zeros((goals, num_envs), np.int64)
        self.relative: Real = np.zeros((self.agents, rows, 2, num_envs))
        self.squares: Real = np.zeros_like(self.relative)
        self.distance: Real = np.zeros((self.agents, rows, num_envs))
        self._force: Real = np.zeros_like(self.velocity)
        self._acceleration: Real = np.array([body.acceleration for body in agents])[:, None, None]
        self._agent_positions = self.position[: self.agents]
        targets = (*range(self.agents, self.bodies), *range(self.agents))
        self._others: Numbers = np.array(
            [[agent * rows + body for body in targets if body != agent] for agent in range(self.agents)], np.int64
        )
        self._prepare_motion(agents)
        self._prepare_contacts(agents + landmarks)

    @staticmethod
    def exp(values: Real) -> Real:
        """e to the power of numbers from -700 to 700."""
        return np.exp(values)

    @staticmethod
    def softplus(values: Real) -> None:
        """Writes log(1 + exp(x)) over every number."""
        # Avoids exp's slow path for results below 1e-308. Such a force can change only a zero.
        np.maximum(values, -700.0, out=values)
        np.logaddexp(0.0, values, out=values)

    def push(self, agents: slice, direction: NDArray[Any]) -> None:
        """Sets the pushes of `agents` in the next step. `direction` ``[n, 2, E]`` is in units of their acceleration."""
        np.multiply(direction, self._acceleration[agents], out=self._force[agents])

    def advance(self) -> None:
        """One time step under the pushes and the contact forces."""
        if not self._moving.size:
            return
        if self._contacts:
            self._collide()
        self._moving += self._speeds * TIME_STEP
        self._speeds *= 1 - DAMPING
        self._speeds += self._pushes * TIME_STEP
        if self._limited:
            self._limit_speed()
        self.measure()

    def measure(self) -> None:
        """Updates `relative`, `squares` and `distance` after a change of `position`."""
        np.subtract(self.position, self._agent_positions[:, None], out=self.relative)
        np.multiply(self.relative, self.relative, out=self.squares)
        np.add(self.squares[:, :, 0], self.squares[:, :, 1], out=self.distance)
        np.sqrt(self.distance, out=self.distance)

    def update_derived(self) -> None:
        """Updates all derived arrays after a change of `position` or `goals`."""
        for row, landmark in enumerate(self.goals, start=self.bodies):
            self.position[row] = self.position[self.agents + landmark, :, np.arange(self.num_envs)].T
        self.measure()

    def take(self, block: "World", first: int) -> None:
        """Copies the state of `block` without messages into the environments from `first` on.

        Call `update_derived` afterwards.
        """
        num_envs = slice(first, first + block.num_envs)
        self.position[..., num_envs] = block.position
        self.velocity[..., num_envs] = block.velocity
        self.goals[:, num_envs] = block.goals

    def landmarks(self, agents: slice) -> Real:
        """Landmarks relative to each of `agents`: ``[n, 2 * landmarks, E]``."""
        relative = self.relative[agents, self.agents : self.bodies]
        return relative.reshape(len(relative), -1, self.num_envs)

    def relative_observations(self, agents: slice) -> Real:
        """Landmarks, then other agents, relative to each of `agents`: ``[n, 2 * (landmarks + agents - 1), E]``."""
        relative = self.relative.reshape(-1, 2, self.num_envs).take(self._others[agents], axis=0)
        return relative.reshape(len(relative), -1, self.num_envs)

    def _prepare_motion(self, agents: tuple[Body, ...]) -> None:
        moving = [number for number, body in enumerate(agents) if body.moves]
        self._movers = movers = slice(moving[0], moving[-1] + 1) if moving else slice(0)
        self._moving = self.position[movers]
        self._speeds = self.velocity[movers]
        self._pushes = self._force[movers]
        self._max_speed: Real = np.array([body.max_speed for body in agents[movers]])[:, None]
        self._limited = bool(np.isfinite(self._max_speed).any())

    def _prepare_contacts(self, bodies: tuple[Body, ...]) -> None:
        """The pairs of bodies that can collide, one of them an agent, in the order of mpe2's sums of their forces."""
        pairs = [
            (a, b)
            for a in range(self.agents)
            for b in range(a + 1, self.bodies)
            if bodies[a].collides and bodies[b].collides
        ]
        self._pairs: Numbers = np.array([a * len(self.position) + b for a, b in pairs], np.int64)
        self._reach: Real = np.array([bodies[a].size + bodies[b].size for a, b in pairs])[:, None]
        forces = [*self._force, *[None] * (self.bodies - self.agents)]
        self._contacts = [(forces[a], forces[b]) for a, b in pairs]

    def _collide(self) -> None:
        """Adds the contact forces: k log(1 + exp(overlap / k)) along the line of centres, at any distance."""
        apart = self.distance.reshape(-1, self.num_envs).take(self._pairs, axis=0)
        push = self.relative.reshape(-1, 2, self.num_envs).take(self._pairs, axis=0)
        overlap = (self._reach - apart) / CONTACT_MARGIN
        self.softplus(overlap)
        overlap *= CONTACT_MARGIN
        push *= CONTACT_FORCE
        push /= apart[:, None]
        push *= overlap[:, None]
        for (first, second), away in zip(self._contacts, push, strict=True):
            first -= away
            if second is not None:
                second += away

    def _limit_speed(self) -> None:
        squares = np.square(self._speeds)
        speed = np.sqrt(squares[:, 0] + squares[:, 1])
        fast = (speed > self._max_speed)[:, None]
        np.divide(self._speeds, speed[:, None], out=self._speeds, where=fast)
        np.multiply(self._speeds, self._max_speed[:, None], out=self._speeds, where=fast)
