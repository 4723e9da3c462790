"""Policies of all agents in numpy: actions from weights and observations, for actors, evaluators and users.

A `Policy` acts for all agents of a vectorised environment. A `Player` does so step after step and keeps the hidden
states of recurrent networks. The actions of an agent, and of a block of environments, are bit for bit independent of
other agents and blocks. See `marless.functions.nn.batched_acting`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marless.functions.acting_groups import acting_groups
from marless.functions.environments.base import ActionArray, BoolArray, EnvSpec, FloatArray, Observation
from marless.functions.messages.actor import Behaviour
from marless.functions.messages.team import Team
from marless.functions.nn import heads

SAMPLE = Behaviour()

HiddenState = tuple[FloatArray | None, ...]
"""Hidden states ``[n, E, H]`` of recurrent networks, zeros at the start of an episode, and None for other networks; one
for each acting group."""


@dataclass(frozen=True)
class Choice:
    """The actions of one step, per class."""

    # For the record: ``[n, E]`` one choice, ``[n, E, branches]`` several, ``[n, E, d]`` continuous actions in the units
    # of the policy. See `marless.functions.nn.heads`.
    actions: tuple[ActionArray, ...]
    # ``[n, E]`` under the policy, or None unless learning agents sampled from their distributions.
    log_probability: tuple[FloatArray, ...] | None
    # ``[E, n, ...]`` as the environment takes them.
    env_actions: tuple[ActionArray, ...]


class Policy:
    """All agents' policies, without state. See `Player`.

    A call without `hidden` is the first step of an episode. Each of the `blocks` equal parts of E gives the same bytes
    as a call with that part only.
    """

    def __init__(self, spec: EnvSpec, team: Team, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Raises `BadRequest` when the networks do not fit the env task."""
        self.spec = spec
        self._groups = acting_groups(spec, team, tensors)
        self.recurrent = any(group.networks is not None and group.networks.recurrent for group in self._groups)

    @property
    def by_chance(self) -> bool:
        """True if some agents act at random or by a script."""
        return any(group.networks is None for group in self._groups)

    def require(self, behaviour: Behaviour) -> None:
        """Raises `BadRequest` when an agent that learns does not support the behaviour."""
        for group in self._groups:
            if group.acting == "learning":
                heads.require(group.head, behaviour)

    def start(self, num_envs: int) -> HiddenState:
        """The hidden states at the start of episodes."""
        return tuple(group.start(num_envs) for group in self._groups)

    def outputs(
        self, observation: Observation, hidden: HiddenState | None = None, blocks: int = 1
    ) -> tuple[list[FloatArray], HiddenState]:
        """Per class ``[n, E, width]``, illegal choices at a large negative number, and the next hidden states."""
        outputs, hidden = self._outputs(observation, hidden, blocks)
        return list(self._by_class(outputs)), hidden

    def _outputs(
        self, observation: Observation, hidden: HiddenState | None, blocks: int
    ) -> tuple[list[FloatArray], HiddenState]:
        hidden = self.start(len(observation.alive)) if hidden is None else hidden
        pairs = [group.outputs(observation, before, blocks) for group, before in zip(self._groups, hidden, strict=True)]
        return [outputs for outputs, _ in pairs], tuple(after for _, after in pairs)

    def logits(self, observation: Observation, blocks: int = 1) -> list[FloatArray]:
        """The outputs without the next hidden states."""
        return self.outputs(observation, blocks=blocks)[0]

    def act(
        self,
        observation: Observation,
        noise: tuple[FloatArray, ...] | None,
        hidden: HiddenState | None = None,
        behaviour: Behaviour = SAMPLE,
        blocks: int = 1,
        chance: tuple[FloatArray, ...] | None = None,
    ) -> tuple[Choice, HiddenState]:
        """The actions under `behaviour` with the `noise` of a step (see `draws`), or the greedy ones without noise.

        Agents that act at random need `chance`, noise of the same shapes. Without it they take the first legal action.
        """
        outputs, hidden = self._outputs(observation, hidden, blocks)
        choices = [
            group.act(part, observation, noise, chance, behaviour)
            for group, part in zip(self._groups, outputs, strict=True)
        ]
        actions = [part for part, _ in choices]
        env_actions = [group.head.to_environment(part) for group, part in zip(self._groups, actions, strict=True)]
        log_p = self._log_probability(choices) if noise is not None else None
        return Choice(self._by_class(actions), log_p, as_environment_actions(self._by_class(env_actions))), hidden

    def _log_probability(self, choices: list[tuple[ActionArray, FloatArray | None]]) -> tuple[FloatArray, ...] | None:
        """Return it per class, 0 for opponents without a distribution, or None unless all learners sampled from
        theirs."""
        pairs = list(zip(self._groups, choices, strict=True))
        if any(group.acting == "learning" and log_p is None for group, (_, log_p) in pairs):
            return None
        return self._by_class(
            [np.zeros(actions.shape[:2], np.float32) if log_p is None else log_p for actions, log_p in choices]
        )

    def _by_class(self, parts: list[NDArray[Any]]) -> tuple[NDArray[Any], ...]:
        """The arrays ``[n, ...]`` of the acting groups, joined per class."""
        arrays: dict[int, NDArray[Any]] = {}
        for group, part in zip(self._groups, parts, strict=True):
            if group.positions is None:
                arrays[group.index] = part
                continue
            agents = len(self.spec.classes[group.index].agents)
            whole = arrays.setdefault(group.index, np.empty((agents, *part.shape[1:]), part.dtype))
            whole[group.positions] = part
        return tuple(arrays[index] for index in range(len(self.spec.classes)))

    def sample(self, observation: Observation, noise: tuple[FloatArray, ...], blocks: int = 1) -> Choice:
        """Samples actions from zero hidden states."""
        return self.act(observation, noise, blocks=blocks, chance=noise)[0]

    def greedy(self, observation: Observation) -> tuple[ActionArray, ...]:
        """The most probable actions per class, from zero hidden states."""
        return self.act(observation, None)[0].actions


