"""A resource that is a function: ``serve = "package.module:function"``, which takes a question and returns an answer,
both bytes. A parameter `cores` gets the number of the call's cores. A parameter `sandbox` runs untrusted programs by
the setting `sandbox`. Numerical libraries that its module has loaded have as many threads as the call has cores."""

import inspect
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from importlib import import_module
from typing import Any

from marless.functions.named_code import refuse_standard, require_function
from marless.functions.resources.port import ResourceCall
from marless.functions.resources.serving.kinds.kind import NoAnswer
from marless.functions.resources.settings import Resource

try:
    from threadpoolctl import ThreadpoolController
except ImportError:  # in the cloud, where functions have one thread by their environment variables
    ThreadpoolController = None

_CORES, _SANDBOX = "cores", "sandbox"
# The part of a call's time for a program in the sandbox. The rest is its judge's. So a program that hangs is a wrong
# answer, while its judge still answers.
_PROGRAM_PART = 0.8


class FunctionResource:
    """The function, with its module's state."""

    def __init__(self, function: Callable[..., Any], arguments: Mapping[str, object]) -> None:
        """`arguments` are passed to every call, by name."""
        self._function, self._arguments = function, arguments
        self._takes_cores = _CORES in inspect.signature(function).parameters
        self._libraries = ThreadpoolController() if ThreadpoolController else None

    def answer(self, call: ResourceCall, cores: int) -> object:
        """Return the function's result. Its errors pass through."""
        arguments = {**self._arguments, **({_CORES: cores} if self._takes_cores else {})}
        with self._libraries.limit(limits=cores) if self._libraries else nullcontext():
            return self._function(call.question, **arguments)

    def close(self) -> None:
        """Nothing was begun."""


def begin(name: str, resource: Resource) -> FunctionResource:
    """The function that the resource names. Raises `NoAnswer` if the function or its sandbox is missing."""
    function = named_function(resource.serve)
    if _SANDBOX in inspect.signature(function).parameters:
        from marless.functions.resources.serving.sandbox import Sandbox, require

        require(resource.sandbox, resource.sandbox_paths)
        limit_s = _PROGRAM_PART * resource.timeout_s
        sandbox = Sandbox(resource.sandbox, limit_s, resource.memory_mb, resource.sandbox_paths)
        return FunctionResource(function, {_SANDBOX: sandbox})
    if resource.sandbox != "none":
        raise NoAnswer(f"serve = {resource.serve!r} has no parameter `sandbox`, so nothing of it would run in one")
    return FunctionResource(function, {})


def named_function(path: str) -> Callable[..., Any]:
    """The function ``package.module:function``. Its module is imported. Raises `NoAnswer`, one line."""
    module, colon, name = path.partition(":")
    if not (module and colon and name):
        raise NoAnswer(f"serve = {path!r} names no function: write package.module:function")
    try:
        refuse_standard(module)
        function = getattr(import_module(module), name)
        parameters = inspect.signature(function).parameters if callable(function) else {}
        require_function(function, module, 1, [word for word in (_CORES, _SANDBOX) if word in parameters])
    except ValueError as error:  # what is refused
        raise NoAnswer(f"serve = {path!r}: {error}") from error
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise NoAnswer(f"serve = {path!r}: {reason}") from error
    answering: Callable[..., Any] = function
    return answering
