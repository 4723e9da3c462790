"""Weights and observations to actions, in numpy only: what actors, evaluators and users play with.

A `Policy` acts for all agents of a vectorised environment; a `Player` does so step after step and remembers for
recurrent networks what they must. Neither the agents nor the blocks of copies that are played side by side know of
each other, to the last bit; see `functions.nn.batched`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from functions.acting import seated
from functions.contract import Behaviour, Team
from functions.environments.base import ActionArray, BoolArray, EnvSpec, FloatArray, Observation
from functions.nn import heads

SAMPLE = Behaviour()

Memory = tuple[FloatArray | None, ...]
"""Per class, those of its agents who learn before opponents: what recurrent networks remember ``[n, E, H]``, zeros when
an episode starts; None for others."""


@dataclass(frozen=True)
class Choice:
    """What agents do in a step, per class.

    `actions` are for the record: ``[n, E]`` one choice, ``[n, E, branches]`` several, ``[n, E, d]`` numbers in policy
    units; see `functions.nn.heads`. `log_probability` ``[n, E]`` are those of each under the policy, None where
    agents that learn did not act as a distribution says. `played` are the actions as the environment takes them,
    ``[E, n, ...]``.
    """

    actions: tuple[ActionArray, ...]
    log_probability: tuple[FloatArray, ...] | None
    played: tuple[ActionArray, ...]


class Policy:
    """All agents' policies; it remembers nothing, see `Player`.

    Where a call does without `memory`, it is the first step of an episode. Each of the `blocks` equal parts of E has
    the bytes that it has alone.
    """

    def __init__(self, spec: EnvSpec, team: Team, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Raises `BadRequest` when the networks do not fit the task."""
        self.spec = spec
        self._seats = seated(spec, team, tensors)
        self.recurrent = any(seats.networks is not None and seats.networks.gru is not None for seats in self._seats)

    @property
    def by_chance(self) -> bool:
        """Whether some agents act at random."""
        return any(seats.acting == "random" for seats in self._seats)

    def require(self, behaviour: Behaviour) -> None:
        """Raises `BadRequest` when not all agents that learn can behave so."""
        for seats in self._seats:
            if seats.acting == "learning":
                heads.require(seats.head, behaviour)

    def start(self, num_envs: int) -> Memory:
        """What is remembered when episodes start."""
        return tuple(seats.start(num_envs) for seats in self._seats)

    def outputs(
        self, observation: Observation, memory: Memory | None = None, blocks: int = 1
    ) -> tuple[list[FloatArray], Memory]:
        """Per class ``[n, E, width]``, illegal choices at a large negative number, and what is to be remembered."""
        found, memory = self._outputs(observation, memory, blocks)
        return list(self._by_class(found)), memory

    def _outputs(self, observation: Observation, memory: Memory | None, blocks: int) -> tuple[list[FloatArray], Memory]:
        memory = self.start(len(observation.alive)) if memory is None else memory
        pairs = [seats.outputs(observation, before, blocks) for seats, before in zip(self._seats, memory, strict=True)]
        return [outputs for outputs, _ in pairs], tuple(after for _, after in pairs)

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
        chance: tuple[FloatArray, ...] | None = None,
    ) -> tuple[Choice, Memory]:
        """What agents do as `behaviour` says with the `noise` of a step (see `draws`), or greedily where it is None.

        Agents that act at random need `chance`, noise too; without it the first legal action stands in for theirs.
        """
        outputs, memory = self._outputs(observation, memory, blocks)
        chosen = [
            seats.act(part, observation, noise, chance, behaviour)
            for seats, part in zip(self._seats, outputs, strict=True)
        ]
        actions = [part for part, _ in chosen]
        played = [seats.head.to_environment(part) for seats, part in zip(self._seats, actions, strict=True)]
        known = self._log_probability(chosen) if noise is not None else None
        return Choice(self._by_class(actions), known, as_environment_actions(self._by_class(played))), memory

    def _log_probability(self, chosen: list[tuple[ActionArray, FloatArray | None]]) -> tuple[FloatArray, ...] | None:
        """Per class, 0 where nobody learns from it; None where those who learn did not act as a distribution says."""
        pairs = list(zip(self._seats, chosen, strict=True))
        if any(seats.acting == "learning" and probable is None for seats, (_, probable) in pairs):
            return None
        return self._by_class(
            [np.zeros(actions.shape[:2], np.float32) if found is None else found for actions, found in chosen]
        )

    def _by_class(self, parts: list[NDArray[Any]]) -> tuple[NDArray[Any], ...]:
        """What the seats have ``[n, ...]``, joined per class."""
        joined: dict[int, NDArray[Any]] = {}
        for seats, part in zip(self._seats, parts, strict=True):
            if seats.places is None:
                joined[seats.index] = part
                continue
            agents = len(self.spec.classes[seats.index].agents)
            whole = joined.setdefault(seats.index, np.empty((agents, *part.shape[1:]), part.dtype))
            whole[seats.places] = part
        return tuple(joined[index] for index in range(len(self.spec.classes)))

    def sample(self, observation: Observation, noise: tuple[FloatArray, ...], blocks: int = 1) -> Choice:
        """Draws from the policies, with no memory."""
        return self.act(observation, noise, blocks=blocks, chance=noise)[0]

    def greedy(self, observation: Observation) -> tuple[ActionArray, ...]:
        """The most probable actions per class, with no memory."""
        return self.act(observation, None)[0].actions


class Player:
    """A policy at play in `num_envs` copies, whose episodes have just begun."""

    def __init__(self, policy: Policy, num_envs: int, blocks: int = 1, behaviour: Behaviour = SAMPLE) -> None:
        """Raises `BadRequest` when not all agents can behave so."""
        policy.require(behaviour)
        self._policy, self._blocks, self._behaviour = policy, blocks, behaviour
        self._memory = policy.start(num_envs)

    def act(
        self,
        seen: Observation,
        noise: tuple[FloatArray, ...] | None = None,
        chance: tuple[FloatArray, ...] | None = None,
    ) -> Choice:
        """The next step's actions: as the behaviour says with the `noise` of the step, greedily without; those who act
        at random do so with `chance`, which is the noise where there is any."""
        chance = noise if chance is None else chance
        choice, self._memory = self._policy.act(seen, noise, self._memory, self._behaviour, self._blocks, chance)
        return choice

    def forget(self, ended: BoolArray) -> None:
        """Starts anew in the copies that `ended` ``[E]``; to be told after every step."""
        if self._policy.recurrent and ended.any():
            for part in self._memory:
                if part is not None:
                    part[:, ended] = 0.0


def draws(spec: EnvSpec, steps: int, num_envs: int, rng: np.random.Generator) -> tuple[FloatArray, ...]:
    """The noise of a whole unit, per class ``[T, n, E]`` or ``[T, n, E, numbers]``, drawn at once."""
    return tuple(
        heads.head_of(kind, stochastic=True).noise((steps, len(kind.agents), num_envs), rng) for kind in spec.classes
    )


def as_environment_actions(actions: tuple[ActionArray, ...]) -> tuple[ActionArray, ...]:
    """``[n, E]`` per class to the environment's ``[E, n]``."""
    return tuple(part.swapaxes(0, 1) for part in actions)