class Player:
    """A policy that acts in `num_envs` environments from the first step of an episode on."""

    def __init__(self, policy: Policy, num_envs: int, blocks: int = 1, behaviour: Behaviour = SAMPLE) -> None:
        """Raises `BadRequest` when an agent that learns does not support `behaviour`."""
        policy.require(behaviour)
        self._policy, self._blocks, self._behaviour = policy, blocks, behaviour
        self._hidden = policy.start(num_envs)

    def act(
        self,
        observation: Observation,
        noise: tuple[FloatArray, ...] | None = None,
        chance: tuple[FloatArray, ...] | None = None,
    ) -> Choice:
        """The next step's actions under the behaviour with the `noise` of the step, or the greedy ones without it.

        Agents that act at random use `chance`, which defaults to the noise.
        """
        chance = noise if chance is None else chance
        choice, self._hidden = self._policy.act(observation, noise, self._hidden, self._behaviour, self._blocks, chance)
        return choice

    def forget(self, episode_ends: BoolArray) -> None:
        """Resets the hidden states of environments where `episode_ends` ``[E]``. Call it after every step."""
        if self._policy.recurrent and episode_ends.any():
            for part in self._hidden:
                if part is not None:
                    part[:, episode_ends] = 0.0


def draws(spec: EnvSpec, steps: int, num_envs: int, rng: np.random.Generator) -> tuple[FloatArray, ...]:
    """The noise of a whole rollout, per class ``[T, n, E]`` or ``[T, n, E, d]``, drawn at once."""
    return tuple(
        heads.head_of(kind, stochastic=True).noise((steps, len(kind.agents), num_envs), rng) for kind in spec.classes
    )


def as_environment_actions(actions: tuple[ActionArray, ...]) -> tuple[ActionArray, ...]:
    """``[n, E, ...]`` per class to the environment's ``[E, n, ...]``."""
    return tuple(part.swapaxes(0, 1) for part in actions)
