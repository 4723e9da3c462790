"""Robots in a warehouse, of the package `rware`, to compare with our own `rware/`.

A task ``package:rware/tiny-2ag`` is the package's ``rware-tiny-2ag-v2``. `task.options` are arguments of `Warehouse`.
`horizon` is its `max_steps`. `reward_type` and `observation_type` are names of members of its enumerations.

Source: Papoudakis et al., "Benchmarking Multi-Agent Deep Reinforcement Learning Algorithms in Cooperative Tasks", 2021.
"""

from typing import Any

from marless.functions.environments.base import EnvTask, VectorEnvironment
from marless.functions.environments.pettingzoo.factory import module_of
from marless_tasks.tuple_environment import (
    TupleEnvironment,
    make_tuple_environments,
    registered_environment,
)

_FORM = "package:rware/<size>-<robots>ag[-easy|-hard], such as package:rware/tiny-2ag"


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """Return `num_envs` environments.

    Raises `ValueError` for unknown names and options, `MissingExtra` if the package is not installed, and the errors of
    `pettingzoo.assemble`.
    """
    creator, defaults = registered_environment(task.name, "rware", "rware-{}-v2", _FORM)
    module = module_of(task.name, "rware.warehouse")
    enumerations = {"reward_type": module.RewardType, "observation_type": module.ObservationType}

    def warehouse(**settings: Any) -> Any:
        for key, kind in enumerations.items():
            if key in task.options:
                settings[key] = _member(key, kind, settings[key])
        return creator(**settings)

    def wrap(environment: Any, horizon: int) -> TupleEnvironment:
        return TupleEnvironment(environment, horizon, lambda _: True)

    return make_tuple_environments(task, num_envs, warehouse, defaults, "max_steps", wrap)


def _member(key: str, kind: Any, name: object) -> Any:
    """Return the member of the enumeration `kind` with the lower-case name `name`."""
    names = {member.name.lower(): member for member in kind}
    if name not in names:
        raise ValueError(f"{key} is {name!r}. There are {', '.join(names)}")
    return names[name]
