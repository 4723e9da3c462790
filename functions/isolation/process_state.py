"""The state of this process that files, limits and libraries depend on, and the ways to put it back."""

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from operator import eq
from pathlib import Path
from typing import Any, NamedTuple

try:
    from threadpoolctl import ThreadpoolController
except ImportError:  # in the cloud, where functions have one thread by their environment variables
    ThreadpoolController = None


class ProcessPart(NamedTuple):
    """A part of the state: its name in a sentence, and functions that read it and put a value back.

    `is_reported`: users should know that code changes it (libraries set variables, handlers and filters for good
    reasons). `same` compares two values."""

    name: str
    read: Callable[[], Any]
    put_back: Callable[[Any], object]
    is_reported: bool = False
    same: Callable[[Any, Any], bool] = eq


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _folder() -> str:
    try:
        return str(Path.cwd())
    except OSError:  # it was deleted
        return ""


def _enter(folder: str) -> None:
    if folder:
        with suppress(OSError):
            os.chdir(folder)


def _set_variables(variables: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(variables)


def _handlers() -> dict[int, Any]:
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.getsignal(number) for number in _SIGNALS}


def _handle(handlers: Mapping[int, Any]) -> None:
    for number, handler in handlers.items():
        # None: installed by other than Python, and unknown to it.
        if handler is not None and signal.getsignal(number) is not handler:
            signal.signal(number, handler)


# The signals that programs handle.
_NAMES = "HUP INT QUIT USR1 USR2 PIPE ALRM TERM CHLD IO VTALRM PROF"
_SIGNALS = tuple(getattr(signal, f"SIG{name}") for name in _NAMES.split())


def _set_streams(streams: tuple[Any, Any]) -> None:
    sys.stdout, sys.stderr = streams


def _set_filters(filters: list[Any]) -> None:
    warnings.resetwarnings()
    warnings.filters.extend(filters)  # type: ignore[attr-defined]


PARTS = (
    ProcessPart("the file mode mask", _umask, os.umask, is_reported=True),
    ProcessPart("the current folder", _folder, _enter, is_reported=True),
    ProcessPart("environment variables", lambda: dict(os.environ), _set_variables),
    ProcessPart("signal handlers", _handlers, _handle),
    ProcessPart("the recursion limit", sys.getrecursionlimit, sys.setrecursionlimit),
    ProcessPart("the standard streams", lambda: (sys.stdout, sys.stderr), _set_streams),
    ProcessPart("filters of warnings", lambda: list(warnings.filters), _set_filters),
)
"""What code finds again when it is called again, because it may have set it once, when it was imported."""


class _Threads:
    def __init__(self) -> None:
        self._imported, self._libraries = 0, dict[str, Any]()

    def read(self) -> dict[str, int]:
        if ThreadpoolController is None:
            return {}
        if self._imported != len(sys.modules):  # a library may have been loaded, and looking for it takes milliseconds
            self._imported = len(sys.modules)
            self._libraries = {library.filepath: library for library in ThreadpoolController().lib_controllers}
        return {path: library.get_num_threads() for path, library in self._libraries.items()}

    @staticmethod
    def same(now: dict[str, int], before: dict[str, int]) -> bool:
        """Libraries may have been loaded since."""
        return now.items() >= before.items()

    def put_back(self, counts: dict[str, int]) -> None:
        for path, count in counts.items():
            self._libraries[path].set_num_threads(count)


# As torch is imported.
_TORCH = ("torch.float32", True, "highest")


def _torch_defaults() -> tuple[str, bool, str]:
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "get_default_dtype"):  # not imported, or only in part
        return _TORCH
    return str(torch.get_default_dtype()), torch.is_grad_enabled(), torch.get_float32_matmul_precision()


def _set_torch_defaults(before: tuple[str, bool, str]) -> None:
    torch, (dtype, gradients, precision) = sys.modules["torch"], before
    torch.set_default_dtype(getattr(torch, dtype.rpartition(".")[2]))
    torch.set_grad_enabled(gradients)
    torch.set_float32_matmul_precision(precision)


def _silence(was_armed: bool) -> None:
    if not was_armed:
        signal.setitimer(signal.ITIMER_REAL, 0)


_threads = _Threads()

COMPUTED_WITH = (
    ProcessPart("the number of numerical threads", _threads.read, _threads.put_back, True, _threads.same),
    ProcessPart("torch's defaults", _torch_defaults, _set_torch_defaults, is_reported=True),
    ProcessPart("the alarm clock", lambda: signal.getitimer(signal.ITIMER_REAL)[0] > 0, _silence),
)
"""What is put back for good."""
