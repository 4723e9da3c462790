"""Assign hidden roles to agents. An environment with roles holds them as its attribute `roles`."""

from dataclasses import replace
from typing import Annotated, Literal, Protocol

import msgspec
import numpy as np

from marless.functions.environments import registry
from marless.functions.environments.base import ActionArray, EnvTask, Observation, Step, VectorEnvironment
from marless.functions.setting_limits import MOST_AGENTS


class RoleOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The options of every env task with hidden roles."""

    # Number of roles.
    roles: Annotated[int, msgspec.Meta(ge=1, le=MOST_AGENTS)] = 3
    # Interleaved: agent i has role i modulo `roles`. Contiguous: neighbours have one role.
    order: Literal["interleaved", "contiguous"] = "interleaved"
    # own: the agent's reward. team: the mean reward, for all agents. end: the sum of means at the end of an episode.
    pay: Literal["own", "team", "end"] = "own"


def roles_of(task: EnvTask) -> tuple[int, ...]:
    """The role of every agent, in the order of `EnvSpec.agents`: the true partition that grouping is measured by.

    Raises the errors of `registry.make`, and `ValueError` for an env task without hidden roles.
    """
    environment = registry.make(task, 1)
    try:
        roles: tuple[int, ...] | None = getattr(environment, "roles", None)
    finally:
        environment.close()
    if roles is None:
        raise ValueError(f"{task.name}: its agents have no hidden roles")
    return roles


def assign(task: EnvTask, options: RoleOptions, default: int) -> tuple[int, ...]:
    """The role of every agent, of `default` agents unless the task says how many. Raises `ValueError`."""
    agents = default if task.agents is None else task.agents
    if agents < options.roles:
        raise ValueError(
            f"{task.name}: task.agents is {agents}; {options.roles} roles (task.options.roles) need as many agents"
        )
    if options.order == "interleaved":
        return tuple(agent % options.roles for agent in range(agents))
    return tuple(agent * options.roles // agents for agent in range(agents))


class WithRoles(VectorEnvironment, Protocol):
    """Environments with agents that have hidden roles."""

    roles: tuple[int, ...]


class PaidTogether:
    """E environments with one reward for all agents: the mean of their rewards in each step. With `at_end` its sum at
    the end of an episode."""

    def __init__(self, environment: WithRoles, at_end: bool) -> None:
        self.environment, self.spec, self.num_envs = environment, environment.spec, environment.num_envs
        self.roles, self._at_end = environment.roles, at_end

    def reset(self, rng: np.random.Generator) -> Observation:
        """See `VectorEnvironment`."""
        self._owed = np.zeros(self.num_envs)
        return self.environment.reset(rng)

    def step(self, actions: tuple[ActionArray, ...]) -> Step:
        """See `VectorEnvironment`."""
        step = self.environment.step(actions)
        owed = self._owed + step.rewards.mean(axis=1)
        paid = np.where(step.ended, owed, 0.0) if self._at_end else owed
        self._owed = owed - paid
        return replace(step, rewards=np.repeat(paid[:, np.newaxis], len(self.roles), axis=1))

    def close(self) -> None:
        """See `VectorEnvironment`."""
        self.environment.close()


def paid(environment: WithRoles, options: RoleOptions) -> WithRoles:
    """The environment with the rewards that the option `pay` asks for."""
    return environment if options.pay == "own" else PaidTogether(environment, options.pay == "end")
