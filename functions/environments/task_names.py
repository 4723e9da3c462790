"""Env tasks by name: built-in ones, any PettingZoo environment, and plug-ins of other packages.

A built-in environment is one module with a function `make`, and one line here. Its module is imported when one of its
env tasks is made. A plug-in is an entry point of the group `marless.environments`: its name is the task's name, its
value a callable ``make(task: EnvTask, num_envs: int) -> VectorEnvironment``, which may take `resources` too: what it
may ask. A plug-in cannot take a built-in name.
"""

import difflib
from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import NamedTuple, cast

from functions.environments.base import EnvironmentFault, EnvTask, VectorEnvironment
from functions.plug_in_registry import Registry, load_error

# The option of `mpe/` tasks by which their physics has the same bytes on every machine, to the last bits that of mpe2.
EXACT_PHYSICS = "exact_physics"

Make = Callable[[EnvTask, int], VectorEnvironment]

BUILT_IN: dict[str, Make | str] = {
    "matrix/climbing": "functions.environments.matrix",
    "matrix/penalty": "functions.environments.matrix",
    "matrix/two_step": "functions.environments.matrix",
    "mpe/simple": "functions.environments.mpe.simple",
    "mpe/simple_adversary": "functions.environments.mpe.simple_adversary",
    "mpe/simple_crypto": "functions.environments.mpe.simple_crypto",
    "mpe/simple_push": "functions.environments.mpe.simple_push",
    "mpe/simple_reference": "functions.environments.mpe.simple_reference",
    "mpe/simple_speaker_listener": "functions.environments.mpe.simple_speaker_listener",
    "mpe/simple_spread": "functions.environments.mpe.simple_spread",
    "mpe/simple_tag": "functions.environments.mpe.simple_tag",
    "mpe/simple_world_comm": "functions.environments.mpe.simple_world_comm",
    "roles/apprentices": "functions.environments.roles.apprentices",
    "roles/blind_spread": "functions.environments.roles.blind_spread",
    "toy/corridor": "functions.environments.corridor",
    "toy/dial": "functions.environments.dial",
    "toy/signal": "functions.environments.toy",
}


class _Family(NamedTuple):
    """Env tasks that are too many to list: the module that makes them, one of their names, and what they are."""

    module: str
    example: str
    tasks: str
    # Whether observations are vectors; else they are what the task's own package shows.
    vectors: bool = False


# By the prefix of their names.
FAMILIES = {
    "hanabi/": _Family("functions.environments.hanabi", "hanabi/small", "the card game Hanabi"),
    "lbf/": _Family("functions.environments.lbf", "lbf/8x8-2p-3f", "level-based foraging"),
    "magent2/": _Family("functions.environments.magent2", "magent2/battle", "many agents on a grid"),
    "mamujoco/": _Family("functions.environments.mamujoco", "mamujoco/HalfCheetah-2x3", "robots with several brains"),
    "overcooked/": _Family(
        "functions.environments.overcooked.kitchen", "overcooked/cramped_room", "cooks in a kitchen"
    ),
    "meltingpot/": _Family("functions.environments.meltingpot", "meltingpot/coins", "Melting Pot's substrates"),
    "rware/": _Family("functions.environments.rware", "rware/tiny-2ag", "robots in a warehouse"),
    "smac/": _Family("functions.environments.starcraft.smac", "smac/8m", "StarCraft", vectors=True),
    "smacv2/": _Family("functions.environments.starcraft.smac", "smacv2/terran_5_vs_5", "StarCraft", vectors=True),
    "smax/": _Family(
        "functions.environments.starcraft.smax", "smax/8m", "SMAC's battles without StarCraft", vectors=True
    ),
    "vmas/": _Family("functions.environments.vmas.adapter", "vmas/balance", "VMAS, robots in the plane", vectors=True),
    "pettingzoo:": _Family(
        "functions.environments.pettingzoo.adapter", "pettingzoo:package.module:factory", "any PettingZoo environment"
    ),
}


class _Environments(Registry[Make]):
    """Those that can be listed."""

    def unknown(self, name: str) -> str:
        """The nearest name, or else all."""
        examples = {family.example: f"{family.example} ({family.tasks})" for family in FAMILIES.values()}
        if nearest := difflib.get_close_matches(name, [*sorted(self), *examples], n=1, cutoff=0.5):
            return f"no environment is called {name}; did you mean {nearest[0]}?"
        *most, last = *sorted(self), *examples.values()
        return f"no environment is called {name}; there are {', '.join(most)} and {last}"

    def load(self, name: str, offer: EntryPoint) -> Make:
        try:
            return cast(Make, offer.load())
        except Exception as error:
            where = f"environment plug-in {name!r} ({offer.value})"
            raise load_error(where, "", error, EnvironmentFault) from error


ENVIRONMENTS = _Environments(
    "marless.environments", BUILT_IN, lambda name: f"environment {name!r}", error=EnvironmentFault, attribute="make"
)


def is_known(name: str) -> bool:
    """Whether `name` is listed, or has the prefix of a family; `make` then checks the rest of the name."""
    return name in ENVIRONMENTS or name.startswith(tuple(FAMILIES))


def is_adapted(name: str) -> bool:
    """Whether agents of this env task observe what the task's own package shows, which need not be vectors."""
    return name.startswith(tuple(start for start, family in FAMILIES.items() if not family.vectors))
