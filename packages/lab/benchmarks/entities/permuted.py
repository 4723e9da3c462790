"""A control of `task.order`: the entities of `mpe/simple_spread` in a fixed random order, another for each agent.

The option `permutation` is the seed of the order.
"""

import dataclasses

import msgspec
import numpy as np
from numpy.typing import NDArray

from marless.functions.environments import registry
from marless.functions.environments.base import ActionArray, AgentClass, EnvTask, Observation, Step, VectorEnvironment
from marless.functions.randomness import generator

ENTRY_POINT = "benchmark/permuted_spread = benchmarks.entities.permuted:make"


class Permuted:
    """E environments. In the observations of each agent, equal entities have a fixed random order."""

    def __init__(self, environment: VectorEnvironment, seed: int) -> None:
        self.spec, self.num_envs, self._environment = environment.spec, environment.num_envs, environment
        self._columns = [columns_of(kind, seed) for kind in environment.spec.classes]

    def reset(self, rng: np.random.Generator) -> Observation:
        """Return the first observations."""
        return self._permuted(self._environment.reset(rng))

    def step(self, actions: tuple[ActionArray, ...]) -> Step:
        """Step all environments."""
        step = self._environment.step(actions)
        final = None if step.final is None else self._permuted(step.final)
        return dataclasses.replace(step, observation=self._permuted(step.observation), final=final)

    def close(self) -> None:
        """Close the environments."""
        self._environment.close()

    def _permuted(self, observation: Observation) -> Observation:
        values = tuple(
            np.take_along_axis(part, columns[None], axis=-1)
            for part, columns in zip(observation.values, self._columns, strict=True)
        )
        return dataclasses.replace(observation, values=values)


def columns_of(kind: AgentClass, seed: int) -> NDArray[np.intp]:
    """Return for each agent of a class the columns of its observation in the new order ``[agents, columns]``."""
    columns = np.tile(np.arange(kind.observation_size), (len(kind.agents), 1))
    for row, agent in zip(columns, kind.agents, strict=True):
        for block in kind.entities.blocks if kind.entities else ():
            places = np.array(block.columns)
            row[places] = generator(seed, "permutation", agent, block.name).permutation(places)
    return columns


def make(task: EnvTask, num_envs: int) -> Permuted:
    """Return environments of the task."""
    options = {name: value for name, value in task.options.items() if name != "permutation"}
    plain = msgspec.structs.replace(task, name="mpe/simple_spread", options=options)
    return Permuted(registry.make(plain, num_envs), int(task.options["permutation"]))
