"""Observations followed by the agent's last action, for any environment: `task.last_action`.

With observations alone, a recurrent network must remember its own acts to tell them from others' (Hausknecht and Stone,
"Deep Recurrent Q-Learning for Partially Observable MDPs", 2015). Rashid et al., "QMIX", 2018, add the last action. Here
it is part of the observation, so every algorithm and every actor has it.
"""

import dataclasses
from collections.abc import Sequence

import msgspec
import numpy as np

from marless.functions.environments.base import (
    ActionArray,
    AgentClass,
    FloatArray,
    Observation,
    Step,
    VectorEnvironment,
)


class LastAction:
    """E environments with observations that end with the last action: the one-hots of choices, or continuous actions as
    numbers of [-1, 1]. They are zeros at an episode's first step and for dead agents.
    """

    def __init__(self, environment: VectorEnvironment) -> None:
        self.environment, self.num_envs, kinds = environment, environment.num_envs, environment.spec.classes
        self.spec = msgspec.structs.replace(environment.spec, classes=tuple(map(_with_action, kinds)))

    def reset(self, rng: np.random.Generator) -> Observation:
        """The first observations, with zeros behind them."""
        observation, kinds = self.environment.reset(rng), self.spec.classes
        nothing = [np.zeros((self.num_envs, len(kind.agents), kind.actions), np.float32) for kind in kinds]
        return self._with_last_actions(observation, nothing)

    def step(self, actions: tuple[ActionArray, ...]) -> Step:
        """The environment's step, with `actions` behind its observations."""
        last_actions = [numbers_of(kind, part) for kind, part in zip(self.spec.classes, actions, strict=True)]
        step = self.environment.step(actions)
        final = None if step.final is None else self._with_last_actions(step.final, last_actions)
        actions_of_episode = [part * ~step.ended[:, None, None] for part in last_actions]
        return dataclasses.replace(
            step, observation=self._with_last_actions(step.observation, actions_of_episode), final=final
        )

    def close(self) -> None:
        """Closes the environment."""
        self.environment.close()

    def _with_last_actions(self, observation: Observation, actions: Sequence[FloatArray]) -> Observation:
        values = tuple(
            np.concatenate([values, part * observation.alive[:, kind.agents, None]], axis=-1, dtype=np.float32)
            for kind, values, part in zip(self.spec.classes, observation.values, actions, strict=True)
        )
        return dataclasses.replace(observation, values=values)


def _with_action(kind: AgentClass) -> AgentClass:
    """The class with the last action behind its observations, where it is the agent's own."""
    size, entities = kind.observation_size + kind.actions, kind.entities
    if entities is not None:
        entities = msgspec.structs.replace(entities, own=(*entities.own, *range(kind.observation_size, size)))
    return msgspec.structs.replace(kind, observation_size=size, entities=entities)


def numbers_of(kind: AgentClass, actions: ActionArray) -> FloatArray:
    """Actions ``[..., ]`` or ``[..., branches or d]`` as the numbers ``[..., kind.actions]`` that a network sees."""
    if kind.continuous:
        return within_unit(actions, np.array(kind.low, np.float32), np.array(kind.high, np.float32))
    choices = actions if kind.branches else actions[..., None]
    widths = kind.branches or (kind.actions,)
    one_hots = [np.eye(width, dtype=np.float32)[choices[..., place]] for place, width in enumerate(widths)]
    return np.concatenate(one_hots, axis=-1)


def within_unit(actions: ActionArray, low: ActionArray, high: ActionArray) -> FloatArray:
    """Numbers ``[..., d]`` from `low` to `high` as numbers from -1 to 1, or 0 if both bounds are equal."""
    # Halves: the difference of two finite bounds may overflow.
    half = np.asarray(0.5, low.dtype)
    span = half * high - half * low
    moves = span > 0
    share = (half * actions - half * low) / np.where(moves, span, 1)
    return np.where(moves, 2 * share - 1, 0).astype(np.float32)
