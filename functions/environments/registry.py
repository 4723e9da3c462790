"""Makes the environments of an env task by its name, see `marless.functions.environments.task_names`."""

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

import msgspec

from marless.functions.encoding import mismatch
from marless.functions.environments.base import EnvSpec, EnvTask, VectorEnvironment
from marless.functions.environments.entities.ordered import INDEX, Ordered
from marless.functions.environments.judged import Judged
from marless.functions.environments.last_action import LastAction
from marless.functions.environments.several_teams import SeveralTeams
from marless.functions.environments.task_names import BUILT_IN, ENVIRONMENTS, FAMILIES, Make, is_compiled, prefix_of
from marless.functions.errors import BadRequest
from marless.functions.isolation.process_guard import restore_arithmetic_after
from marless.functions.resources.factories import resources_for

_AROUND = (Judged, Ordered, LastAction, SeveralTeams)


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """`num_envs` environments of `task`, stepped together. A factory with a parameter `resources` gets the task's
    resources (`marless.functions.resources.port.Resources`).

    Raises `BadRequest` for an unknown name or option, `MissingExtra` for a missing package, `Unsupported` for a missing
    feature, and `EnvironmentFault` for a broken environment.
    """
    if num_envs < 1:
        raise BadRequest(f"{task.name}: num_envs is {num_envs}; at least 1 is needed")
    try:
        if len(task.teams) > 1:
            return SeveralTeams(task.teams, num_envs, make)
        (task,) = task.teams
        factory: Callable[..., VectorEnvironment] = _maker(task.name)
        with restore_arithmetic_after(f"{task.name}, make"):
            environment = factory(task, num_envs, **resources_for(factory))
        if not (task.name in BUILT_IN or is_compiled(task.name)):
            _settle_calls(task.name, environment)
        if task.judge:
            environment = _judged(environment, task)
        if task.order != INDEX:
            environment = Ordered(environment, task.order)
        return LastAction(environment) if task.last_action else environment
    except ValueError as error:
        raise BadRequest(_error_text(task, error)) from error


def _settle_calls(name: str, environment: VectorEnvironment) -> None:
    """Undoes the environment's changes to the arithmetic after each of its calls."""

    def wrap(method: str) -> Callable[..., Any]:
        call = getattr(environment, method)

        def settled_call(*args: object) -> Any:
            with restore_arithmetic_after(f"{name}, {method}"):
                return call(*args)

        return settled_call

    for method in ("reset", "reset_blocks", "step", "save", "resume"):
        if hasattr(environment, method):
            with suppress(AttributeError):  # it has slots. Then all is put back when the task ends
                setattr(environment, method, wrap(method))


def spec(task: EnvTask) -> EnvSpec:
    """The spec of `task`, read from one environment. Raises the errors of `make`."""
    return describe(task)[0]


def describe(task: EnvTask) -> tuple[EnvSpec, str]:
    """The spec of `task`, read from one environment, and a remark for users, or ''. Raises the errors of `make`."""
    environment = make(task, 1)
    try:
        return environment.spec, remark_of(environment)
    finally:
        environment.close()


def remark_of(environment: VectorEnvironment) -> str:
    """Return an environment's remark for users, or '': the attribute `remark` of adapters."""
    remark = getattr(innermost(environment), "remark", "")
    return remark if isinstance(remark, str) else ""


def innermost(environment: VectorEnvironment) -> Any:
    """The environment that a factory made, without our wrappers."""
    while isinstance(environment, _AROUND):
        environment = environment.environment
    return environment


def _judged(environment: VectorEnvironment, task: EnvTask) -> VectorEnvironment:
    from marless.functions.resources.port import RESOURCES

    return Judged(environment, task.name, task.judge, RESOURCES)


def _maker(name: str) -> Make:
    if name in ENVIRONMENTS.built_in:
        return ENVIRONMENTS[name]
    if prefix := prefix_of(name):
        of_family: Make = import_module(FAMILIES[prefix].module).make
        return of_family
    if name not in ENVIRONMENTS:
        raise ValueError(ENVIRONMENTS.unknown(name))
    return ENVIRONMENTS[name]


def _error_text(task: EnvTask, error: ValueError) -> str:
    text = mismatch(error).below("task.options") if isinstance(error, msgspec.ValidationError) else str(error)
    return text if task.name in text else f"{task.name}: {text}"
