"""Robots in a warehouse, of the package `rware`: a task ``rware/tiny-2ag`` is its ``rware-tiny-2ag-v2``.

Robots bring requested shelves to the exit and back. `task.options` are arguments of `Warehouse`; `horizon` is its
`max_steps`, and two take names of the package's enumerations: `reward_type` is ``"individual"`` (the default),
``"global"`` or ``"two_stage"``, and `observation_type` is ``"flattened"`` (the default), ``"dict"``, ``"image"`` or
``"image_dict"``. With `msg_bits` robots communicate, and each has several choices. Only the time limit ends an episode,
so it is truncated, never terminated.

Source: Papoudakis et al., "Benchmarking Multi-Agent Deep Reinforcement Learning Algorithms in Cooperative Tasks", 2021.
"""

from typing import Any

from marless.functions.environments.base import EnvTask, VectorEnvironment
from marless.functions.environments.pettingzoo.factory import module_of
from marless.functions.environments.pettingzoo.tuple_environment import (
    TupleEnvironment,
    make_tuple_environments,
    registered_environment,
)
from marless.functions.environments.scene import Box, Colour, Disc, Line, Scene, Shape, grid

# The package's own colours.
_GOAL, _SHELF, _REQUESTED = (0.24, 0.24, 0.24), (0.28, 0.24, 0.55), (0.0, 0.5, 0.5)
_ROBOT, _LOADED = (1.0, 0.55, 0.0), (1.0, 0.0, 0.0)
_AHEAD = {"UP": (0, -1), "DOWN": (0, 1), "LEFT": (-1, 0), "RIGHT": (1, 0)}
_FORM = "rware/<size>-<robots>ag[-easy|-hard], such as rware/tiny-2ag"


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """`num_envs` environments; raises `ValueError` for unknown names and options, `MissingExtra` if the package is not
    installed, and the errors of `pettingzoo.assemble`."""
    creator, defaults = registered_environment(task.name, "rware", "rware-{}-v2", _FORM)
    module = module_of(task.name, "rware.warehouse")
    enumerations = {"reward_type": module.RewardType, "observation_type": module.ObservationType}

    def warehouse(**settings: Any) -> Any:
        for key, kind in enumerations.items():
            if key in task.options:
                settings[key] = _member(key, kind, settings[key])
        return creator(**settings)

    def wrap(environment: Any, horizon: int) -> TupleEnvironment:
        return _Warehouse(environment, horizon, lambda _: True)

    return make_tuple_environments(task, num_envs, warehouse, defaults, "max_steps", wrap)


class _Warehouse(TupleEnvironment):
    """Robots among shelves."""

    def render(self) -> Scene:
        """Goals are grey, shelves blue, requested ones teal, robots orange discs that point ahead, red with a shelf."""
        warehouse = self._environment
        rows, columns = warehouse.grid_size
        shapes: list[Shape] = [*grid(rows, columns)]
        shapes += [Box(x, y, 1, 1, _GOAL) for x, y in warehouse.goals]
        request_ids = {shelf.id for shelf in warehouse.request_queue}
        for shelf in warehouse.shelfs:
            colour: Colour = _REQUESTED if shelf.id in request_ids else _SHELF
            shapes.append(Box(shelf.x + 0.08, shelf.y + 0.08, 0.84, 0.84, colour))
        for robot in warehouse.agents:
            x, y, (right, down) = robot.x + 0.5, robot.y + 0.5, _AHEAD[robot.dir.name]
            shapes.append(Disc(x, y, 0.32, _LOADED if robot.carrying_shelf else _ROBOT))
            shapes.append(Line(x, y, x + 0.32 * right, y + 0.32 * down))
        return Scene(columns, rows, tuple(shapes))


def _member(key: str, kind: Any, name: object) -> Any:
    """The member of the enumeration `kind` whose lower-case name is `name`."""
    names = {member.name.lower(): member for member in kind}
    if name not in names:
        raise ValueError(f"{key} is {name!r}; there are {', '.join(names)}")
    return names[name]
