"""Which agent has which hidden role; an environment with roles holds them as its attribute `roles`."""

from typing import Annotated, Literal

import msgspec

from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.setting_limits import MOST_AGENTS


class RoleOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The options of every env task with hidden roles."""

    # Number of roles.
    roles: Annotated[int, msgspec.Meta(ge=1, le=MOST_AGENTS)] = 3
    # Interleaved: agent i has role i modulo `roles`; contiguous: neighbours have one role.
    order: Literal["interleaved", "contiguous"] = "interleaved"


def roles_of(task: EnvTask) -> tuple[int, ...]:
    """The role of every agent, in the order of `EnvSpec.agents`: the true partition that grouping is measured by.

    Raises what `registry.make` raises, and `ValueError` for an env task without hidden roles.
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
    """The role of every agent, of `default` agents unless the task says how many; raises `ValueError`."""
    agents = default if task.agents is None else task.agents
    if agents < options.roles:
        raise ValueError(
            f"{task.name}: task.agents is {agents}; {options.roles} roles (task.options.roles) need as many agents"
        )
    if options.order == "interleaved":
        return tuple(agent % options.roles for agent in range(agents))
    return tuple(agent * options.roles // agents for agent in range(agents))
