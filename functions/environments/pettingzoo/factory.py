"""From an env task's name to a PettingZoo environment: finds and calls the factory; errors are one line."""

import difflib
import pkgutil
import re
import sys
from collections.abc import Callable
from contextlib import redirect_stderr
from importlib import import_module
from inspect import get_annotations, getattr_static
from io import StringIO
from types import FunctionType
from typing import Any

from functions.contract import MissingExtra
from functions.environments.base import EnvironmentFault, EnvTask, Unsupported
from functions.environments.pettingzoo.guard import describe_error, describe_error_with_location, foreign_location
from functions.environments.pettingzoo.turns import TurnEnvironment
from functions.named_code import refuse_standard, require_maker

Factory = Callable[..., Any]

# Packages that built-in env tasks need, and what pip has to install; the origin of any other package is unknown.
OURS = {
    **{name: name for name in ("pettingzoo", "mpe2", "gymnasium", "supersuit", "lbforaging", "rware", "magent2")},
    "gymnasium_robotics": "gymnasium-robotics 'mujoco<3.6'",
    "overcooked_ai_py": "--no-deps overcooked-ai gym",
}
# Packages that a family of PettingZoo imports are installed as the extra of that name.
_FAMILY = re.compile(r"pettingzoo\.(atari|butterfly|classic|sisl)\b")

_AGENTS = "possible_agents"
# Annotations that say that a function makes an environment.
_CLASSES = ("ParallelEnv", "AECEnv")

OUR_OPTIONS = ("horizon", "joint_actions", "rebuild", "sides")
_NAME = re.compile(r"pettingzoo:(\w+(?:\.\w+)*):(\w+)")


def factory_of(name: str) -> Factory:
    """The factory that a task name of the form ``pettingzoo:package.module:factory`` names.

    It is not called, only looked at: whatever else a name may point to makes no environment. Raises `ValueError`, with
    the nearest existing names, `MissingExtra` or `EnvironmentFault`.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"'{name}' names no environment: write it as 'pettingzoo:package.module:factory'")
    refuse_standard(match[1])
    module = module_of(name, match[1])
    try:
        factory = getattr(module, match[2], None)
    except Exception as error:  # a package that tells what has become of a name
        raise ValueError(f"{name}: module '{match[1]}' refuses '{match[2]}': {describe_error(error)}") from error
    if callable(factory):
        try:
            require_maker(factory, is_environment, _CLASSES, "an environment (reset, step, possible_agents)")
        except ModuleNotFoundError as error:
            raise _missing(name, error) from error
        named_factory: Factory = factory
        return named_factory
    # A module of PettingZoo that has `env` but no `parallel_env`.
    if match[2] == "parallel_env" and _FAMILY.match(match[1]) and "env" in vars(module):
        raise ValueError(f"{name}: in the game of module '{match[1]}' agents take turns; name its 'env' instead")
    public = [word for word, value in vars(module).items() if callable(value) and not word.startswith("_")]
    raise ValueError(f"{name}: module '{match[1]}' has no factory '{match[2]}'{_nearest(match[2], public)}")


def is_environment(kind: type) -> bool:
    """Whether a class has the interface of a `ParallelEnv` or an `AECEnv`, or passes it on to an environment inside."""
    passes_on = hasattr(kind, "__getattr__")
    methods = [callable(getattr_static(kind, name, None)) for name in ("reset", "step")]
    has_agents = hasattr(kind, _AGENTS) or any(map(_speaks_of_agents, kind.__mro__))
    return (any(methods) and passes_on) or (all(methods) and has_agents)


def _speaks_of_agents(kind: type) -> bool:
    """Whether a class declares `possible_agents` or sets it in one of its methods."""
    codes = (value.__code__ for value in vars(kind).values() if isinstance(value, FunctionType))
    return _AGENTS in get_annotations(kind) or any(_AGENTS in code.co_names for code in codes)


def module_of(name: str, path: str) -> Any:
    """The module `path`, for the task `name`; raises what `factory_of` raises."""
    try:
        return import_module(path)
    except ModuleNotFoundError as error:
        raise _missing(name, error, path) from error
    except Exception as error:
        raise EnvironmentFault(f"{name}: import of '{path}': {describe_error_with_location(error)}") from error


def quiet_module_of(name: str, path: str) -> Any:
    """As `module_of`, without the notices that some packages print when they are imported."""
    with redirect_stderr(StringIO()):
        return module_of(name, path)


def _missing(name: str, error: ModuleNotFoundError, path: str = "") -> ValueError | MissingExtra:
    """The error for a missing package or module, which is `path` or which `path` imports."""
    missing = error.name or path or str(error)
    parent, _, child = missing.rpartition(".")
    # Python searches a submodule only after it imported the package.
    if sys.modules.get(parent) is not None:
        siblings = [module.name for module in pkgutil.iter_modules(getattr(sys.modules[parent], "__path__", []))]
        no_module = f"package '{parent}' has no module '{child}'{_nearest(child, siblings)}"
        return ValueError(f"{name}: {no_module}{foreign_location(error)}")
    package = missing.partition(".")[0]
    if family := _FAMILY.match(path):
        return MissingExtra(f"{name} needs '{missing}', which is not installed: pip install 'pettingzoo[{family[1]}]'")
    if package in OURS or package != path.partition(".")[0]:
        return MissingExtra(
            f"{name} needs the package '{package}', which is not installed: pip install {OURS.get(package, package)}"
        )
    return MissingExtra(f"{name}: '{package}' is neither installed nor in the current folder; run from where it lies")


def foreign_options(task: EnvTask) -> dict[str, str | int | float | bool]:
    """The options for the environment's factory."""
    return {key: value for key, value in task.options.items() if key not in OUR_OPTIONS}


