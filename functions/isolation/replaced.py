"""Functions of other modules that code has replaced in this process: ``numpy.exp = mine``."""

import builtins
import math
import sys
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

_LIBRARIES: tuple[ModuleType, ...] = (builtins, math, np, np.linalg, np.random)
# Nothing is computed with these, and programs replace them for reasons of their own.
_NOT_COMPUTED_WITH = frozenset(
    ("print", "input", "open", "breakpoint", "__import__", "__build_class__", "load", "save", "savez", "loadtxt")
)
_DESCRIPTORS = (classmethod, staticmethod, property)
_OURS = "functions."


class _Owner(NamedTuple):
    """A module, or a class of this package, and the functions that it began with."""

    name: str
    owner: Any
    functions: dict[str, Any]


class Originals:
    """The functions of the interpreter, of numpy, and of this package, as they were when they were first looked at."""

    def __init__(self) -> None:
        self._libraries = [_owner(module.__name__, module) for module in _LIBRARIES]
        self._ours: list[_Owner] = []
        self._known: set[str] = set()
        self._count = 0

    def learn(self) -> None:
        """Takes down the modules of this package that were imported since the last call."""
        if self._count == len(sys.modules):
            return
        self._count = len(sys.modules)
        fresh = [name for name in sys.modules if name.startswith(_OURS) and name not in self._known]
        self._known.update(fresh)
        for name in fresh:
            if isinstance(module := sys.modules[name], ModuleType):
                self._ours.append(_owner(name, module))
                self._ours += [
                    _owner(f"{name}.{value.__name__}", value)
                    for value in list(vars(module).values())
                    if isinstance(value, type) and value.__module__ == name
                ]

    def accept_ours(self) -> None:
        """Whoever replaces functions of this package between pieces of work means to."""
        for _, owner, functions in self._ours:
            now = vars(owner)
            for name, original in functions.items():
                if (value := now.get(name)) is not original:
                    functions[name] = value

    def put_back(self) -> list[str]:
        """Undoes what was replaced, and returns the names, as ``numpy.exp``."""
        names = []
        for where, owner, functions in (*self._libraries, *self._ours):
            now = vars(owner)
            for name, original in functions.items():
                if now.get(name) is not original:
                    names.append(f"{where}.{name}")
                    setattr(owner, name, original)
        return names


def _owner(name: str, owner: Any) -> _Owner:
    functions = {
        attribute: value
        for attribute, value in list(vars(owner).items())
        if (callable(value) or isinstance(value, _DESCRIPTORS)) and attribute not in _NOT_COMPUTED_WITH
    }
    return _Owner(name, owner, functions)


ORIGINALS = Originals()
