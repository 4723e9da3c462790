"""Weights and observations to actions, in numpy only: what actors, evaluators and users play with.

A `Policy` acts for all agents of a vectorised environment; a `Player` does so step after step and remembers for
recurrent networks what they must. Neither the agents nor the blocks of copies that are played side by side know of
each other, to the last bit; see `functions.stacks`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from functions.algorithms import heads
from functions.algorithms.losses import ILLEGAL
from functions.contract import Behaviour, Team
from functions.environments.base import ActionArray, BoolArray, FloatArray, Observation, Spec
from functions.stacks import stack

SAMPLE = Behaviour()

Memory = tuple[FloatArray | None, ...]
"""Per class what recurrent networks remember ``[n, E, H]``, zeros when an episode starts; None for others."""


@dataclass(frozen=True)
class Choice:
    """What agents do in a step, per class.

    `actions` are for the record: ``[n, E]`` one choice, ``[n, E, branches]`` several, ``[n, E, d]`` numbers in policy
    units; see `functions.algorithms.heads`. `log_probability` ``[n, E]`` are those of each under the policy, None where
    agents did not act as a distribution says. `played` are the actions as the environment takes them, ``[E, n, ...]``.
    """

    actions: tuple[ActionArray, ...]
    log_probability: tuple[FloatArray, ...] | None
    played: tuple[ActionArray, ...]


class Policy:
    """All agents' policies; it remembers nothing, see `Player`.

    Where a call does without `memory`, it is the first step of an episode. Each of the `blocks` equal parts of E has
    the bytes that it has alone.
    """

    def __init__(self, spec: Spec, team: Team, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Raises `BadRequest` when the networks do not fit the task."""
        self.spec = spec
        self._stacks = tuple(stack(spec, team, tensors, index) for index in range(len(spec.classes)))
        self._heads = tuple(
            heads.head_of(kind, found.own is not None) for kind, found in zip(spec.classes, self._stacks, strict=True)
        )
        self.recurrent = any(found.gru is not None for found in self._stacks)

    def require(self, behaviour: Behaviour) -> None:
        """Raises `BadRequest` when not all agents can behave so."""
        for head in self._heads:
            heads.require(head, behaviour)

    def start(self, copies: int) -> Memory:
        """What is remembered when episodes start."""
        return tuple(networks.start(copies) for networks in self._stacks)

    def outputs(
        self, observation: Observation, memory: Memory | None = None, blocks: int = 1
    ) -> tuple[list[FloatArray], Memory]:
        """Per class ``[n, E, width]``, illegal choices at a large negative number, and what is to be remembered."""
        memory = self.start(len(observation.alive)) if memory is None else memory
        found, kept = [], []
        for index, (networks, remembered) in enumerate(zip(self._stacks, memory, strict=True)):
            rows, agents, features = observation.values[index].shape
            shape = (agents, blocks, rows // blocks)
            apart = observation.values[index].swapaxes(0, 1).reshape(*shape, features)
            before = None if remembered is None else remembered.reshape(*shape, -1)
            outputs, after = networks.outputs(apart, before)
            outputs = outputs.reshape(agents, rows, -1)
            if observation.masks is not None and not self.spec.classes[index].continuous:
                outputs = np.where(observation.masks[index].swapaxes(0, 1), outputs, np.float32(ILLEGAL))
            found.append(outputs)
            kept.append(None if after is None else after.reshape(agents, rows, -1))
        return found, tuple(kept)

    def logits(self, observation: Observation, blocks: int = 1) -> list[FloatArray]:
        """The outputs alone."""
        return self.outputs(observation, blocks=blocks)[0]

    def act(
        self,
        observation: Observation,
        noise: tuple[FloatArray, ...] | None,
        memory: Memory | None = None,
        behaviour: Behaviour = SAMPLE,
        blocks: int = 1,
    ) -> tuple[Choice, Memory]:
        """What agents do as `behaviour` says with the `noise` of a step (see `draws`), or greedily where it is None."""
        outputs, memory = self.outputs(observation, memory, blocks)
        actions: list[ActionArray] = []
        log_probability: list[FloatArray] = []
        for index, head in enumerate(self._heads):
            if noise is None:
                actions.append(head.greedy(outputs[index]))
                continue
            legal = None if observation.masks is None else observation.masks[index].swapaxes(0, 1)
            own = self._stacks[index].own
            chosen, probable = heads.act(head, outputs[index], own, noise[index], behaviour, legal)
            actions.append(chosen)
            if probable is not None:
                log_probability.append(probable)
        known = tuple(log_probability) if len(log_probability) == len(actions) else None
        return Choice(tuple(actions), known, self.to_environment(tuple(actions))), memory

    def to_environment(self, actions: tuple[ActionArray, ...]) -> tuple[ActionArray, ...]:
        """Recorded actions ``[n, E, ...]`` per class as the environment takes them, ``[E, n, ...]``."""
        pairs = zip(self._heads, actions, strict=True)
        return as_environment_actions(tuple(head.to_environment(part) for head, part in pairs))

    def sample(self, observation: Observation, noise: tuple[FloatArray, ...], blocks: int = 1) -> Choice:
        """Draws from the policies, with no memory."""
        return self.act(observation, noise, blocks=blocks)[0]

    def greedy(self, observation: Observation) -> tuple[ActionArray, ...]:
        """The most probable actions per class, with no memory."""
        return self.act(observation, None)[0].actions


class Player:
    """A policy at play in `copies` copies, whose episodes have just begun."""

    def __init__(self, policy: Policy, copies: int, blocks: int = 1, behaviour: Behaviour = SAMPLE) -> None:
        """Raises `BadRequest` when not all agents can behave so."""
        policy.require(behaviour)
        self._policy, self._blocks, self._behaviour = policy, blocks, behaviour
        self._memory = policy.start(copies)

    def act(self, seen: Observation, noise: tuple[FloatArray, ...] | None = None) -> Choice:
        """The next step's actions: as the behaviour says with the `noise` of the step, greedily without."""
        choice, self._memory = self._policy.act(seen, noise, self._memory, self._behaviour, self._blocks)
        return choice

    def forget(self, ended: BoolArray) -> None:
        """Starts anew in the copies that `ended` ``[E]``; to be told after every step."""
        if self._policy.recurrent and ended.any():
            for part in self._memory:
                if part is not None:
                    part[:, ended] = 0.0


def draws(spec: Spec, steps: int, copies: int, rng: np.random.Generator) -> tuple[FloatArray, ...]:
    """The noise of a whole unit, per class ``[T, n, E]`` or ``[T, n, E, numbers]``, drawn at once."""
    return tuple(heads.head_of(kind, own=True).noise((steps, len(kind.agents), copies), rng) for kind in spec.classes)


def as_environment_actions(actions: tuple[ActionArray, ...]) -> tuple[ActionArray, ...]:
    """``[n, E]`` per class to the environment's ``[E, n]``."""
    return tuple(part.swapaxes(0, 1) for part in actions)
