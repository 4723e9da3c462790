"""The Multi-Particle Environments (Lowe et al. 2017, arXiv:1706.02275) for E environments at once, in numpy.

`World` (world.py) is the physics, and `Controls` (actions.py) converts actions to pushes and words. `Scenario` defines
the bodies, starts, observations and rewards of one env task, and `Engine` makes a vector environment of them. Equal
states and actions give the results of the `mpe2` package. Each scenario has its own file.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.base import ActionArray, AgentClass, EnvSpec, FloatArray, Observation, Step
from marless.functions.environments.mpe import shapes
from marless.functions.environments.mpe.actions import Controls, in_numbers
from marless.functions.environments.mpe.world import Body, Numbers, Real, World
from marless.functions.environments.scene import Colour, Scene


@dataclass(frozen=True)
class WorldState:
    """The state of E environments, which are the first axis.

    `position` ``[E, agents + landmarks, 2]``, `velocity` ``[E, agents, 2]``, `goals` ``[E, goals]`` landmark numbers,
    `said` ``[E, agents, words]`` the latest messages, `cycle` steps taken since the episode's start.
    """

    position: Real
    velocity: Real
    goals: Numbers
    said: Real
    cycle: int


class Scenario(ABC):
    """The bodies, starts, observations and rewards of one env task.

    Agents of a class are neighbours in `agents`, and so are agents that move. `classes` describe discrete actions, and
    `Engine` derives the continuous ones. `EnvSpec` explains `sides`. `goals` is the number of landmarks that are goals
    of an episode, `words` the number of words of agents that speak.
    """

    agents: tuple[Body, ...]
    landmarks: tuple[Body, ...]
    classes: tuple[AgentClass, ...]
    sides: tuple[int, ...] = ()
    goals: int = 0
    words: int = 0

    def start(self, world: World, rng: np.random.Generator) -> None:
        """Draws the positions of all bodies, uniform in [-1, 1) squared, and the goals. Velocities are zero already."""
        world.position[: world.bodies] = rng.uniform(-1.0, 1.0, (world.bodies, 2, world.num_envs))
        world.goals[:] = rng.integers(len(self.landmarks), size=world.goals.shape)

    def colours(self, goals: tuple[int, ...]) -> list[Colour]:
        """The colours of agents, then landmarks, in an episode with these goals. In mpe2, some colours mark goals."""
        return [body.colour for body in self.agents + self.landmarks]

    @abstractmethod
    def observe(self, world: World, features: tuple[FloatArray, ...]) -> None:
        """Writes observations into `features`, per class ``[n, observation_size, E]``, zero where never written."""

    @abstractmethod
    def reward(self, world: World, out: Real) -> None:
        """Writes the rewards into `out` ``[agents, E]``."""


class Engine:
    """A scenario as a `VectorEnvironment`. All environments end together, after `max_cycles` steps."""

    def __init__(
        self, scenario: Scenario, num_envs: int, max_cycles: int, continuous: bool = False, world: type[World] = World
    ) -> None:
        self.num_envs = num_envs
        self.spec = _spec(scenario, max_cycles, continuous)
        self._scenario = scenario
        self._world_type = world
        self._world = self._new_world(num_envs)
        self._controls = [Controls(kind, scenario.agents[kind.agents[0]], scenario.words) for kind in self.spec.classes]
        self._features = tuple(
            np.zeros((len(group.agents), group.observation_size, num_envs), np.float32) for group in scenario.classes
        )
        self._cycle = 0
        self._rngs: tuple[np.random.Generator, ...] = ()
        self._block = self._world
        # Called when episodes have ended, before the reset: the last state can be drawn there.
        self.before_reset: Callable[[], None] | None = None

    def reset(self, rng: np.random.Generator) -> Observation:
        return self.reset_blocks((rng,))

    def reset_blocks(self, rngs: Sequence[np.random.Generator]) -> Observation:
        """Resets every environment, in as many equal independent blocks as there are generators.

        Raises `ValueError` when the number of environments is not a multiple of the number of generators.
        """
        if not rngs or self.num_envs % len(rngs):
            raise ValueError(f"{self.num_envs} environments are not {len(rngs)} equal blocks")
        self._rngs = tuple(rngs)
        world, num_envs = self._world, self.num_envs // len(rngs)
        # Scenarios draw for a world of the block's size, so that its numbers do not depend on other blocks.
        self._block = world if len(rngs) == 1 else self._new_world(num_envs)
        return self._restart()

    def step(self, actions: tuple[ActionArray, ...]) -> Step:
        """Steps all environments at once. All end and are reset after `horizon` steps."""
        if not self._rngs:
            raise RuntimeError("an environment is reset before it is stepped")
        for controls, action in zip(self._controls, actions, strict=True):
            controls.apply(action, self._world)
        self._world.advance()
        self._cycle += 1
        rewards = np.empty((len(self.spec.agents), self.num_envs))
        self._scenario.reward(self._world, rewards)
        observation = self._observe()
        unterminated, no_end = np.zeros(observation.alive.shape, np.bool_), np.zeros(self.num_envs, np.bool_)
        if self._cycle < self.spec.horizon:
            return Step(observation, rewards.T, unterminated, no_end, no_end)
        if self.before_reset is not None:
            self.before_reset()
        return Step(self._restart(), rewards.T, unterminated, ~no_end, ~no_end, final=observation)

    def close(self) -> None:
        """Holds nothing to free."""

    @property
    def bodies(self) -> tuple[Body, ...]:
        """The agents, then the landmarks, in the order of `WorldState.position`."""
        return self._scenario.agents + self._scenario.landmarks

    def render(self, index: int) -> Scene:
        """The bodies of an environment, and messages."""
        world, scenario = self._world, self._scenario
        position = world.position[: world.bodies, :, index]
        continuous = self.spec.classes[0].continuous
        texts = [
            shapes.message(body.name, message, continuous)
            for body, message in zip(scenario.agents, world.said[..., index], strict=True)
            if body.speaks
        ]
        colours = scenario.colours(tuple(world.goals[:, index].tolist()))
        return shapes.scene(self.bodies, len(scenario.agents), colours, position, texts)

    def snapshot(self) -> WorldState:
        """A copy of the state."""
        world = self._world
        return WorldState(
            position=world.position[: world.bodies].transpose(2, 0, 1).copy(),
            velocity=world.velocity.transpose(2, 0, 1).copy(),
            goals=world.goals.T.copy(),
            said=world.said.transpose(2, 0, 1).copy(),
            cycle=self._cycle,
        )

    def restore(self, state: WorldState) -> Observation:
        """Continues from `state`. Later resets draw from the generator of the last `reset`."""
        world = self._world
        world.position[: world.bodies] = state.position.transpose(1, 2, 0)
        world.velocity[:] = state.velocity.transpose(1, 2, 0)
        world.goals[:] = state.goals.T
        world.said[:] = state.said.transpose(1, 2, 0)
        self._cycle = state.cycle
        world.update_derived()
        return self._observe()

    def save(self) -> dict[str, NDArray[Any]]:
        """See `marless.functions.environments.resumable`."""
        return {name: np.asarray(value) for name, value in vars(self.snapshot()).items()}

    def resume(self, saved: Mapping[str, NDArray[Any]], rng: np.random.Generator) -> Observation:
        """See `marless.functions.environments.resumable`."""
        self._rngs, self._block = (rng,), self._world
        position, velocity, goals, messages = (saved[name] for name in ("position", "velocity", "goals", "said"))
        return self.restore(WorldState(position, velocity, goals, messages, saved["cycle"].item()))

    def _new_world(self, num_envs: int) -> World:
        scenario = self._scenario
        return self._world_type(scenario.agents, scenario.landmarks, scenario.goals, scenario.words, num_envs)

    def _restart(self) -> Observation:
        self._cycle = 0
        self._world.said[:] = 0.0
        for number, rng in enumerate(self._rngs):
            self._block.velocity[:] = 0.0
            self._scenario.start(self._block, rng)
            if self._block is not self._world:
                self._world.take(self._block, number * self._block.num_envs)
        self._world.update_derived()
        return self._observe()

    def _observe(self) -> Observation:
        self._scenario.observe(self._world, self._features)
        # New arrays, contiguous by agent, because callers keep them and multiply them per agent.
        values = tuple(rows.transpose(0, 2, 1).copy().swapaxes(0, 1) for rows in self._features)
        return Observation(values, np.ones((self.num_envs, len(self.spec.agents)), np.bool_))


def _spec(scenario: Scenario, horizon: int, continuous: bool) -> EnvSpec:
    classes = scenario.classes
    if continuous:
        classes = tuple(in_numbers(kind, scenario.agents[kind.agents[0]], scenario.words) for kind in classes)
    names = tuple(body.name for body in scenario.agents)
    return EnvSpec(agents=names, classes=classes, horizon=horizon, sides=scenario.sides)
