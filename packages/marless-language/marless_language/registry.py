"""Makes language tasks by their names.

A factory of another package makes a language task, or games of turns (see `marless_language.games`). A task's factory
is called with the vocabulary, or None for the task's own, and with `task.options` as keyword arguments. A factory with
a parameter `resources` gets the resources that it may ask.
"""

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

from marless.functions.environments.base import EnvironmentFault, EnvTask, Unsupported
from marless.functions.environments.language_task_names import BUILT_IN, EXAMPLE, FAMILY, OWN, unknown_task
from marless.functions.environments.pettingzoo.factory import is_environment, module_of
from marless.functions.environments.pettingzoo.guard import describe_error_with_location
from marless.functions.errors import BadRequest, MissingExtra, foreign_errors
from marless.functions.isolation.process_guard import restore_arithmetic_after
from marless.functions.named_code import refuse_standard, require_maker
from marless.functions.resources.factories import resources_for
from marless_language import tasks
from marless_language.episodes import fault_of
from marless_language.errors import Unwritable
from marless_language.games import text_games
from marless_language.games.text_games import is_text_game
from marless_language.protocol import LanguageTask, Vocabulary

_NAME = re.compile(r"text:(\w+(?:\.\w+)*):(\w+)")


def make(task: EnvTask, tokenizer: Vocabulary | None = None) -> LanguageTask:
    """Return the task with the vocabulary of a base, or with its own vocabulary.

    Raises `BadRequest` for an unknown name, wrong options, a vocabulary that cannot write its prompts, or a missing
    vocabulary. Raises `MissingExtra` if a package is not installed, and `EnvironmentFault` if the task breaks.
    """
    try:
        with restore_arithmetic_after(f"{task.name}, make"):
            made_task = _task_of(task, tokenizer)
    except (ValueError, Unsupported) as error:
        text = f"{error}; name another base.model" if tokenizer and isinstance(error, Unwritable) else str(error)
        raise BadRequest(text if task.name in text else f"{task.name}: {text}") from error
    if fault := fault_of(made_task):
        raise EnvironmentFault(f"{task.name}: {fault}")
    return made_task


def _task_of(task: EnvTask, tokenizer: Vocabulary | None) -> LanguageTask:
    if task.name in BUILT_IN:
        factory = import_module(f"{tasks.__name__}.{task.name.removeprefix(FAMILY)}").make
        built_in: LanguageTask = factory(task, tokenizer, **resources_for(factory))
        return built_in
    factory = _factory(task.name)
    try:
        return _of_factory(task, factory, tokenizer)
    except (ValueError, MissingExtra, BadRequest, EnvironmentFault, Unsupported):
        raise
    except foreign_errors() as error:
        raise EnvironmentFault(f"{task.name}, make: {describe_error_with_location(error)}") from error


def _of_factory(task: EnvTask, factory: Callable[..., Any], tokenizer: Vocabulary | None) -> LanguageTask:
    """Return the product of another package's factory: a language task, or games that are played as one."""
    if _makes(factory, _is_task, "LanguageTask"):
        of_package: LanguageTask = factory(tokenizer, **task.options, **resources_for(factory, task.options))
        return of_package
    if _makes(factory, is_text_game, "Env"):
        return text_games.make(task, factory, tokenizer)
    if _makes(factory, is_environment, "AECEnv"):
        from marless_language.games import pettingzoo_games

        return pettingzoo_games.make(task, factory, tokenizer)
    raise ValueError(
        "nothing shows that it makes a language task (roles, reset, reply), an AECEnv or a game of text (reset,"
        " get_observation, step, close), so it was not called: name such a class, or a function whose code names one or"
        " that is annotated '-> LanguageTask'"
    )


def _makes(factory: Callable[..., Any], predicate: Callable[[type], bool], name: str) -> bool:
    try:
        require_maker(factory, predicate, (name,), name)
    except ValueError:
        return False
    return True


def _factory(name: str) -> Callable[..., Any]:
    """The factory of another package, which is inspected before it is called. Raises as `make`."""
    if not name.startswith(OWN):
        raise ValueError(unknown_task(name))
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"'{name}' names no language task: write it as '{EXAMPLE}'")
    refuse_standard(match[1])
    factory: Callable[..., Any] | None = getattr(module_of(name, match[1]), match[2], None)
    if not callable(factory):
        raise ValueError(f"module '{match[1]}' has no function '{match[2]}'")
    return factory


def _is_task(kind: type) -> bool:
    return all(hasattr(kind, name) for name in ("reset", "reply"))
