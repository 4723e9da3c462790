"""Calls of PettingZoo environments: their errors become faults that name the place."""

import math
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from functions.environments.base import EnvironmentFault, Unsupported
from functions.environments.spaces.observations import SpaceError, finite_numbers
from functions.isolation.keeper import ProcessChanged, settle
from functions.text.redaction import redact

_LONGEST = 400
# Modules that are not the location of an environment's error.
_NOT_THEIRS = {"functions", "numpy", *sys.stdlib_module_names}
_PLAIN = (bool, int, float, np.bool_, np.integer, np.floating)


class Guard:
    """Calls one environment and converts its errors to faults that name env task, environment, step and method."""

    def __init__(self, where: str, environment: Any) -> None:
        self._where, self._name = where, where.partition(", copy ")[0]
        self.environment = environment
        self.steps = 0

    def call(self, method: str, *args: object, **keywords: object) -> Any:
        try:
            answer = getattr(self.environment, method)(*args, **keywords)
        except Exception as error:
            settle()
            raise self.fault_of(method, error) from error
        self.settle(method)
        return answer

    def settle(self, method: str) -> None:
        """After a call that returned: undoes what it did to the arithmetic, see `functions.isolation.keeper.settle`."""
        try:
            settle(f"{self._name}, {method}")
        except ProcessChanged as error:
            raise self.fault(method, str(error)) from error

    def fault_of(self, method: str, error: Exception) -> EnvironmentFault:
        """The fault of a method that raised `error`."""
        return self.fault(method, describe_error_with_location(error))

    def fault(self, method: str, what: str) -> EnvironmentFault:
        return EnvironmentFault(f"{self._where}, step {self.steps}, {method}: {what}")

    def unsupported(self, method: str, what: str) -> Unsupported:
        return Unsupported(f"{self._where}, step {self.steps}, {method}: {what}")

    def mappings(self, method: str, answer: object, length: int) -> tuple[dict[Any, Any], ...]:
        """`answer`, checked to be `length` dictionaries."""
        if not (isinstance(answer, tuple) and len(answer) == length and all(isinstance(part, dict) for part in answer)):
            raise self.fault(method, f"returned {type(answer).__name__}, not a tuple of {length} dictionaries")
        return answer

    def entry(self, method: str, mapping: dict[Any, Any], key: object, what: str) -> Any:
        if key not in mapping:
            raise self.fault(method, f"returned no {what} for agent '{key}'")
        return mapping[key]

    def number(self, method: str, value: object, what: str) -> float:
        """`value`, checked to be one finite number."""
        if isinstance(value, _PLAIN):
            number = float(value)
        else:
            number = float(self.numbers(method, value, (), what, np.float64)[0])
        if not math.isfinite(number):
            raise self.fault(method, f"{what} is not finite")
        return number

    def numbers(
        self, method: str, value: object, shape: tuple[int, ...], what: str, dtype: DTypeLike = np.float32
    ) -> NDArray[Any]:
        """`value` flattened, checked to be finite numbers of `shape`; a single number may have any shape."""
        with self.spaces(method):
            return finite_numbers(value, shape, what, dtype).reshape(-1)

    @contextmanager
    def spaces(self, method: str) -> Iterator[None]:
        """What is outside its space is a fault of `method`."""
        try:
            yield
        except SpaceError as error:
            raise self.fault(method, one_line(error)) from error


def describe_error(error: Exception) -> str:
    """The error in one line."""
    return f"{type(error).__name__}: {' '.join(redact(str(error)).split())}"


def describe_error_with_location(error: Exception) -> str:
    """The error in one line, with its location in foreign code."""
    where = foreign_location(error)
    # The text is shortened, so that later shortening of the line does not cut off the location.
    return f"{one_line(describe_error(error), _LONGEST // 2)}{where}" if where else describe_error(error)


def foreign_location(error: Exception) -> str:
    """The innermost location in foreign code, `` (/path/to/duel.py:23)``, or '' if there is none."""
    theirs = [
        f" ({frame.f_code.co_filename}:{line})"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in _NOT_THEIRS
    ]
    return "".join(theirs[-1:])


def one_line(thing: object, longest: int = _LONGEST) -> str:
    """`thing` as text without line breaks, cut to `longest` characters."""
    # Before it is cut: a part of a secret could not be found any more.
    text = " ".join(redact(str(thing)).split())
    return text if len(text) <= longest else f"{text[:longest]}..."
