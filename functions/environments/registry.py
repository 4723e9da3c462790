"""Env tasks by name: built-in ones, any PettingZoo environment, and plug-ins of other packages.

A built-in environment is one module with a function `make`, and one line here. Its module is imported when one of its
env tasks is made. A plug-in is an entry point of the group `marless.environments`: its name is the task's name, its
value a callable ``make(task: EnvTask, num_envs: int) -> VectorEnvironment``. A plug-in cannot take a built-in name.
"""

import difflib
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.metadata import EntryPoint
from typing import Any, NamedTuple

import msgspec

from functions.contract import BadRequest, MissingExtra
from functions.environments.base import EnvironmentFault, EnvSpec, EnvTask, VectorEnvironment
from functions.environments.last_action import LastAction
from functions.isolation.keeper import settled
from functions.plug_ins import plug_ins

GROUP = "marless.environments"

BUILT_IN = {
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

Make = Callable[[EnvTask, int], VectorEnvironment]


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """`num_envs` environments of `task`, stepped together.

    Raises `BadRequest` for an unknown name or options that the env task does not take, `MissingExtra` when a package is
    not installed, `Unsupported` when the environment needs a feature that this version lacks, `EnvironmentFault` when
    it breaks.
    """
    if num_envs < 1:
        raise BadRequest(f"{task.name}: num_envs is {num_envs}; at least 1 is needed")
    try:
        with settled(f"{task.name}, make"):
            environment = _maker(task.name)(task, num_envs)
        if task.name not in BUILT_IN:
            _settle_calls(task.name, environment)
        return LastAction(environment) if task.last_action else environment
    except ValueError as error:
        raise BadRequest(_error_text(task, error)) from error


def _settle_calls(name: str, environment: VectorEnvironment) -> None:
    """Has what the environment did to the arithmetic undone after each of its calls."""

    def settling(method: str) -> Callable[..., Any]:
        call = getattr(environment, method)

        def settled_call(*args: object) -> Any:
            with settled(f"{name}, {method}"):
                return call(*args)

        return settled_call

    for method in ("reset", "reset_blocks", "step", "save", "resume"):
        if hasattr(environment, method):
            with suppress(AttributeError):  # it has slots; then all is put back when the task ends
                setattr(environment, method, settling(method))


def spec(task: EnvTask) -> EnvSpec:
    """The spec of `task`, read from one environment; raises what `make` raises."""
    environment = make(task, 1)
    try:
        return environment.spec
    finally:
        environment.close()


def names() -> tuple[str, ...]:
    """All env tasks that can be listed, plug-ins included, sorted."""
    return tuple(sorted({*BUILT_IN, *plug_ins(GROUP)}))


def known(name: str) -> bool:
    """Whether `name` is listed, or has the prefix of a family; `make` then checks the rest of the name."""
    return name in names() or name.startswith(tuple(FAMILIES))


def adapted(name: str) -> bool:
    """Whether agents of this env task observe what the task's own package shows, which need not be vectors."""
    return name.startswith(tuple(start for start, family in FAMILIES.items() if not family.vectors))


def unknown(name: str) -> str:
    """The message for an unknown name: the nearest one, or else all."""
    examples = {family.example: f"{family.example} ({family.tasks})" for family in FAMILIES.values()}
    if nearest := difflib.get_close_matches(name, [*names(), *examples], n=1, cutoff=0.5):
        return f"no environment is called {name}; did you mean {nearest[0]}?"
    *most, last = *names(), *examples.values()
    return f"no environment is called {name}; there are {', '.join(most)} and {last}"


def _maker(name: str) -> Make:
    family = next((family.module for start, family in FAMILIES.items() if name.startswith(start)), None)
    if module := BUILT_IN.get(name, family):
        built_in: Make = import_module(module).make
        return built_in
    for offer in plug_ins(GROUP).get(name, ()):
        return _load(offer)
    raise ValueError(unknown(name))


def _error_text(task: EnvTask, error: ValueError) -> str:
    """The message of `error`, with the env task's name in front unless it contains it."""
    text = f"task.options: {error}" if isinstance(error, msgspec.ValidationError) else str(error)
    return text if task.name in text else f"{task.name}: {text}"


def _load(offer: EntryPoint) -> Make:
    """The plug-in's callable; an error in loading it names its entry point."""
    where = f"environment plug-in '{offer.name}' ({offer.value})"
    try:
        make_plug_in: Make = offer.load()
    except Exception as error:
        # A missing submodule of an installed package cannot be installed.
        if isinstance(error, ModuleNotFoundError) and error.name and "." not in error.name:
            raise MissingExtra(f"{where} needs the package '{error.name}': pip install {error.name}") from error
        what = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise EnvironmentFault(f"{where} does not load: {what}") from error
    return make_plug_in
