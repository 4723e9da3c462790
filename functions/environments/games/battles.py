"""The tasks ``smax/<map>``: SMAX (Rutherford et al., 2024), StarCraft battles without StarCraft, in C.

The rules are JaxMARL 0.2.0's, and the enemy is its script `HeuristicEnemySMAX`. `task.options` are that class's keyword
arguments. With the option `earlier_rules` the rules are JaxMARL 0.1's: dead units are pushed and block the way.
Observations then have cooldowns in seconds and numbers of actions. With `equal_enemies` a network of attention fights
any number of enemies.

Rewards: JaxMARL gives every ally, dead ones included, the team's reward. It is the share of the enemy's health that was
lost, and 1 for the victory, so 2 at most for an episode. Here the agents that were alive before the step share the
reward equally. So the return, a sum over agents, is JaxMARL's return. A unit that dies terminates. An episode
terminates when one side is dead, and is truncated at the time limit. The env metric `win` is 1 if all enemies and not
all allies are dead. Positions in the global state are divided by the size of the map, about 32, because mixing networks
and critics fail with large inputs.
"""

import difflib
import math
import re
from typing import Annotated, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.base import AgentClass, EnvSpec, EnvTask, VectorEnvironment, options_of
from marless.functions.environments.entities.description import Entities, EntityBlock, columns_of
from marless.functions.environments.games.compiled import CompiledEnvironment
from marless.functions.environments.scene import Box, Colour, Disc, Scene, Shape, fade
from marless.functions.native.interface import BLOCK
from marless.functions.setting_limits import LARGEST, MOST_STEPS

PREFIX = "smax/"
# A name states the numbers and kinds of units, or the number of units on each side with drawn kinds.
MAPS = (
    "3m", "8m", "25m", "5m_vs_6m", "10m_vs_11m", "27m_vs_30m", "2s3z", "3s5z", "3s5z_vs_3s6z", "3s_vs_5z", "6h_vs_8z",
    "smacv2_5_units", "smacv2_10_units", "smacv2_20_units",
)  # fmt: skip

# Marines, marauders, stalkers, zealots, zerglings and hydralisks. In the names of maps `z` is a zealot.
_KINDS = "mMsZzh"
_SPEED = (3.15, 2.25, 4.13, 3.15, 4.13, 3.15)
_DAMAGE = (9.0, 10.0, 13.0, 8.0, 5.0, 12.0)
_RANGE = (5.0, 6.0, 6.0, 2.0, 2.0, 5.0)
_SIGHT = (9.0, 10.0, 10.0, 9.0, 8.0, 9.0)
_RADIUS = (0.375, 0.5625, 0.625, 0.5, 0.375, 0.625)
_WHOLE = (45.0, 125.0, 160.0, 150.0, 35.0, 80.0)
_RELOADING = (0.61, 1.07, 1.87, 0.86, 0.5, 0.59)
# Features of another unit and of oneself, units in a conic observation, and moves with the stop.
_SHOWN, _OWN, _IN_SECTIONS, _MOVES = 13, 10, 64, 5

_ALLY, _ENEMY, _HEALTH, _LOST = (0.3, 0.4, 0.9), (0.9, 0.35, 0.35), (0.2, 0.7, 0.2), (0.85, 0.85, 0.85)

_Count = Annotated[int, msgspec.Meta(ge=1, le=MOST_STEPS)]


class BattleOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keyword arguments of JaxMARL's `HeuristicEnemySMAX` that a task may choose, and the rules' version."""

    max_steps: _Count = 100
    attack_mode: Literal["closest", "random"] = "closest"
    enemy_shoots: bool = True
    see_enemy_actions: bool = True
    observation_type: Literal["unit_list", "conic"] = "unit_list"
    won_battle_bonus: Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)] = 1.0
    use_self_play_reward: bool = False
    walls_cause_death: bool = True
    map_width: _Count = 32
    map_height: _Count = 32
    world_steps_per_env_step: _Count = 8
    time_per_step: Annotated[float, msgspec.Meta(gt=0, le=LARGEST)] = 0.0625
    earlier_rules: bool = False
    equal_enemies: bool = False


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """`num_envs` battles on the map in `task.name`.

    Raises `MissingExtra` without compiled kernels, and `ValueError` for an unknown map, wrong options or another number
    of agents than `task.agents`.
    """
    name = task.name.removeprefix(PREFIX)
    if name not in MAPS:
        nearest = ", ".join(difflib.get_close_matches(name, MAPS, cutoff=0.5) or MAPS)
        raise ValueError(f"{task.name}: SMAX has no map '{name}'. Choose one of {nearest}")
    allies, enemies = _armies(name)
    if task.agents not in (None, len(allies)):
        raise ValueError(f"{task.name}: task.agents is {task.agents}, but the map has {len(allies)} agents")
    return BattleEnvironment(task.name, options_of(task, BattleOptions), allies, enemies, num_envs)


class BattleEnvironment(CompiledEnvironment):
    """E battles on one map."""

    game = "battle"

    def __init__(self, name: str, options: BattleOptions, allies: str, enemies: str, num_envs: int) -> None:
        """`allies` and `enemies` have one letter for each unit, or a space if its kind is drawn."""
        self._options, self._units = options, len(allies + enemies)
        padded = -(-self._units // BLOCK) * BLOCK
        by_unit = num_envs, padded
        numbers = [options.time_per_step, options.map_width, options.map_height, options.won_battle_bonus]
        army = [max(_KINDS.find(letter), 0) for letter in allies + enemies]
        super().__init__(
            name,
            _spec(options, len(allies), len(enemies)),
            num_envs,
            {"units": self._units, "padded": padded, "is_drawn": " " in allies, **_sizes(options)},
            {
                "traits": _traits(options.time_per_step),
                "numbers": np.array(numbers, np.float32),
                "army": np.array(army, np.int8),
                "borders": _borders(),
            },
            dict.fromkeys(("x", "y", "health", "cooldown", "goal_x", "goal_y"), (np.float32, by_unit))
            | {"orders": (np.int32, by_unit), "kinds": (np.int8, by_unit), "targets": (np.int8, by_unit)},
            metrics=("win",),
            is_mortal=True,
        )

    def render(self, index: int) -> Scene:
        """Return blue allies and red enemies, with bars of their health. Dead units are faded."""
        x, y, health, kinds = (self.arrays[name][index, : self._units] for name in ("x", "y", "health", "kinds"))
        width, height = self._options.map_width, self._options.map_height
        shapes: list[Shape] = []
        for unit in np.argsort(health > 0, kind="stable").tolist():  # dead units below all others
            colour = _ALLY if unit < len(self.spec.agents) else _ENEMY
            radius, share = _RADIUS[kinds[unit]], float(health[unit]) / _WHOLE[kinds[unit]]
            shapes += _unit_shapes(float(x[unit]), height - float(y[unit]), radius, share, colour)
        return Scene(width, height, tuple(shapes))


def _unit_shapes(x: float, y: float, radius: float, share: float, colour: Colour) -> list[Shape]:
    if share <= 0:
        return [Disc(x, y, radius, fade(colour), outline=_LOST)]
    x_left, top = x - radius, y - radius - 0.4
    return [
        Disc(x, y, radius, colour),
        Box(x_left, top, 2 * radius, 0.25, _LOST),
        Box(x_left, top, 2 * radius * share, 0.25, _HEALTH),
    ]


def _armies(name: str) -> tuple[str, str]:
    """The units of allies and enemies on a map, a letter for each. A blank is a unit of a drawn kind."""
    if name.startswith("smacv2_"):
        units = " " * int(name.split("_")[1])
        return units, units
    sides = [
        "".join(int(count) * ("Z" if letter == "z" else letter) for count, letter in re.findall(r"(\d+)([a-z])", side))
        for side in name.split("_vs_")
    ]
    return sides[0], sides[-1]


def _sizes(options: BattleOptions) -> dict[str, int]:
    return {
        "world_steps": options.world_steps_per_env_step,
        "limit": options.max_steps,
        "shoots": options.enemy_shoots,
        "aims_at_random": options.attack_mode == "random",
        "sees_actions": options.see_enemy_actions,
        "is_conic": options.observation_type == "conic",
        "walls_kill": options.walls_cause_death,
        "pays_victory": options.use_self_play_reward,
        "is_earlier": options.earlier_rules,
    }


def _spec(options: BattleOptions, allies: int, enemies: int) -> EnvSpec:
    everybody, others = tuple(range(allies)), allies - 1 + enemies
    is_list = options.observation_type == "unit_list"
    size = _SHOWN * (others if is_list else _IN_SECTIONS) + _OWN
    entities = _entities(size, allies - 1, enemies, options.equal_enemies) if is_list else None
    return EnvSpec(
        agents=tuple(f"ally_{i}" for i in everybody),
        classes=(AgentClass("ally", everybody, size, _MOVES + enemies, entities=entities),),
        horizon=options.max_steps + 1,  # the time is checked before the step is counted
        state_size=(_OWN + 2) * (allies + enemies),
        masked=True,
    )


def _entities(size: int, teammates: int, enemies: int, are_equal: bool) -> Entities:
    """Return the units in a list of all units.

    Actions name enemies by their numbers. So each enemy is a separate block, or the block says which actions name them.
    Teammates are equal, except that an enemy's latest target is an ally's number. The option `see_enemy_actions=false`
    removes this feature.
    """
    position, absent = (1, 2), (0.0,) * _SHOWN
    columns = columns_of(enemies, (teammates * _SHOWN, _SHOWN))
    apart = (EntityBlock(f"enemy_{i}", (each,), position, absent) for i, each in enumerate(columns))
    together = EntityBlock("enemy", columns, position, absent, first_action=_MOVES)
    return Entities.of(
        size,
        EntityBlock("teammate", columns_of(teammates, (0, _SHOWN)), position, absent, teammates=True),
        *((together,) if are_equal else apart),
    )


def _traits(time: float) -> NDArray[np.float32]:
    """Return the traits of each kind of unit, see battle.h ``[traits, kinds]``."""
    way, squares = np.array(_SPEED, np.float32) * np.float32(time), (_least_squares(_RANGE), _least_squares(_SIGHT))
    return np.array([way, _DAMAGE, *squares, _SIGHT, _RADIUS, _WHOLE, _RELOADING], np.float32)


def _least_squares(radii: tuple[float, ...]) -> NDArray[np.float32]:
    """Return the least numbers with roots of at least the radii, so that comparisons need no root."""
    squares = np.square(np.array(radii, np.float32))
    below = np.nextafter(squares, np.float32(0))
    return np.where(np.sqrt(below) >= np.array(radii, np.float32), below, squares)


def _borders() -> NDArray[np.float32]:
    """Return 32 directions from the left, against the clock. Square roots have the same bits everywhere."""
    root, half = math.sqrt, math.sqrt(2)
    eighths = [root(2 + root(2 + half)), root(2 + half), root(2 + root(2 - half)), half]
    eighths += [root(2 - root(2 - half)), root(2 - half), root(2 - root(2 + half))]
    cosines = [1.0, *(double / 2 for double in eighths), 0.0]
    quarter = [(-cosines[i], -cosines[8 - i]) for i in range(8)]
    directions = []
    for _ in range(4):
        directions += quarter
        quarter = [(-y, x) for x, y in quarter]
    return np.array(directions, np.float32)
