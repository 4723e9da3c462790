"""Calls of PettingZoo environments: their errors become faults that name the place."""

import math
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from marless.functions.environments.base import EnvironmentFault, Unsupported
from marless.functions.environments.spaces.observations import SpaceError, finite_numbers
from marless.functions.errors import foreign_errors
from marless.functions.isolation.process_guard import ProcessChanged, remark, restore_arithmetic
from marless.functions.text.redaction import redact

_MAX_CHARACTERS = 400
# Modules with frames that are not the location of an environment's error.
_NOT_FOREIGN = {"marless", "numpy", *sys.stdlib_module_names}
_SCALARS = (bool, int, float, np.bool_, np.integer, np.floating)


class Guard:
    """Calls one environment and converts its errors to faults that name env task, environment, step and method."""

    def __init__(self, copy_label: str, environment: Any) -> None:
        self._where, self._name = copy_label, copy_label.partition(", copy ")[0]
        self.environment = environment
        self.steps = 0

    def call(self, method: str, *args: object, **keywords: object) -> Any:
        """Return the result of the environment's method. Raises `EnvironmentFault` for any error of it."""
        return self._run(method, lambda: getattr(self.environment, method)(*args, **keywords))

    def space(self, name: str, key: object) -> Any:
        """The agent's `observation_space` or `action_space`, see `space_of`. Raises `EnvironmentFault`."""
        return self._run(name, lambda: space_of(self.environment, name, key))

    def _run(self, method: str, call: Callable[[], Any]) -> Any:
        try:
            answer = call()
        except foreign_errors() as error:
            restore_arithmetic()
            raise self.fault_of(method, error) from error
        self.restore_process(method)
        return answer

    def close(self) -> None:
        """Closes the environment. Its error is a remark: nothing that was computed depends on it."""
        try:
            self.call("close")
        except EnvironmentFault as fault:
            if fault.__cause__ is None or isinstance(fault.__cause__, ProcessChanged):
                raise
            error_text = describe_error_with_location(fault.__cause__)
            remark(f"{self._name}: close() of the environment failed, which changes no result: {error_text}")

    def restore_process(self, method: str) -> None:
        """Restores the process after a call of `method`, see
        `marless.functions.isolation.process_guard.restore_arithmetic`."""
        try:
            restore_arithmetic(f"{self._name}, {method}")
        except ProcessChanged as error:
            raise self.fault(method, str(error)) from error

    def fault_of(self, method: str, error: BaseException) -> EnvironmentFault:
        """The fault of a method that raised `error`."""
        return self.fault(method, describe_error_with_location(error))

    def fault(self, method: str, message: str) -> EnvironmentFault:
        """An error of the environment, for the caller to raise."""
        return EnvironmentFault(f"{self._where}, step {self.steps}, {method}: {message}")

    def refusal(self, method: str, message: str) -> Unsupported:
        """Return the error for an unsupported feature, for the caller to raise."""
        return Unsupported(f"{self._where}, step {self.steps}, {method}: {message}")

    def mappings(self, method: str, answer: object, length: int) -> tuple[dict[Any, Any], ...]:
        """`answer`, checked to be `length` dictionaries."""
        if not (isinstance(answer, tuple) and len(answer) == length and all(isinstance(part, dict) for part in answer)):
            raise self.fault(method, f"returned {type(answer).__name__}, not a tuple of {length} dictionaries")
        return answer

    def entry(self, method: str, mapping: dict[Any, Any], key: object, noun: str) -> Any:
        if key not in mapping:
            raise self.fault(method, f"returned no {noun} for agent '{key}'")
        return mapping[key]

    def number(self, method: str, value: object, label: str) -> float:
        """`value`, checked to be one finite number."""
        if isinstance(value, _SCALARS):
            number = float(value)
        else:
            number = float(self.numbers(method, value, (), label, np.float64)[0])
        if not math.isfinite(number):
            raise self.fault(method, f"{label} is not finite")
        return number

    def numbers(
        self, method: str, value: object, shape: tuple[int, ...], label: str, dtype: DTypeLike = np.float32
    ) -> NDArray[Any]:
        """`value` flattened, checked to be finite numbers of `shape`. A single number may have any shape."""
        with self.space_errors(method):
            return finite_numbers(value, shape, label, dtype).reshape(-1)

    @contextmanager
    def space_errors(self, method: str) -> Iterator[None]:
        """Makes a `SpaceError` a fault of `method`."""
        try:
            yield
        except SpaceError as error:
            raise self.fault(method, one_line(error)) from error


def space_of(environment: Any, name: str, key: object) -> Any:
    """The `observation_space` or `action_space` of agent `key`, from the method of this `name`.

    RLlib's environments have attributes instead: one space for all agents, or a space per agent.
    """
    if (space := getattr(environment, name, None)) is None:
        space = getattr(environment, f"{name}s", None)
    if space is None or callable(space):
        return getattr(environment, name)(key)
    by_agent = getattr(space, "spaces", space)
    return by_agent[key] if isinstance(by_agent, Mapping) and key in by_agent else space


def describe_error(error: BaseException) -> str:
    """The error in one line."""
    name = "SystemExit, which ends a program" if isinstance(error, SystemExit) else type(error).__name__
    text = " ".join(redact(str(error)).split())
    return f"{name}: {text}" if text else name


def describe_error_with_location(error: BaseException) -> str:
    """The error in one line, with its location in foreign code."""
    location = foreign_location(error)
    # The text is cut first, so that cutting the line later keeps the location.
    return f"{one_line(describe_error(error), _MAX_CHARACTERS // 2)}{location}" if location else describe_error(error)


def foreign_location(error: BaseException) -> str:
    """The innermost location in foreign code, `` (/path/to/duel.py:23)``, or '' if there is none."""
    foreign_frames = [
        f" ({frame.f_code.co_filename}:{line})"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in _NOT_FOREIGN
    ]
    return "".join(foreign_frames[-1:])


def one_line(value: object, longest: int = _MAX_CHARACTERS) -> str:
    """`value` as text without line breaks, cut to `longest` characters."""
    # Redacted before it is cut: a part of a secret would not be recognised.
    text = " ".join(redact(str(value)).split())
    return text if len(text) <= longest else f"{text[:longest]}..."
