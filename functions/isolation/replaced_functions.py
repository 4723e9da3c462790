"""Functions of other modules that code has replaced in this process: ``numpy.exp = mine``."""

import builtins
import math
import sys
from collections.abc import Mapping
from contextlib import suppress
from operator import getitem, is_
from types import ModuleType
from typing import Any

import numpy as np

_LIBRARIES: tuple[ModuleType, ...] = (builtins, math, np, np.linalg, np.random)
# They compute no results, and programs replace them for other reasons.
_NOT_COMPUTED_WITH = frozenset(
    ("print", "input", "open", "breakpoint", "__import__", "__build_class__", "load", "save", "savez", "loadtxt")
)
_DESCRIPTORS = (classmethod, staticmethod, property)
_OURS = "marless.functions."


class _Functions:
    """Functions by their owners, which are modules and classes, and by name.

    Every task asks several times whether any has changed, so an answer of "none" loops in C alone.
    """

    def __init__(self) -> None:
        self._owners: list[Any] = []
        self._spaces: list[Mapping[str, Any]] = []
        self._names: list[str] = []
        self._originals: list[Any] = []

    def add(self, owner: ModuleType | type) -> None:
        """Remember the owner's functions as the right ones."""
        space = vars(owner)
        for name, value in list(space.items()):
            if (callable(value) or isinstance(value, _DESCRIPTORS)) and name not in _NOT_COMPUTED_WITH:
                self._owners.append(owner)
                self._spaces.append(space)
                self._names.append(name)
                self._originals.append(value)

    def accept(self) -> None:
        """Accept the present changes."""
        for index in self._changes():
            self._originals[index] = self._spaces[index].get(self._names[index])

    def put_back(self) -> list[str]:
        """Undo the changes, and return the names, such as ``numpy.exp``."""
        changes = self._changes()
        for index in changes:
            setattr(self._owners[index], self._names[index], self._originals[index])
        return [f"{_name(self._owners[index])}.{self._names[index]}" for index in changes]

    def _changes(self) -> list[int]:
        with suppress(KeyError):  # a name that was deleted
            if all(map(is_, map(getitem, self._spaces, self._names), self._originals)):
                return []
        now = (space.get(name) for space, name in zip(self._spaces, self._names, strict=True))
        return [index for index, value in enumerate(now) if value is not self._originals[index]]


def _name(owner: ModuleType | type) -> str:
    return f"{owner.__module__}.{owner.__name__}" if isinstance(owner, type) else owner.__name__


class Originals:
    """The functions of the interpreter, of numpy, and of this package, as they were when they were first looked at."""

    def __init__(self) -> None:
        self._libraries, self._ours = _Functions(), _Functions()
        for module in _LIBRARIES:
            self._libraries.add(module)
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
                self._ours.add(module)
                for value in list(vars(module).values()):
                    if isinstance(value, type) and value.__module__ == name:
                        self._ours.add(value)

    def accept_ours(self) -> None:
        """Accept replaced functions of this package: between pieces of work they are intended."""
        self._ours.accept()

    def put_back(self) -> list[str]:
        """Undo the replacements, and return the names, such as ``numpy.exp``."""
        return [*self._libraries.put_back(), *self._ours.put_back()]


ORIGINALS = Originals()
