"""Env tasks by name: built-in ones, any PettingZoo environment, and plug-ins of other packages.

A built-in environment is one module with a function `make`, and one line here. Its module is imported when one of its
env tasks is made. A plug-in is an entry point of the group `marless.environments`. Its name is the task's name, its
value a callable ``make(task: EnvTask, num_envs: int) -> VectorEnvironment``. It may also take `resources`. A plug-in
for a family of tasks is an entry point of the group `marless.task_families`. Its name is the prefix of the tasks'
names, its value a `TaskFamily`. A plug-in cannot take a built-in name or prefix.
"""

import difflib
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import EntryPoint
from types import MappingProxyType
from typing import NamedTuple, cast

from marless.functions.environments.base import EnvironmentFault, EnvTask, VectorEnvironment
from marless.functions.errors import BadRequest
from marless.functions.plug_in_registry import Registry, load_error

# The option of `mpe/` tasks for physics with the same bytes on every machine, equal to mpe2's up to the last bits.
EXACT_PHYSICS = "exact_physics"

# Where the modules of compiled games are.
_GAMES = "marless.functions.environments.games."

Make = Callable[[EnvTask, int], VectorEnvironment]

BUILT_IN: dict[str, Make | str] = {
    "matrix/climbing": "marless.functions.environments.matrix",
    "matrix/penalty": "marless.functions.environments.matrix",
    "matrix/two_step": "marless.functions.environments.matrix",
    "mpe/simple": "marless.functions.environments.mpe.simple",
    "mpe/simple_adversary": "marless.functions.environments.mpe.simple_adversary",
    "mpe/simple_crypto": "marless.functions.environments.mpe.simple_crypto",
    "mpe/simple_push": "marless.functions.environments.mpe.simple_push",
    "mpe/simple_reference": "marless.functions.environments.mpe.simple_reference",
    "mpe/simple_speaker_listener": "marless.functions.environments.mpe.simple_speaker_listener",
    "mpe/simple_spread": "marless.functions.environments.mpe.simple_spread",
    "mpe/simple_tag": "marless.functions.environments.mpe.simple_tag",
    "mpe/simple_world_comm": "marless.functions.environments.mpe.simple_world_comm",
    "roles/apprentices": "marless.functions.environments.roles.apprentices",
    "roles/blind_spread": "marless.functions.environments.roles.blind_spread",
    "toy/corridor": "marless.functions.environments.corridor",
    "toy/dial": "marless.functions.environments.dial",
    "toy/signal": "marless.functions.environments.toy",
}


Settings = Mapping[str, float | str | bool]
"""Settings of a run by dotted key."""


class TaskFamily(NamedTuple):
    """A family of env tasks. Their names have the same prefix."""

    module: str
    """The module with `make`, which is imported when a task is made."""
    example: str
    """The name of one task."""
    tasks: str
    """A few words about the tasks."""
    vectors: bool = False
    """Whether observations are vectors. The form of other observations is the package's own."""
    defaults: Settings = MappingProxyType({})
    """Default settings of runs, for a family of another package."""
    defaults_with: Mapping[str, Settings] = MappingProxyType({})
    """Stronger default settings, by algorithm."""


_FAMILIES: dict[str, TaskFamily | str] = {
    "smac/": TaskFamily("marless.functions.environments.starcraft.smac", "smac/8m", "StarCraft", vectors=True),
    "smacv2/": TaskFamily(
        "marless.functions.environments.starcraft.smac", "smacv2/terran_5_vs_5", "StarCraft", vectors=True
    ),
    "smax/": TaskFamily(
        "marless.functions.environments.games.battles", "smax/8m", "SMAC's battles without StarCraft", vectors=True
    ),
    "lbf/": TaskFamily(
        "marless.functions.environments.games.foraging", "lbf/8x8-2p-3f", "level-based foraging", vectors=True
    ),
    "rware/": TaskFamily(
        "marless.functions.environments.games.warehouse", "rware/tiny-2ag", "robots in a warehouse", vectors=True
    ),
    "overcooked/": TaskFamily(
        "marless.functions.environments.games.kitchen", "overcooked/cramped_room", "cooks in a kitchen", vectors=True
    ),
    "pettingzoo:": TaskFamily(
        "marless.functions.environments.pettingzoo.adapter",
        "pettingzoo:package.module:factory",
        "any PettingZoo environment",
    ),
}
FAMILIES = Registry(
    "marless.task_families",
    _FAMILIES,
    lambda prefix: f"family of environments {prefix!r}",
    lambda value: "" if isinstance(value, TaskFamily) else "is no TaskFamily",
)
"""Families by the prefix of their tasks' names."""

# Families of other packages, by prefix, and the extra that installs each.
GUESTS: Mapping[str, str] = {
    **{f"{extra}/": extra for extra in ("channel", "hanabi", "magent2", "mamujoco", "meltingpot", "vmas")},
    # Packages with games that we also play in C.
    "package:lbf/": "lbf",
    "package:rware/": "rware",
    "package:overcooked/": "overcooked",
}


class _Environments(Registry[Make]):
    def unknown(self, name: str) -> str:
        """The command that installs the task's package, the nearest name, or all names."""
        if command := install_command(name):
            return f"{name} is in a package that is not installed: {command}"
        examples = {example: f"{example} ({tasks})" for example, tasks in family_examples().items()}
        if nearest := difflib.get_close_matches(name, [*sorted(self), *examples], n=1, cutoff=0.5):
            return f"no environment is called {name}; did you mean {nearest[0]}?"
        *most, last = *sorted(self), *examples.values()
        return f"no environment is called {name}; there are {', '.join(most)} and {last}"

    def load(self, name: str, offer: EntryPoint) -> Make:
        try:
            return cast(Make, offer.load())
        except Exception as error:
            plug_in = f"environment plug-in {name!r} ({offer.value})"
            raise load_error(plug_in, "", error, EnvironmentFault) from error


ENVIRONMENTS = _Environments(
    "marless.environments", BUILT_IN, lambda name: f"environment {name!r}", error=EnvironmentFault, attribute="make"
)


def install_command(name: str, guests: Mapping[str, str] = GUESTS) -> str:
    """Return the command that installs the package of a task, '' for a task in none of the `guests`."""
    return next((f"pip install 'marless[{extra}]'" for prefix, extra in guests.items() if name.startswith(prefix)), "")


def family_examples() -> dict[str, str]:
    """Return a few words about each family that can be loaded, by the name of one task."""
    examples = {}
    for prefix in FAMILIES:
        with suppress(BadRequest):
            examples[FAMILIES[prefix].example] = FAMILIES[prefix].tasks
    return examples


def prefix_of(name: str) -> str:
    """Return the longest prefix of a family that begins the name, or ''."""
    return max((prefix for prefix in FAMILIES if name.startswith(prefix)), key=len, default="")


def is_known(name: str) -> bool:
    """Return True if `name` is listed, or has the prefix of a family. `make` then checks the rest of the name."""
    return name in ENVIRONMENTS or bool(prefix_of(name))


def is_compiled(name: str) -> bool:
    """Return whether the rules of this env task are compiled, with the same bytes on every machine."""
    prefix = prefix_of(name)
    return bool(prefix) and FAMILIES[prefix].module.startswith(_GAMES)


def is_adapted(name: str) -> bool:
    """Return True if agents of this env task observe its own package's spaces, which need not be vectors."""
    prefix = prefix_of(name)
    return bool(prefix) and not FAMILIES[prefix].vectors
