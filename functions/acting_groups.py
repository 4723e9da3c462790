"""Acting groups: agents of one class that act in the same way, with their networks and action heads."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import erf
from typing import Any, Literal

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from marless.functions.environments.base import ActionArray, AgentClass, BoolArray, EnvSpec, FloatArray, Observation
from marless.functions.environments.scripted.players import choose
from marless.functions.messages.actor import Behaviour
from marless.functions.messages.team import Team
from marless.functions.nn import heads
from marless.functions.nn.batched_acting import ActingNetworks, acting_head, batch_networks
from marless.functions.nn.heads import Head
from marless.functions.nn.losses import mask_logits

Acting = Literal["learning", "drawn", "greedy", "random", "scripted"]


@dataclass(frozen=True)
class ActingGroup:
    """Agents of one class that act in the same way."""

    # Number of their class.
    index: int
    # Their positions in the class, or None for the whole class.
    positions: NDArray[np.intp] | None
    # The class reduced to these agents.
    kind: AgentClass
    # Learners follow the run's behaviour, opponents the mode of `Opponents`.
    acting: Acting
    head: Head
    # None for agents that act at random or by a script.
    networks: ActingNetworks | None
    script: str = ""

    def start(self, num_envs: int) -> FloatArray | None:
        """The hidden state at the start of episodes. None without networks."""
        return None if self.networks is None else self.networks.start(num_envs)

    def outputs(
        self, observation: Observation, hidden: FloatArray | None, blocks: int
    ) -> tuple[FloatArray, FloatArray | None]:
        """``[n, E, width]``, illegal choices at a large negative number, and the next hidden state."""
        values = self.of(observation.values[self.index], axis=1)
        rows, agents, features = values.shape
        if self.networks is None:
            outputs, after = np.zeros((agents, rows, self.kind.actions), np.float32), None
        else:
            shape = (agents, blocks, rows // blocks)
            hidden_before = None if hidden is None else hidden.reshape(*shape, -1)
            outputs, after = self.networks.outputs(values.swapaxes(0, 1).reshape(*shape, features), hidden_before)
            outputs = outputs.reshape(agents, rows, -1)
        if observation.masks is not None and not self.kind.continuous:
            outputs = mask_logits(outputs, self.of(observation.masks[self.index], axis=1).swapaxes(0, 1))
        if self.script:
            outputs = mask_logits(outputs, self._scripted_actions(values, observation.masks))
        return outputs, None if after is None else after.reshape(agents, rows, -1)

    def _scripted_actions(self, values: FloatArray, masks: tuple[BoolArray, ...] | None) -> BoolArray:
        """The values of actions ``[n, E, actions]`` for the script, from the agents' observations ``[E, n,
        features]``."""
        shape = (*values.shape[:2], self.kind.actions)
        legal = np.ones(shape, np.bool_) if masks is None else self.of(masks[self.index], axis=1)
        actions = choose(self.script, values.reshape(-1, values.shape[2]), legal.reshape(-1, shape[2]))
        return actions.reshape(shape).swapaxes(0, 1)

    def act(
        self,
        outputs: FloatArray,
        observation: Observation,
        noise: tuple[FloatArray, ...] | None,
        chance: tuple[FloatArray, ...] | None,
        behaviour: Behaviour,
    ) -> tuple[ActionArray, FloatArray | None]:
        """Recorded actions ``[n, E, ...]``, and the log-probability of each where they were drawn from a distribution.

        `Policy.act` explains `noise` and `chance`.
        """
        source = chance if self.networks is None else noise
        if source is None or self.acting == "greedy":
            return self.head.greedy(outputs), None
        log_std = None if self.networks is None else self.networks.log_std
        numbers = self.of(source[self.index], axis=0)
        if self.networks is None and self.kind.continuous:
            return _uniform(numbers), None
        if self.acting != "learning":
            return self.head.draw(outputs, log_std, numbers)
        masks = observation.masks
        legal = None if masks is None else self.of(masks[self.index], axis=1).swapaxes(0, 1)
        return heads.act(self.head, outputs, log_std, numbers, behaviour, legal)

    def of(self, array: NDArray[Any], axis: int) -> NDArray[Any]:
        """The part of these agents in an array of the class, with agents along `axis`."""
        return array if self.positions is None else array.take(self.positions, axis)


def acting_groups(spec: EnvSpec, team: Team, tensors: Mapping[str, NDArray[Any]]) -> tuple[ActingGroup, ...]:
    """The groups of every class in order, learners before opponents. Raises `BadRequest` as `batch_networks` does."""
    groups = []
    learning: Acting = "learning"
    opponents: Acting = team.opponents.acting if team.opponents else learning
    for index, kind in enumerate(spec.classes):
        is_fixed = np.isin(kind.agents, team.fixed)
        for members, acting in ((~is_fixed, learning), (is_fixed, opponents)):
            if not members.any():
                continue
            # A group that is the whole class uses its arrays without a copy.
            positions = None if members.all() else np.flatnonzero(members)
            part = replace(
                kind, agents=tuple(agent for agent, member in zip(kind.agents, members, strict=True) if member)
            )
            networks, script = None, ""
            if acting == "scripted" and team.opponents:
                script = team.opponents.script
            elif acting != "random":
                networks = batch_networks(replace(spec, classes=(part,)), team, tensors, 0)
            head = acting_head(team, kind, networks)
            groups.append(ActingGroup(index, positions, part, acting, head, networks, script))
    return tuple(groups)


def _uniform(normal: NDArray[Any]) -> ActionArray:
    """Uniform numbers of [-1, 1] from standard normal ones: 2 Φ(z) - 1 = erf(z / √2)."""
    return np.array([erf(value) for value in (normal.ravel() / np.sqrt(2.0)).tolist()], np.float32).reshape(
        normal.shape
    )