def build(task: EnvTask, factory: Factory) -> Any:
    """One environment with the task's options, an `AECEnv` as a `TurnEnvironment`; raises `Unsupported` when it is
    neither that nor a parallel one, and `ValueError` when the factory refuses the options."""
    options = foreign_options(task)
    try:
        environment = factory(**options)
    except ModuleNotFoundError as error:
        raise _missing(task.name, error) from error
    except ImportError as error:
        # Some environments look for a package themselves and raise a text of their own.
        family = _FAMILY.match(getattr(factory, "__module__", ""))
        hint = f": pip install 'pettingzoo[{family[1]}]'" if family else ""
        raise MissingExtra(f"{task.name} lacks a package ({describe_error(error)}){hint}") from error
    except Exception as error:
        if options:
            raise ValueError(
                f"{task.name}: the factory refuses task.options {options}: {describe_error(error)}"
            ) from error
        raise EnvironmentFault(f"{task.name}, factory: {describe_error_with_location(error)}") from error
    if hasattr(environment, "agent_iter"):
        return _in_turns(task, environment)
    return _checked(task, environment, "reset", "step", "close")


def _in_turns(task: EnvTask, game: Any) -> TurnEnvironment:
    """An `AECEnv`, a turn per step; refuses one whose agents can act at once, because that takes fewer steps."""
    if (getattr(game, "metadata", None) or {}).get("is_parallelizable", False):
        raise Unsupported(f"{task.name} makes an AECEnv whose agents can act at once; name its parallel_env instead")
    return TurnEnvironment(task.name, _checked(task, game, "reset", "step", "close", "observe"))


def _checked(task: EnvTask, environment: Any, *methods: str) -> Any:
    if absent := [method for method in methods if not hasattr(environment, method)]:
        kind = type(environment).__name__
        raise Unsupported(f"{task.name} makes a {kind}, neither a ParallelEnv nor an AECEnv (it has no {absent[0]})")
    if not getattr(environment, "possible_agents", None):
        raise Unsupported(f"{task.name} does not list its possible_agents")
    return environment


def _nearest(word: str, choices: list[str]) -> str:
    nearest = difflib.get_close_matches(word, choices)
    return f"; nearest: {', '.join(nearest)}" if nearest else ""
