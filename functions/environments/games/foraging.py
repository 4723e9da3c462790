"""Level-based foraging: the tasks ``lbf/8x8-2p-3f``, in C, equal to the package lbforaging 2.0.0 step by step.

Players have levels. Together they must reach the level of the food that they gather. In ``lbf/2s-8x8-2p-3f-coop`` they
see at most two squares away, and no food can be gathered alone. In ``lbf/grid-8x8-2p-3f`` they observe layers of cells.
`task.options` are arguments of the package's `ForagingEnv`, with its names and defaults. `horizon` is its
`max_episode_steps`. An episode is terminated when all food is gathered, and truncated at the horizon. Every player is
rewarded for the food that it gathered. The random numbers are not the package's, so a seed gives another field.

Source: Papoudakis et al., "Benchmarking Multi-Agent Deep Reinforcement Learning Algorithms in Cooperative Tasks", 2021.
"""

import re
from typing import Annotated, Any

import msgspec
import numpy as np

from marless.functions.environments.base import AgentClass, EnvSpec, EnvTask, options_of
from marless.functions.environments.entities.description import Entities, EntityBlock, columns_of
from marless.functions.environments.games.compiled import CompiledEnvironment
from marless.functions.environments.pettingzoo.agents import sides_of
from marless.functions.environments.scene import Box, Disc, Scene, grid
from marless.functions.setting_limits import LARGEST, MOST_STEPS

PREFIX = "lbf/"
_NAME = re.compile(r"(grid-)?(?:(\d{1,3})s-)?(\d{1,3})x(\d{1,3})-(\d{1,2})p-(\d{1,3})f(-coop)?")
_FORM = "lbf/[grid-][<sight>s-]<rows>x<columns>-<players>p-<food>f[-coop], such as lbf/8x8-2p-3f"
_PLAYER, _FOOD = (0.45, 0.6, 0.95), (0.95, 0.5, 0.45)
_ACTIONS = 6

Count = Annotated[int, msgspec.Meta(ge=1, le=999)]
Level = Annotated[int, msgspec.Meta(ge=1, le=10**6)]


class ForagingOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The options of `lbf/` tasks. The name of a task sets the options without a default."""

    players: Annotated[int, msgspec.Meta(ge=1, le=64)]
    max_num_food: Count
    sight: Annotated[int, msgspec.Meta(ge=0, le=999)]
    force_coop: bool
    grid_observation: bool
    horizon: Annotated[int, msgspec.Meta(ge=1, le=MOST_STEPS)] | None = None
    max_episode_steps: Annotated[int, msgspec.Meta(ge=1, le=MOST_STEPS)] = 50
    min_player_level: Level = 1
    max_player_level: Level = 2
    min_food_level: Level = 1
    max_food_level: Level | None = None
    normalize_reward: bool = True
    observe_agent_levels: bool = True
    penalty: Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)] = 0.0
    sides: str = ""


def make(task: EnvTask, num_envs: int) -> "Foraging":
    """Return `num_envs` environments.

    Raises `ValueError` for an unknown name or options, and `MissingExtra` without compiled kernels.
    """
    if not (parts := _NAME.fullmatch(task.name.removeprefix(PREFIX))):
        raise ValueError(f"{task.name} is no task of level-based foraging. Write it as {_FORM}")
    rows, columns, players, food = map(int, parts.group(3, 4, 5, 6))
    settings = {
        "players": players,
        "max_num_food": food,
        "sight": int(parts[2] or max(rows, columns)),
        "force_coop": bool(parts[7]),
        "grid_observation": bool(parts[1]),
    }
    options = options_of(msgspec.structs.replace(task, options=settings | task.options), ForagingOptions)
    if fault := _fault(rows, columns, options, task.agents):
        raise ValueError(f"{task.name}: {fault}")
    return Foraging(task.name, rows, columns, options, num_envs)


def _fault(rows: int, columns: int, options: ForagingOptions, agents: int | None) -> str:
    low, high = options.min_player_level, options.max_player_level
    most = options.max_food_level or min(3, options.players) * low
    if min(rows, columns) < 3:
        return f"the field is {rows}x{columns}; write at least 3x3, because food is not placed at the border"
    if options.players > rows * columns:
        return f"{options.players} players do not fit into a field of {rows * columns} squares"
    if agents not in (None, options.players):
        return f"task.agents is {agents}, but the environment has {options.players} agents"
    if low > high:
        return f"task.options.min_player_level is {low}; it must be at most max_player_level, {high}"
    if options.min_food_level > most and (options.max_food_level or not options.force_coop):
        reason = "max_food_level" if options.max_food_level else "the least sum of the three lowest levels of players"
        return f"task.options.min_food_level is {options.min_food_level}; it must be at most {reason}, {most}"
    return ""


class Foraging(CompiledEnvironment):
    """E fields with the rules in docs/reference/games.md."""

    game = "foraging"

    def __init__(self, name: str, rows: int, columns: int, options: ForagingOptions, num_envs: int) -> None:
        """`options` fit a field of that size."""
        self._field = rows, columns
        horizon = options.horizon or options.max_episode_steps
        super().__init__(
            name,
            _spec(name, horizon, options),
            num_envs,
            {
                "rows": rows, "columns": columns, "foods": options.max_num_food, "horizon": horizon,
                "sight": options.sight, "min_player_level": options.min_player_level,
                "max_player_level": options.max_player_level, "min_food_level": options.min_food_level,
                "max_food_level": options.max_food_level or 0, "force_coop": options.force_coop,
                "normalize_reward": options.normalize_reward, "observe_agent_levels": options.observe_agent_levels,
                "grid_observation": options.grid_observation,
            },
            {"penalty": np.array([options.penalty])},
            {
                "players": (np.int32, (num_envs, options.players, 3)),
                "food": (np.int32, (num_envs, options.max_num_food, 3)),
                "spawned": (np.int64, (num_envs,)),
            },
            is_mortal=True,
        )  # fmt: skip

    def render(self, index: int) -> Scene:
        """The grid with food as red discs and players as blue squares, both with their levels."""
        rows, columns = self._field
        food, players = (self.arrays[name][index].tolist() for name in ("food", "players"))
        shapes = [Disc(x + 0.5, y + 0.5, 0.36, _FOOD, str(level)) for y, x, level in food if level]
        squares = [Box(x + 0.12, y + 0.12, 0.76, 0.76, _PLAYER, str(level)) for y, x, level in players]
        return Scene(columns, rows, (*grid(rows, columns), *shapes, *squares))


def _spec(name: str, horizon: int, options: ForagingOptions) -> EnvSpec:
    agents = tuple(f"agent_{number}" for number in range(options.players))
    described: dict[str, Any] = {}
    if options.grid_observation:
        described["observation_shape"] = (3, 2 * options.sight + 1, 2 * options.sight + 1)
        size = 3 * (2 * options.sight + 1) ** 2
    else:
        size = 3 * options.max_num_food + (2 + options.observe_agent_levels) * options.players
        described["entities"] = _entities(size, options)
    kind = AgentClass("agent", tuple(range(options.players)), size, _ACTIONS, **described)
    return EnvSpec(agents, (kind,), horizon, sides=sides_of(name, agents, options.sides))


def _entities(size: int, options: ForagingOptions) -> Entities:
    """The food and the other players. Players see themselves first, and all positions from a corner."""
    food, features, absent = 3 * options.max_num_food, 2 + options.observe_agent_levels, (-1.0, -1.0, 0.0)
    others = columns_of(options.players - 1, (food + features, features))
    return Entities.of(
        size,
        EntityBlock("food", columns_of(options.max_num_food, (0, 3)), (0, 1), absent),
        EntityBlock("teammate", others, (0, 1), absent[:features], teammates=True),
        origin=(food, food + 1),
    )
