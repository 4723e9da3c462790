"""Environments with sorted entities, see `task.order`."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from marless.functions.environments.base import ActionArray, AgentClass, Observation, Step, VectorEnvironment
from marless.functions.environments.resumable import Saved
from marless.functions.environments.spaces.orders import RULES, EntityOrder
from marless.functions.environments.spec_check import fault_of

INDEX = "index"


class Ordered:
    """E environments. In their observations, each block of equal entities is sorted.

    A global state of the environment stays as it is. A state that is made of observations is made of the sorted ones.
    """

    def __init__(self, environment: VectorEnvironment, rule: str) -> None:
        """Raise `ValueError` if the rule would sort nothing."""
        self.environment, self.spec, self.num_envs = environment, environment.spec, environment.num_envs
        if fault := fault_of(self.spec):
            raise ValueError(fault)
        _require_entities(self.spec.classes, rule)
        self._orders = tuple(order_of(rule, kind) for kind in self.spec.classes)
        # Environments have these methods if they can be saved, or reset in blocks.
        save = getattr(environment, "save", None)
        for name, method in {"reset_blocks": self._reset_blocks, "save": save, "resume": self._resume}.items():
            if hasattr(environment, name):
                setattr(self, name, method)

    def reset(self, rng: np.random.Generator) -> Observation:
        """Return the first observations."""
        return self._sorted(self.environment.reset(rng))

    def step(self, actions: tuple[ActionArray, ...]) -> Step:
        """Step all environments."""
        step = self.environment.step(actions)
        final = None if step.final is None else self._sorted(step.final)
        return dataclasses.replace(step, observation=self._sorted(step.observation), final=final)

    def close(self) -> None:
        """Close the environment."""
        self.environment.close()

    def _reset_blocks(self, rngs: Sequence[np.random.Generator]) -> Observation:
        environment: Any = self.environment
        return self._sorted(environment.reset_blocks(rngs))

    def _resume(self, saved: Saved, rng: np.random.Generator) -> Observation:
        environment: Any = self.environment
        return self._sorted(environment.resume(saved, rng))

    def _sorted(self, observation: Observation) -> Observation:
        values = tuple(
            part if order is None else order.sort(part)
            for order, part in zip(self._orders, observation.values, strict=True)
        )
        return dataclasses.replace(observation, values=values)


def order_of(rule: str, kind: AgentClass) -> EntityOrder | None:
    """Return the order of a class's observations, or None if all entities keep their places."""
    if rule == INDEX or kind.entities is None:
        return None
    order = EntityOrder(rule, msgspec.to_builtins(kind.entities))
    return order if order.blocks else None


def _require_entities(classes: Sequence[AgentClass], rule: str) -> None:
    orders = [order for kind in classes if (order := order_of(rule, kind))]
    if not any(kind.entities for kind in classes):
        raise ValueError(f"task.order={rule}: the environment does not describe its entities. Use {INDEX}")
    if not orders:
        raise ValueError(f"task.order={rule}: no agent sees two equal entities with positions. Use {INDEX}")
    if RULES[rule] and not any(block.teammates for order in orders for block in order.blocks):
        raise ValueError(f"task.order={rule}: no agent sees equal entities and a teammate. Use distance or {INDEX}")
