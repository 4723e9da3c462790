"""The interface for your environments: the vectorised protocol, its errors, and the check.

A package offers an environment by an entry point of the group ``marless.environments``. Its value is a factory
``make(task, num_envs) -> VectorEnvironment``. A family of environments is a `TaskFamily` in the group
``marless.task_families``. Any PettingZoo `ParallelEnv` factory needs none of this. Either may take a parameter
`resources`, to call the run's resources.

Examples:
    >>> from marless.environments import AgentClass, Observation, Step, check
"""

import logging
from contextlib import closing
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from marless.functions.environments.base import (
    AgentClass,
    EnvironmentFault,
    EnvSpec,
    EnvTask,
    Observation,
    Step,
    Unsupported,
    VectorEnvironment,
)
from marless.functions.environments.entities.description import Entities, EntityBlock
from marless.functions.environments.entities.ordered import INDEX
from marless.functions.environments.registry import make, remark_of, spec
from marless.functions.environments.resumable import Resumable
from marless.functions.environments.roles.partition import roles_of
from marless.functions.environments.task_names import TaskFamily
from marless.functions.errors import BadRequest, MissingExtra
from marless.user_errors import short_errors

if TYPE_CHECKING:
    from pettingzoo import ParallelEnv

__all__ = [
    "AgentClass",
    "Entities",
    "EntityBlock",
    "EnvSpec",
    "EnvTask",
    "EnvironmentFault",
    "MissingExtra",
    "Observation",
    "Resumable",
    "Step",
    "TaskFamily",
    "Unsupported",
    "VectorEnvironment",
    "as_pettingzoo",
    "check",
    "make",
    "roles_of",
    "spec",
]


def check(make_environment: Any, **options: Any) -> None:
    """Try all promises of an environment with random play. Raises `AssertionError` that names the violation.

    `make_environment` takes the number of environments. Where an adapter had to look for the length of an episode, it
    logs where that was.
    """
    from marless.testing.environments import check as run_checks

    run_checks(make_environment, **options)
    with closing(make_environment(1)) as environment:
        if remark := remark_of(environment):
            logging.getLogger(__name__).warning(remark)


@short_errors(BadRequest)
def as_pettingzoo(task: EnvTask | str) -> "ParallelEnv[str, Any, Any]":
    """An env task as a PettingZoo `ParallelEnv`, for other trainers and for playing exported policies.

    Raises `MissingExtra` if PettingZoo is missing, and the errors of `make`.
    """
    try:
        from marless.functions.environments.pettingzoo.parallel_view import ParallelView
    except ModuleNotFoundError as error:
        from marless.extras import install

        raise MissingExtra(f"as_pettingzoo needs PettingZoo: {install('tasks')}") from error
    env_task = EnvTask(name=task) if isinstance(task, str) else task
    return ParallelView(make(replace(env_task, order=INDEX), 1), env_task)


__dir__ = __all__.copy
