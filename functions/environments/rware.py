"""Robots in a warehouse, of the package `rware`: a task ``rware/tiny-2ag`` is its ``rware-tiny-2ag-v2``.

Robots bring requested shelves to the exit and back. `task.options` are arguments of `Warehouse`; `horizon` is its
`max_steps`, and two take names of the package's enumerations: `reward_type` is ``"individual"`` (the default),
``"global"`` or ``"two_stage"``, and `observation_type` is ``"flattened"`` (the default), ``"dict"``, ``"image"`` or
``"image_dict"``. With `msg_bits` robots communicate, and each has several choices. Only the time limit ends an episode,
so it is truncated, never terminated.

Source: Papoudakis et al., "Benchmarking Multi-Agent Deep Reinforcement Learning Algorithms in Cooperative Tasks", 2021.
"""

from typing import Any

from functions.environments.base import EnvTask, VectorEnvironment
from functions.environments.pettingzoo.factory import module_of
from functions.environments.pettingzoo.tuple_environment import TupleEnvironment, make_tuple_environments, registered

_FORM = "rware/<size>-<robots>ag[-easy|-hard], such as rware/tiny-2ag"


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """`num_envs` environments; raises `ValueError` for unknown names and options, `MissingExtra` if the package is not
    installed, and the errors of `pettingzoo.assemble`."""
    creator, defaults = registered(task.name, "rware", "rware-{}-v2", _FORM)
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


def _member(key: str, kind: Any, said: object) -> Any:
    """The member of the enumeration `kind` whose lower-case name is `said`."""
    names = {member.name.lower(): member for member in kind}
    if said not in names:
        raise ValueError(f"{key} is {said!r}; there are {', '.join(names)}")
    return names[said]
