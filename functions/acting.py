"""Who acts how: the agents of a class that act in one way, with their networks and what the outputs of these mean."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import erf
from typing import Any, Literal

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from functions.contract import Behaviour, Team
from functions.environments.base import ActionArray, AgentClass, EnvSpec, FloatArray, Observation
from functions.nn import heads
from functions.nn.batched import BatchedNetwork, batch_networks
from functions.nn.heads import Head
from functions.nn.losses import mask_logits

Acting = Literal["learning", "drawn", "greedy", "random"]


@dataclass(frozen=True)
class Seats:
    """Agents of class number `index`, at the positions `places` in it (None: all), who act as `acting` says: those who
    learn as the run's behaviour, opponents as in `Opponents`. `kind` is their class with nobody else in it. Who acts
    at random has no networks."""

    index: int
    places: NDArray[np.intp] | None
    kind: AgentClass
    acting: Acting
    head: Head
    networks: BatchedNetwork | None

    def start(self, num_envs: int) -> FloatArray | None:
        """What is remembered when episodes start."""
        return None if self.networks is None else self.networks.start(num_envs)

    def outputs(
        self, observation: Observation, memory: FloatArray | None, blocks: int
    ) -> tuple[FloatArray, FloatArray | None]:
        """``[n, E, width]``, illegal choices at a large negative number, and what is to be remembered."""
        values = self.of(observation.values[self.index], axis=1)
        rows, agents, features = values.shape
        if self.networks is None:
            outputs, after = np.zeros((agents, rows, self.kind.actions), np.float32), None
        else:
            shape = (agents, blocks, rows // blocks)
            before = None if memory is None else memory.reshape(*shape, -1)
            outputs, after = self.networks.outputs(values.swapaxes(0, 1).reshape(*shape, features), before)
            outputs = outputs.reshape(agents, rows, -1)
        if observation.masks is not None and not self.kind.continuous:
            legal = self.of(observation.masks[self.index], axis=1).swapaxes(0, 1)
            outputs = mask_logits(outputs, legal)
        return outputs, None if after is None else after.reshape(agents, rows, -1)

    def act(
        self,
        outputs: FloatArray,
        observation: Observation,
        noise: tuple[FloatArray, ...] | None,
        chance: tuple[FloatArray, ...] | None,
        behaviour: Behaviour,
    ) -> tuple[ActionArray, FloatArray | None]:
        """Recorded actions ``[n, E, ...]``, and the log-probability of each where they were drawn from a distribution.

        `noise` and `chance` as in `Policy.act`.
        """
        luck = chance if self.acting == "random" else noise
        if luck is None or self.acting == "greedy":
            return self.head.greedy(outputs), None
        log_std = None if self.networks is None else self.networks.log_std
        drawn = self.of(luck[self.index], axis=0)
        if self.acting == "random" and self.kind.continuous:
            return _uniform(drawn), None
        if self.acting != "learning":
            return self.head.draw(outputs, log_std, drawn)
        masks = observation.masks
        legal = None if masks is None else self.of(masks[self.index], axis=1).swapaxes(0, 1)
        return heads.act(self.head, outputs, log_std, drawn, behaviour, legal)

    def of(self, array: NDArray[Any], axis: int) -> NDArray[Any]:
        """The agents' own part of an array of the class, whose agents stand along `axis`."""
        return array if self.places is None else array.take(self.places, axis)


def seated(spec: EnvSpec, team: Team, tensors: Mapping[str, NDArray[Any]]) -> tuple[Seats, ...]:
    """All agents, class by class, in each those who learn first; raises `BadRequest` as `batch_networks` does."""
    found = []
    learning: Acting = "learning"
    opponents: Acting = team.opponents.acting if team.opponents else learning
    for index, kind in enumerate(spec.classes):
        fixed = np.isin(kind.agents, team.fixed)
        for who, acting in ((~fixed, learning), (fixed, opponents)):
            if not who.any():
                continue
            # All of a class are its arrays as they are, without a copy.
            places = None if who.all() else np.flatnonzero(who)
            part = replace(kind, agents=tuple(agent for agent, here in zip(kind.agents, who, strict=True) if here))
            networks = None
            if acting != "random":
                networks = batch_networks(replace(spec, classes=(part,)), team, tensors, 0)
            head = heads.head_of(kind, stochastic=False) if networks is None else networks.head(kind)
            found.append(Seats(index, places, part, acting, head, networks))
    return tuple(found)


def _uniform(normal: NDArray[Any]) -> ActionArray:
    """Numbers of [-1, 1], each as likely as the others, out of standard normal ones: 2 Φ(z) - 1 = erf(z / √2)."""
    return np.array([erf(value) for value in (normal.ravel() / np.sqrt(2.0)).tolist()], np.float32).reshape(
        normal.shape
    )
