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

# Packages that built-in env tasks import, with the arguments of `pip install`; those of other packages are unknown.
TASK_PACKAGES = {
    **{name: name for name in ("pettingzoo", "mpe2", "gymnasium", "supersuit", "lbforaging", "rware", "magent2")},
    "gymnasium_robotics": "gymnasium-robotics 'mujoco<3.6'",
    "overcooked_ai_py": "--no-deps overcooked-ai gym",
}
# Packages that a family of PettingZoo imports are installed as the extra of that name.
_FAMILY = re.compile(r"pettingzoo\.(atari|butterfly|classic|sisl)\b")

_AGENTS = "possible_agents"
# Annotations that say that a function makes an environment.
_CLASSES = ("ParallelEnv", "AECEnv")

ADAPTER_OPTIONS = ("horizon", "joint_actions", "rebuild", "sides")
_NAME = re.compile(r"pettingzoo:(\w+(?:\.\w+)*):(\w+)")


def factory_of(name: str) -> Factory:
    """The factory that a task name of the form ``pettingzoo:package.module:factory`` names.

    It is inspected and not called, so that a name of something else has no effect. Raises `ValueError`, with the
    nearest existing names, `MissingExtra` or `EnvironmentFault`.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"'{name}' names no environment: write it as 'pettingzoo:package.module:factory'")
    refuse_standard(match[1])
    module = module_of(name, match[1])
    try:
        factory = getattr(module, match[2], None)
    except Exception as error:  # a package may raise for names that it no longer has
        raise ValueError(f"{name}: module '{match[1]}' refuses '{match[2]}': {describe_error(error)}") from error
    if callable(factory):
        try:
            require_maker(factory, is_environment, _CLASSES, "an environment (reset, step, possible_agents)")
        except ModuleNotFoundError as error:
            raise _package_error(name, error) from error
        named_factory: Factory = factory
        return named_factory
    # A module of PettingZoo that has `env` but no `parallel_env`.
    if match[2] == "parallel_env" and _FAMILY.match(match[1]) and "env" in vars(module):
        raise ValueError(f"{name}: in the game of module '{match[1]}' agents take turns; name its 'env' instead")
    public = [word for word, value in vars(module).items() if callable(value) and not word.startswith("_")]
    raise ValueError(f"{name}: module '{match[1]}' has no factory '{match[2]}'{_nearest(match[2], public)}")


def is_environment(kind: type) -> bool:
    """Whether a class has the interface of a `ParallelEnv` or an `AECEnv`, or delegates to a wrapped environment."""
    delegates = hasattr(kind, "__getattr__")
    methods = [callable(getattr_static(kind, name, None)) for name in ("reset", "step")]
    has_agents = hasattr(kind, _AGENTS) or any(map(_names_agents, kind.__mro__))
    return (any(methods) and delegates) or (all(methods) and has_agents)


def _names_agents(kind: type) -> bool:
    """Whether a class declares `possible_agents` or sets it in one of its methods."""
    codes = (value.__code__ for value in vars(kind).values() if isinstance(value, FunctionType))
    return _AGENTS in get_annotations(kind) or any(_AGENTS in code.co_names for code in codes)


def module_of(name: str, path: str) -> Any:
    """The module `path`, for the task `name`; raises what `factory_of` raises."""
    try:
        return import_module(path)
    except ModuleNotFoundError as error:
        raise _package_error(name, error, path) from error
    except Exception as error:
        raise EnvironmentFault(f"{name}: import of '{path}': {describe_error_with_location(error)}") from error


def quiet_module_of(name: str, path: str) -> Any:
    """As `module_of`, without what some packages print when they are imported."""
    with redirect_stderr(StringIO()):
        return module_of(name, path)


def _package_error(name: str, error: ModuleNotFoundError, path: str = "") -> ValueError | MissingExtra:
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
    if package in TASK_PACKAGES or package != path.partition(".")[0]:
        return MissingExtra(
            f"{name} needs the package '{package}', which is not installed:"
            f" pip install {TASK_PACKAGES.get(package, package)}"
        )
    return MissingExtra(f"{name}: '{package}' is neither installed nor in the current folder; run from where it lies")


def factory_options(task: EnvTask) -> dict[str, str | int | float | bool]:
    """The options for the environment's factory."""
    return {key: value for key, value in task.options.items() if key not in ADAPTER_OPTIONS}


def build(task: EnvTask, factory: Factory) -> Any:
    """One environment with the task's options, an `AECEnv` as a `TurnEnvironment`; raises `Unsupported` when it is
    neither that nor a parallel one, and `ValueError` when the factory refuses the options."""
    options = factory_options(task)
    try:
        environment = factory(**options)
    except ModuleNotFoundError as error:
        raise _package_error(task.name, error) from error
    except ImportError as error:
        # Some environments check for a package and raise another error than Python's.
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
        return _turn_environment(task, environment)
    return _require_interface(task, environment, "reset", "step", "close")


def _turn_environment(task: EnvTask, game: Any) -> TurnEnvironment:
    """An `AECEnv`, a turn per step; refuses a parallelizable one, because its `parallel_env` takes fewer steps."""
    if (getattr(game, "metadata", None) or {}).get("is_parallelizable", False):
        raise Unsupported(f"{task.name} makes an AECEnv whose agents can act at once; name its parallel_env instead")
    return TurnEnvironment(task.name, _require_interface(task, game, "reset", "step", "close", "observe"))


def _require_interface(task: EnvTask, environment: Any, *methods: str) -> Any:
    if absent := [method for method in methods if not hasattr(environment, method)]:
        kind = type(environment).__name__
        raise Unsupported(f"{task.name} makes a {kind}, neither a ParallelEnv nor an AECEnv (it has no {absent[0]})")
    if not getattr(environment, "possible_agents", None):
        raise Unsupported(f"{task.name} does not list its possible_agents")
    return environment


def _nearest(word: str, choices: list[str]) -> str:
    nearest = difflib.get_close_matches(word, choices)
    return f"; nearest: {', '.join(nearest)}" if nearest else ""
