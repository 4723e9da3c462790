"""The fields of the games' structures, in the order of their headers in C. Each has eight bytes."""

from ctypes import c_int64, c_void_p
from typing import Any

_SIZES = ("envs", "agents", "features", "choices", "state_size")
_STATE = ("keys", "episode", "clock", "actions")
OUTPUTS = ("values", "masks", "state", "alive", "rewards", "terminated", "truncated", "ended", "metrics")
_SHARED = (*_SIZES, *_STATE, *OUTPUTS)

# The fields by game, see `game.h` for the shared ones.
GAMES = {
    "battle": (
        *_SHARED, "units", "padded", "world_steps", "limit", "shoots", "aims_at_random", "sees_actions", "is_conic",
        "walls_kill", "pays_victory", "is_earlier", "is_drawn", "traits", "numbers", "army", "borders",
        "x", "y", "health", "cooldown", "goal_x", "goal_y", "orders", "kinds", "targets",
    ),
    "foraging": (
        *_SHARED, "rows", "columns", "foods", "horizon", "sight", "min_player_level", "max_player_level",
        "min_food_level", "max_food_level", "force_coop", "normalize_reward", "observe_agent_levels",
        "grid_observation", "penalty", "players", "food", "spawned",
    ),
    "warehouse": (
        *_SHARED, "rows", "columns", "shelves", "requests", "goal_count", "horizon", "max_inactivity_steps",
        "sensor_range", "msg_bits", "reward_type", "is_image", "has_features", "is_directional", "floor", "homes",
        "goals", "across", "down", "robots", "shelf_at", "robot_at", "requested", "idle",
    ),
    "kitchen": (
        *_SHARED, "columns", "area", "counters", "pots", "horizon", "paints",
        "terrain", "pot_numbers", "pot_cells", "pays", "cook_steps", "shaping", "first_cooks", "first_tiles", "blank",
        "spots", "to_dispensers", "next_pots", "next_counters", "to_counters",
        "cells", "facings", "hands", "tiles", "dropped", "laid", "cooked", "sales",
    ),
}  # fmt: skip
# The result and the arguments of each kernel, see `marless.functions.native.interface`.
KERNELS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "random_words": (None, (c_void_p, c_void_p, c_void_p)),
    **{f"{game}_step": (c_int64, (c_void_p,)) for game in GAMES},
    **{f"{game}_{call}": (None, (c_void_p, c_void_p)) for game in GAMES for call in ("reset", "observe")},
}


def layouts() -> dict[str, tuple[int, int]]:
    """Return the offset and the size of each structure and field."""
    table = {}
    for game, fields in GAMES.items():
        name = game.capitalize()
        table[name] = 0, 8 * len(fields)
        table |= {f"{name}.{field}": (8 * place, 8) for place, field in enumerate(fields)}
    return table
