"""Find and call the factory of an env task's PettingZoo environment. Errors are one line."""

import difflib
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable
from contextlib import redirect_stderr
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from types import FunctionType, ModuleType
from typing import Any

from marless.functions.environments.base import EnvironmentFault, EnvTask, Unsupported
from marless.functions.environments.pettingzoo.guard import (
    describe_error,
    describe_error_with_location,
    foreign_location,
)
from marless.functions.environments.pettingzoo.turns import TurnEnvironment
from marless.functions.errors import MissingExtra, foreign_errors
from marless.functions.named_code import refuse_standard, require_maker
from marless.functions.resources.factories import resources_for

Factory = Callable[..., Any]

# Packages that built-in env tasks import, with the arguments of `pip install`. Other packages' tasks are unknown here.
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
_MODULE = re.compile(r"\w+(?:\.\w+)*")
# Python's message if `agent_selector` was a class, and its meaning.
_MODULE_CALLED = "'module' object is not callable"
_OUTDATED = (
    "; if that is agent_selector: the package was written for PettingZoo before 1.25, where it was a class; a newer"
    " version of the package may mend it"
)
_ONE_AGENT = (
    "makes a Gymnasium environment, whose interface is for one agent: not a team; name a ParallelEnv or an AECEnv of"
    " PettingZoo"
)
# So many factories of a module are listed.
_LISTED = 6


def factory_of(name: str) -> Factory:
    """The factory that a task name of the form ``pettingzoo:package.module:factory`` names.

    It is inspected but not called, so that other callables have no effect. Raises `ValueError`, with the nearest
    existing names, `MissingExtra` or `EnvironmentFault`.
    """
    if (match := _NAME.fullmatch(name)) is None:
        form = f"'{name}' names no environment: write it as 'pettingzoo:package.module:factory'"
        raise ValueError(f"{form}{_offer_without_factory(name)}")
    refuse_standard(match[1])
    module = module_of(name, match[1])
    try:
        factory = getattr(module, match[2], None)
    except foreign_errors() as error:  # a package may raise for names that it no longer has
        raise ValueError(f"{name}: module '{match[1]}' refuses '{match[2]}': {describe_error(error)}") from error
    if callable(factory):
        return _evident(name, factory)
    # A module of PettingZoo that has `env` but no `parallel_env`.
    if match[2] == "parallel_env" and _FAMILY.match(match[1]) and "env" in vars(module):
        raise ValueError(f"{name}: in the game of module '{match[1]}' agents take turns; name its 'env' instead")
    if factory is None:
        factory = _submodule(name, match[1], match[2])
    if isinstance(factory, ModuleType):
        offers = offer_of(factory) or offer_of(module)
        raise ValueError(f"{name}: '{match[1]}.{match[2]}' is a module and no factory{_listed(offers)}")
    public = [word for word, value in vars(module).items() if callable(value) and not word.startswith("_")]
    others = _listed(offer_of(module), match[2]) or _nearest(match[2], public)
    raise ValueError(f"{name}: module '{match[1]}' has no factory '{match[2]}'{others}")


def _evident(name: str, factory: Factory) -> Factory:
    """Return `factory` if it evidently makes an environment. Raises the errors of `factory_of`."""
    try:
        require_maker(factory, is_environment, _CLASSES, "an environment (reset, step, possible_agents)")
    except ModuleNotFoundError as error:
        raise _package_error(name, error) from error
    except ValueError as error:
        raise ValueError(f"{name} {_ONE_AGENT}" if _makes_gymnasium(factory) else str(error)) from error
    return factory


def offer_of(module: ModuleType) -> list[str]:
    """The env tasks of the factories of a module: its own, its imports from its package, and products of PettingZoo's
    `parallel_wrapper_fn`. PettingZoo's wrappers and base classes are left out."""
    package = module.__name__.partition(".")[0]
    return [
        f"pettingzoo:{module.__name__}:{word}"
        # A copy, because a look at a name may trigger lazy imports of the module.
        for word, value in [*vars(module).items()]
        if not word.startswith("_") and _is_factory_of(package, value)
    ]


def _is_factory_of(package: str, value: Any) -> bool:
    try:
        was_made = "<locals>" in str(getattr(value, "__qualname__", ""))
        if not callable(value) or not (was_made or str(getattr(value, "__module__", "")).partition(".")[0] == package):
            return False
        require_maker(value, is_environment, _CLASSES, "an environment")
    except Exception:  # no environment: foreign code may raise anything when it is looked at
        return False
    return True


def _submodule(task: str, package: str, name: str) -> ModuleType | None:
    """The module of a package, which is not imported yet, or None. Raises the errors of `module_of`."""
    is_module = hasattr(sys.modules[package], "__path__") and find_spec(f"{package}.{name}")
    return module_of(task, f"{package}.{name}") if is_module else None


def _offer_without_factory(name: str) -> str:
    path = name.removeprefix("pettingzoo:")
    if not _MODULE.fullmatch(path):
        return ""
    refuse_standard(path)
    module = module_of(name, path)
    modules = [f"{path}.{part.name}" for part in pkgutil.iter_modules(getattr(module, "__path__", []))]
    public = [part for part in modules if not part.rpartition(".")[2].startswith("_")]
    return _listed(offer_of(module)) or _list(f"'{path}' has the modules", public)


def _listed(offers: list[str], word: str = "") -> str:
    by_word = {offer.rpartition(":")[2]: offer for offer in offers}
    if nearest := difflib.get_close_matches(word, by_word):
        return f"; nearest: {', '.join(by_word[match] for match in nearest)}"
    return _list("it offers", offers)


