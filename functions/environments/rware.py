"""Robots in a warehouse, of the package `rware`: a task ``rware/tiny-2ag`` is its ``rware-tiny-2ag-v2``.

Robots bring requested shelves to the exit and back. `task.options` are arguments of `Warehouse`; `horizon` is its
`max_steps`, and two are the package's choices by name: `reward_type` is ``"individual"`` (the default), ``"global"`` or
``"two_stage"``, and `observation_type` is ``"flattened"`` (the default), ``"dict"``, ``"image"`` or ``"image_dict"``.
With `msg_bits` robots talk: each has several choices. Nothing but time ends an episode, so it is truncated, never
terminated.

Source: Papoudakis et al., "Benchmarking Multi-Agent Deep Reinforcement Learning Algorithms in Cooperative Tasks", 2021.
"""

from typing import Any

from functions.environments.base import EnvTask, VectorEnvironment
from functions.environments.pettingzoo.adapter import assemble
from functions.environments.pettingzoo.factory import build, module_of
from functions.environments.pettingzoo.tuple_environment import TupleEnvironment, registered

_HORIZON = "max_steps"
_FORM = "rware/<size>-<robots>ag[-easy|-hard], such as rware/tiny-2ag"


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """`num_envs` environments; raises `ValueError` for names and options that the package does not know, `MissingExtra`
    when it is not installed, and what `pettingzoo.assemble` raises."""
    creator, standard = registered(task.name, "rware", "rware-{}-v2", _FORM)
    module = module_of(task.name, "rware.warehouse")
    choices = {"reward_type": module.RewardType, "observation_type": module.ObservationType}

    def warehouse(**options: Any) -> TupleEnvironment:
        settings = standard | options
        for key, kind in choices.items():
            if key in options:
                settings[key] = _member(key, kind, options[key])
        settings[_HORIZON] = task.options.get("horizon", settings[_HORIZON])
        return TupleEnvironment(creator(**settings), settings[_HORIZON], lambda _: True)

    return assemble(task, num_envs, lambda: build(task, warehouse))


def _member(key: str, kind: Any, said: object) -> Any:
    """The member of the enumeration `kind` that is called `said` in lower case."""
    names = {member.name.lower(): member for member in kind}
    if said not in names:
        raise ValueError(f"{key} is {said!r}; there are {', '.join(names)}")
    return names[said]
