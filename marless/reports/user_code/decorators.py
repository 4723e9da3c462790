"""Decorators that give an object a name in this process: with ``@marless.environment`` above the class Meadow,
``marless.train("Meadow")`` is short for ``marless.train(Meadow)``.

A decorator returns the object unchanged. Runs know nothing of these names.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from marless.coordinator.errors import UserError

T = TypeVar("T", bound=Callable[..., Any])

# The objects by kind and name.
DECORATED: dict[tuple[str, str], Callable[..., Any]] = {}


def environment(value: T) -> T:
    """Let `marless.train` find a PettingZoo class, or a function that makes environments, by its name."""
    return _register("environment", value)


def algorithm(value: T) -> T:
    """Let `marless.train` find a function that makes an `AlgorithmSpec` by its name."""
    return _register("algorithm", value)


def rule(value: T) -> T:
    """Let a configuration in Python name a function as a rule. Its docstring explains the rule."""
    return _register("rule", value)


def judge(value: T) -> T:
    """Let `task.judge` name a function that grades finished episodes."""
    return _register("judge", value)


def _register(kind: str, value: T) -> T:
    if not callable(value):
        raise UserError(f"write @marless.{kind} alone, above a class or a function, whose name it takes")
    DECORATED[kind, value.__name__] = value
    return value
