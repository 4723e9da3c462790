"""Random legal actions, drawn beforehand, so that an adapter and a plain loop play the same episodes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from marless.functions.environments.base import (
    ActionArray,
    AgentClass,
    BoolArray,
    EnvSpec,
    Observation,
    VectorEnvironment,
)

SEED = 1
_SEEDS = 2**31  # as the adapter of PettingZoo draws a seed for each reset
_LONGEST = 20


@dataclass(frozen=True)
class Plan:
    """Whole episodes of the first environment, and the other environments' actions meanwhile."""

    spec: EnvSpec
    # For each step per class, as `VectorEnvironment.step` takes them.
    actions: list[tuple[ActionArray, ...]]
    # For each step the agents of the first environment that act, ``[N]``.
    alive: list[BoolArray]
    # The number of steps in each episode of the first environment.
    lengths: list[int]

    def seeds(self) -> list[int]:
        """The seeds of all resets, one more than there are episodes, as the adapter of PettingZoo draws them."""
        rng = np.random.default_rng(SEED)
        return [int(rng.integers(_SEEDS)) for _ in range(len(self.lengths) + 1)]

    def episodes(self) -> Iterator[list[list[Any]]]:
        """For each episode and step, the actions of all agents of the first environment, as packages number them."""
        steps = iter(self.actions)
        for length in self.lengths:
            yield [self._own(next(steps)) for _ in range(length)]

    def dictionaries(self, names: Sequence[Any]) -> list[list[dict[Any, Any]]]:
        """The same for living agents only, by the names of all agents."""
        alive = iter(self.alive)
        return [
            [{names[i]: step[i] for i in np.flatnonzero(next(alive)).tolist()} for step in episode]
            for episode in self.episodes()
        ]

    def _own(self, actions: tuple[ActionArray, ...]) -> list[Any]:
        own: list[Any] = [None] * len(self.spec.agents)
        for kind, chosen in zip(self.spec.classes, actions, strict=True):
            for place, agent in enumerate(kind.agents):
                several = kind.continuous or kind.branches
                own[agent] = chosen[0, place] if several else int(chosen[0, place]) + kind.first_action
        return own


def draw(environment: VectorEnvironment, steps: int) -> Plan:
    """A plan of at least `steps` steps, to the end of an episode of the first environment.

    Raises `ValueError` when none ends.
    """
    rng = np.random.default_rng(SEED + 1)
    seen = environment.reset(np.random.default_rng(SEED))
    actions: list[tuple[ActionArray, ...]] = []
    alive: list[BoolArray] = []
    lengths: list[int] = []
    began = 0
    while sum(lengths) < steps:
        if len(actions) - began > _LONGEST * steps:
            raise ValueError(f"no episode ends within {_LONGEST * steps} steps")
        chosen = _legal(environment, seen, rng)
        actions.append(chosen)
        alive.append(seen.alive[0].copy())
        step = environment.step(chosen)
        seen = step.observation
        if step.ended[0]:
            lengths.append(len(actions) - began)
            began = len(actions)
    return Plan(environment.spec, actions, alive, lengths)


def _legal(environment: VectorEnvironment, seen: Observation, rng: np.random.Generator) -> tuple[ActionArray, ...]:
    chosen = []
    for index, kind in enumerate(environment.spec.classes):
        shape = (environment.num_envs, len(kind.agents), kind.actions)
        if kind.continuous:
            low, high = np.array(kind.low, np.float32), np.array(kind.high, np.float32)
            chosen.append(np.clip(rng.uniform(low, high, shape).astype(np.float32), low, high))
        else:
            masks = np.ones(shape, np.bool_) if seen.masks is None else seen.masks[index]
            chosen.append(_choices(kind, np.where(masks, rng.random(shape), -1.0)))
    return tuple(chosen)


def _choices(kind: AgentClass, drawn: ActionArray) -> ActionArray:
    """The largest of the numbers ``[E, n, actions]`` of every choice."""
    parts = np.split(drawn, np.cumsum(kind.branches)[:-1], axis=-1) if kind.branches else [drawn]
    chosen = np.stack([part.argmax(axis=-1) for part in parts], axis=-1)
    return chosen if kind.branches else chosen[..., 0]