def _list(beginning: str, words: list[str]) -> str:
    more = f" and {len(words) - _LISTED} more" if len(words) > _LISTED else ""
    return f"; {beginning} {', '.join(words[:_LISTED])}{more}" if words else ""


def is_environment(kind: type) -> bool:
    """Return True for a class with the interface of a `ParallelEnv` or an `AECEnv`, or with a wrapped environment."""
    delegates = hasattr(kind, "__getattr__")
    methods = [callable(inspect.getattr_static(kind, name, None)) for name in ("reset", "step")]
    has_agents = hasattr(kind, _AGENTS) or any(map(_names_agents, kind.__mro__))
    return (any(methods) and delegates) or (all(methods) and has_agents)


def _makes_gymnasium(factory: Callable[..., Any]) -> bool:
    try:
        require_maker(factory, _is_gymnasium, ("Env",), "an environment of Gymnasium")
    except (ValueError, ModuleNotFoundError):
        return False
    return True


def _is_gymnasium(kind: type) -> bool:
    return any(base.__name__ == "Env" and base.__module__.startswith("gym") for base in kind.__mro__)


def _names_agents(kind: type) -> bool:
    """Return True if a class declares `possible_agents` or sets it in one of its methods."""
    codes = (value.__code__ for value in vars(kind).values() if isinstance(value, FunctionType))
    return _AGENTS in inspect.get_annotations(kind) or any(_AGENTS in code.co_names for code in codes)


def module_of(name: str, path: str) -> Any:
    """The module `path`, for the task `name`. Raises the errors of `factory_of`."""
    try:
        return import_module(path)
    except foreign_errors() as error:
        if isinstance(error, ModuleNotFoundError):
            raise _package_error(name, error, path) from error
        raise EnvironmentFault(f"{name}: import of '{path}': {describe_error_with_location(error)}") from error


def quiet_module_of(name: str, path: str) -> Any:
    """Run `module_of` and drop the output that some packages print when they are imported."""
    with redirect_stderr(StringIO()):
        return module_of(name, path)


def _package_error(name: str, error: ModuleNotFoundError, path: str = "") -> ValueError | MissingExtra:
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


def build(task: EnvTask, factory: Factory) -> Any:
    """One environment with the task's options, an `AECEnv` as a `TurnEnvironment`. Raises `Unsupported` for other
    interfaces. Raises `ValueError` if the factory refuses the options."""
    options = {key: value for key, value in task.options.items() if key not in ADAPTER_OPTIONS}
    resources = resources_for(factory, options)
    _require_arguments(task, factory, options | resources)
    try:
        environment = factory(**options, **resources)
    except ModuleNotFoundError as error:
        raise _package_error(task.name, error) from error
    except ImportError as error:
        # Some environments check for a package and raise another error than Python's.
        family = _FAMILY.match(getattr(factory, "__module__", ""))
        hint = f": pip install 'pettingzoo[{family[1]}]'" if family else ""
        raise MissingExtra(f"{task.name} lacks a package ({describe_error(error)}){hint}") from error
    except foreign_errors() as error:
        if options:
            raise ValueError(
                f"{task.name}: the factory refuses task.options {options}: {describe_error(error)}"
            ) from error
        hint = _OUTDATED if str(error) == _MODULE_CALLED else ""
        raise EnvironmentFault(f"{task.name}, factory: {describe_error_with_location(error)}{hint}") from error
    if hasattr(environment, "agent_iter"):
        return _turn_environment(task, environment)
    return _require_interface(task, environment, "reset", "step", "close")


def _require_arguments(task: EnvTask, factory: Factory, options: dict[str, Any]) -> None:
    """Raises `ValueError` for arguments that have no default or option, before the factory is called."""
    try:
        # A decorator may give arguments to the function inside it.
        parameters = inspect.signature(factory, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):  # it is not written in Python
        return
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    needed = [param.name for param in parameters if param.kind in by_name and param.default is inspect.Parameter.empty]
    if missing := [name for name in needed if name not in options]:
        raise ValueError(
            f"{task.name}: the factory needs {', '.join(missing)}: set task.options.{missing[0]}, or if that is no"
            " number or text, name a function of yours that calls it"
        )


def _turn_environment(task: EnvTask, game: Any) -> TurnEnvironment:
    """An `AECEnv`, a turn per step. Refuses a parallelizable one, because its `parallel_env` takes fewer steps."""
    if (getattr(game, "metadata", None) or {}).get("is_parallelizable", False):
        raise Unsupported(f"{task.name} makes an AECEnv whose agents can act at once; name its parallel_env instead")
    return TurnEnvironment(task.name, _require_interface(task, game, "reset", "step", "close", "observe"))


def _require_interface(task: EnvTask, environment: Any, *methods: str) -> Any:
    if absent := [method for method in methods if not hasattr(environment, method)]:
        kind = type(environment).__name__
        raise Unsupported(f"{task.name} makes a {kind}, neither a ParallelEnv nor an AECEnv (it has no {absent[0]})")
    if not getattr(environment, "possible_agents", None):
        if _is_gymnasium(type(environment)):
            raise Unsupported(f"{task.name} {_ONE_AGENT}")
        raise Unsupported(f"{task.name} does not list its possible_agents")
    return environment


def _nearest(word: str, choices: list[str]) -> str:
    nearest = difflib.get_close_matches(word, choices)
    return f"; nearest: {', '.join(nearest)}" if nearest else ""
