"""A resource that is a function: ``serve = "package.module:function"``, which takes a question and returns an answer,
both bytes. A parameter `cores` is given how many cores the call has, and a parameter `sandbox` what runs programs
that nobody trusts, as the setting `sandbox` says. Numerical libraries that its module has loaded have as many threads
as the call has cores."""

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
# Of the time that a call has, the part that a program in the sandbox may take; the rest is its judge's. A program
# that hangs is then one that did not end, and not a judge that did not answer.
_PROGRAM_PART = 0.8


class FunctionResource:
    """The function, which keeps what its module keeps."""

    def __init__(self, function: Callable[..., Any], arguments: Mapping[str, object]) -> None:
        """`arguments` are those of every call, by name."""
        self._function, self._arguments = function, arguments
        self._takes_cores = _CORES in inspect.signature(function).parameters
        self._libraries = ThreadpoolController() if ThreadpoolController else None

    def answer(self, call: ResourceCall, cores: int) -> object:
        """What it returns, and raises."""
        arguments = {**self._arguments, **({_CORES: cores} if self._takes_cores else {})}
        with self._libraries.limit(limits=cores) if self._libraries else nullcontext():
            return self._function(call.question, **arguments)

    def close(self) -> None:
        """Nothing was begun."""


def begin(name: str, resource: Resource) -> FunctionResource:
    """The function that the resource names; raises `NoAnswer` where there is none, or no sandbox for it."""
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
    """The function ``package.module:function``; its module is imported. Raises `NoAnswer`, one line."""
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
