"""Robots in a warehouse: the tasks ``rware/tiny-2ag``, in C, equal to the package rware 2.0.0 step by step.

Robots bring requested shelves to the exit and back. `task.options` are arguments of the package's `Warehouse`, with its
names and defaults. `horizon` is its `max_steps`. `reward_type` is ``"individual"`` (the default), ``"global"`` or
``"two_stage"``, and `observation_type` is ``"flattened"`` (the default), ``"dict"``, which has the same numbers,
``"image"`` or ``"image_dict"``. With `msg_bits` robots communicate, and each has several choices. Only the time limit
ends an episode, so it is truncated, never terminated.

The random numbers are not the package's, so a seed gives another start. If two equally long queues of robots want the
same cell, the package follows the order of a set in Python. For our rule see `warehouse_goes_first` in
functions/native/games/warehouse.h.

Source: Papoudakis et al., "Benchmarking Multi-Agent Deep Reinforcement Learning Algorithms in Cooperative Tasks", 2021.
"""

import re
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from marless.functions.environments.base import ActionArray, AgentClass, EnvSpec, EnvTask, Step, options_of
from marless.functions.environments.games.compiled import CompiledEnvironment
from marless.functions.environments.games.halls import Hall, hall_of_blocks, hall_of_text
from marless.functions.environments.pettingzoo.agents import sides_of
from marless.functions.environments.pettingzoo.spaces import JOINT_LIMIT
from marless.functions.environments.scene import Box, Disc, Line, Scene, Shape, grid
from marless.functions.environments.spaces.space_types import AgentSpaces, MultiDiscreteSpace, VectorSpace
from marless.functions.setting_limits import MOST_STEPS

PREFIX = "rware/"
_NAME = re.compile(r"(tiny|small|medium|large)-(\d{1,2})ag(-easy|-hard)?")
_FORM = "rware/<tiny|small|medium|large>-<robots>ag[-easy|-hard], such as rware/tiny-2ag"
_BLOCKS = {"tiny": (1, 3), "small": (2, 3), "medium": (2, 5), "large": (3, 5)}
_REQUESTS = {"-easy": 2, None: 1, "-hard": 0.5}
_MOVES, _LAYERS, _MOST_CELLS = 5, 5, 2**15 - 1
_REWARDS = ("global", "individual", "two_stage")
# The package's own colours.
_GOAL, _SHELF, _REQUESTED = (0.24, 0.24, 0.24), (0.28, 0.24, 0.55), (0.0, 0.5, 0.5)
_ROBOT, _LOADED = (1.0, 0.55, 0.0), (1.0, 0.0, 0.0)
_AHEAD = ((0, -1), (0, 1), (-1, 0), (1, 0))

Count = Annotated[int, msgspec.Meta(ge=1, le=999)]
Steps = Annotated[int, msgspec.Meta(ge=1, le=MOST_STEPS)]


class WarehouseOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The options of `rware/` tasks. The name of a task sets the options without a default."""

    shelf_rows: Count
    shelf_columns: Count
    n_agents: Annotated[int, msgspec.Meta(ge=1, le=64)]
    request_queue_size: Annotated[int, msgspec.Meta(ge=0, le=MOST_STEPS)]
    column_height: Count = 8
    layout: str = ""
    horizon: Steps | None = None
    max_steps: Steps = 500
    max_inactivity_steps: Steps | None = None
    sensor_range: Count = 1
    msg_bits: Annotated[int, msgspec.Meta(ge=0, le=30)] = 0
    reward_type: Literal["global", "individual", "two_stage"] = "individual"
    observation_type: Literal["flattened", "dict", "image", "image_dict"] = "flattened"
    image_observation_directional: bool = True
    normalised_coordinates: bool = False
    joint_actions: bool = False
    sides: str = ""

    @property
    def is_image(self) -> bool:
        """True if robots observe layers of cells."""
        return self.observation_type.startswith("image")

    @property
    def area(self) -> tuple[int, int]:
        """The rows and columns of cells that a robot observes."""
        return 2 * self.sensor_range + 1, 2 * self.sensor_range + 1


def make(task: EnvTask, num_envs: int) -> "WarehouseEnvironment":
    """Return `num_envs` environments.

    Raises `ValueError` for an unknown name or options, and `MissingExtra` without compiled kernels.
    """
    parts = _NAME.fullmatch(task.name.removeprefix(PREFIX))
    if not parts or not int(parts[2]):
        raise ValueError(f"{task.name} is no task of the warehouse. Write it as {_FORM}")
    shelf_rows, shelf_columns = _BLOCKS[parts[1]]
    settings = {
        "shelf_rows": shelf_rows,
        "shelf_columns": shelf_columns,
        "n_agents": int(parts[2]),
        "request_queue_size": int(int(parts[2]) * _REQUESTS[parts[3]]),
    }
    options = options_of(msgspec.structs.replace(task, options=settings | task.options), WarehouseOptions)
    blocks = options.shelf_columns, options.shelf_rows, options.column_height
    hall = hall_of_text(options.layout) if options.layout else hall_of_blocks(*blocks)
    if fault := _fault(hall, options, task.agents):
        raise ValueError(f"{task.name}: {fault}")
    return WarehouseEnvironment(task.name, hall, options, num_envs)


def _fault(hall: Hall, options: WarehouseOptions, agents: int | None) -> str:
    combinations = _MOVES << options.msg_bits
    if hall.floor.size > _MOST_CELLS:
        return f"the hall has {hall.floor.size:,} cells; it may have {_MOST_CELLS:,}"
    if options.n_agents > hall.floor.size:
        return f"{options.n_agents} robots do not fit into a hall of {hall.floor.size} cells"
    if agents not in (None, options.n_agents):
        return f"task.agents is {agents}, but the environment has {options.n_agents} agents"
    if options.request_queue_size >= hall.shelves:
        return (
            f"task.options.request_queue_size is {options.request_queue_size}; it must be less than the number of"
            f" shelves, {hall.shelves}"
        )
    if options.joint_actions and combinations > JOINT_LIMIT:
        return f"there are {combinations:,} joint actions; task.options.joint_actions numbers at most {JOINT_LIMIT:,}"
    return ""


class WarehouseEnvironment(CompiledEnvironment):
    """E halls with the rules in docs/reference/games.md."""

    game = "warehouse"

    def __init__(self, name: str, hall: Hall, options: WarehouseOptions, num_envs: int) -> None:
        """`options` fit the hall."""
        self._hall, (rows, columns) = hall, hall.floor.shape
        horizon = options.horizon or options.max_steps
        super().__init__(
            name,
            _spec(name, horizon, options),
            num_envs,
            {
                "rows": rows, "columns": columns, "shelves": hall.shelves, "goal_count": len(hall.goals),
                "choices": _MOVES << options.msg_bits, "requests": options.request_queue_size, "horizon": horizon,
                "max_inactivity_steps": options.max_inactivity_steps or 0, "sensor_range": options.sensor_range,
                "msg_bits": options.msg_bits, "reward_type": _REWARDS.index(options.reward_type),
                "is_image": options.is_image, "has_features": options.observation_type == "image_dict",
                "is_directional": options.image_observation_directional,
            },
            {
                "floor": hall.floor, "homes": hall.homes, "goals": np.array(hall.goals, np.int64),
                "across": _coordinates(columns, options), "down": _coordinates(rows, options),
            },
            {
                "robots": (np.int32, (num_envs, options.n_agents, 5)),
                **dict.fromkeys(("shelf_at", "robot_at"), (np.int16, (num_envs, rows, columns))),
                "requested": (np.uint8, (num_envs, hall.shelves + 1)), "idle": (np.int64, (num_envs,)),
            },
        )  # fmt: skip

    def step(self, actions: tuple[ActionArray, ...]) -> Step:
        """Step all environments at once. Raises `ValueError` for an action that does not exist."""
        if branches := self.spec.classes[0].branches:
            actions = (np.ravel_multi_index(tuple(np.moveaxis(actions[0], -1, 0)), branches),)
        return super().step(actions)

    def render(self, index: int) -> Scene:
        """Goals are grey, shelves blue, requested ones teal, robots orange discs that point ahead, red with a shelf."""
        rows, columns = self._hall.floor.shape
        shelf_at, requested = self.arrays["shelf_at"][index], self.arrays["requested"][index]
        shapes: list[Shape] = [*grid(rows, columns)]
        shapes += [Box(goal % columns, goal // columns, 1, 1, _GOAL) for goal in self._hall.goals]
        for y, x in np.argwhere(shelf_at).tolist():
            colour = _REQUESTED if requested[shelf_at[y, x]] else _SHELF
            shapes.append(Box(x + 0.08, y + 0.08, 0.84, 0.84, colour))
        for cell, heading, shelf, *_ in self.arrays["robots"][index].tolist():
            x, y, (right, down) = cell % columns + 0.5, cell // columns + 0.5, _AHEAD[heading]
            shapes.append(Disc(x, y, 0.32, _LOADED if shelf else _ROBOT))
            shapes.append(Line(x, y, x + 0.32 * right, y + 0.32 * down))
        return Scene(columns, rows, tuple(shapes))


def _coordinates(count: int, options: WarehouseOptions) -> np.ndarray[Any, np.dtype[np.float32]]:
    places = np.arange(count) / (max(1, count - 1) if options.normalised_coordinates else 1)
    # The package cuts the shares in dictionaries to whole numbers.
    return (np.trunc(places) if options.observation_type == "dict" else places).astype(np.float32)


def _spec(name: str, horizon: int, options: WarehouseOptions) -> EnvSpec:
    robots, cells, bits = options.n_agents, options.area[0] * options.area[1], options.msg_bits
    agents, shape = tuple(f"agent_{number}" for number in range(robots)), (_LAYERS, *options.area)
    size = 8 + cells * (7 + bits)
    if options.is_image:
        size = _LAYERS * cells + 6 * (options.observation_type == "image_dict")
    choices = (_MOVES, *[2] * bits)
    joint = options.joint_actions and bits > 0
    kind = AgentClass(
        "agent",
        tuple(range(robots)),
        size,
        _MOVES << bits if joint else sum(choices),
        branches=choices if bits and not joint else (),
        observation_shape=shape if options.is_image else (),
        spaces=_joint_spaces(size, choices) if joint else None,
    )
    return EnvSpec(agents, (kind,), horizon, sides=sides_of(name, agents, options.sides))


def _joint_spaces(size: int, choices: tuple[int, ...]) -> AgentSpaces:
    return AgentSpaces(VectorSpace((size,)), MultiDiscreteSpace((len(choices),), "int64", choices, (0,)), joint=True)
