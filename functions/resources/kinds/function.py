"""A resource that is a function: ``serve = "package.module:function"``, which takes a question and returns an answer,
both bytes. A parameter `cores` is given how many cores the action has."""

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

from functions.named_code import refuse_standard, require_function
from functions.resources.kinds.kind import NoAnswer
from functions.resources.port import Action
from functions.resources.settings import Resource

_CORES = "cores"


class Function:
    """The function, which keeps what its module keeps."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._takes_cores = _CORES in inspect.signature(function).parameters

    def answer(self, action: Action, cores: int) -> object:
        """What it returns, and raises."""
        return self._function(action.question, **({_CORES: cores} if self._takes_cores else {}))

    def close(self) -> None:
        """Nothing was begun."""


def begin(name: str, resource: Resource) -> Function:
    """The function that the resource names; raises `NoAnswer` where there is none."""
    return Function(named_function(resource.serve))


def named_function(path: str) -> Callable[..., Any]:
    """The function ``package.module:function``; its module is imported. Raises `NoAnswer`, one line."""
    module, colon, name = path.partition(":")
    if not (module and colon and name):
        raise NoAnswer(f"serve = {path!r} names no function: write package.module:function")
    try:
        refuse_standard(module)
        function = getattr(import_module(module), name)
        takes_cores = callable(function) and _CORES in inspect.signature(function).parameters
        require_function(function, module, 1, (_CORES,) if takes_cores else ())
    except ValueError as error:  # what is refused
        raise NoAnswer(f"serve = {path!r}: {error}") from error
    except Exception as error:
        raise NoAnswer(f"serve = {path!r}: {type(error).__name__}: {' '.join(str(error).split())}") from error
    answering: Callable[..., Any] = function
    return answering
