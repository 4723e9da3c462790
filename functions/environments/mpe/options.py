"""The `agents` and options that a scenario takes. Errors are one line that names the wrong value and the valid ones.

Options have mpe2's names. Every scenario takes `max_cycles`, the length of an episode in steps. With
`continuous_actions` actions are continuous, between 0 and 1, see `marless.functions.environments.mpe.actions`. With
`exact_physics` every machine gives the same bytes, see `marless.functions.environments.mpe.exact_world`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from marless.functions.environments.base import EnvTask
from marless.functions.environments.mpe.engine import Engine, Scenario
from marless.functions.environments.mpe.exact_world import ExactWorld
from marless.functions.environments.mpe.world import World
from marless.functions.environments.task_names import EXACT_PHYSICS
from marless.functions.native.kernels import are_built

# Takes an option's name and value. Returns the value for the scenario, or raises `ValueError`.
Check = Callable[[str, Any], Any]
# Takes a task and its checked options. Returns the scenario's arguments for the number of agents, or raises
# `ValueError`.
Size = Callable[[EnvTask, Mapping[str, Any]], dict[str, int]]


def whole(least: int) -> Check:
    """Whole numbers from `least`."""

    def check(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name} is a whole number from {least}, not {value!r}")
        return value

    return check


def ratio(name: str, value: Any) -> float:
    """A number from 0 to 1."""
    if isinstance(value, bool | str) or not 0 <= value <= 1:
        raise ValueError(f"{name} is a number from 0 to 1, not {value!r}")
    return float(value)


def flag(name: str, value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} is true or false, not {value!r}")
    return value


def check_options(task: EnvTask, checks: Mapping[str, Check]) -> dict[str, Any]:
    """`task.options`, each passed by its check. Raises `ValueError` for options without a check."""
    if unknown := sorted(set(task.options) - set(checks)):
        raise ValueError(f"{task.name}: no option {unknown[0]!r} (there are: {', '.join(sorted(checks))})")
    return {name: checks[name](f"{task.name}: option {name}", value) for name, value in task.options.items()}


def any_number(default: int, least: int) -> Size:
    """The scenario takes `agents`, any number from `least`."""

    def size(task: EnvTask, options: Mapping[str, Any]) -> dict[str, int]:
        agents = default if task.agents is None else task.agents
        return {"agents": whole(least)(f"{task.name}: agents", agents)}

    return size


def exactly(number: int) -> Size:
    """The scenario always has `number` agents."""

    def size(task: EnvTask, options: Mapping[str, Any]) -> dict[str, int]:
        if task.agents not in (None, number):
            raise ValueError(f"{task.name}: agents is {number}, not {task.agents}")
        return {}

    return size


def two_sides(num_good: int, num_adversaries: int) -> Size:
    """The scenario takes `num_good` and `num_adversaries`, by default these. One of them can follow from `agents`.

    With `agents` alone, the number of good agents is the default.
    """

    def size(task: EnvTask, options: Mapping[str, Any]) -> dict[str, int]:
        """Both numbers. Raises `ValueError` for numbers that do not fit together."""
        good, adversaries = options.get("num_good"), options.get("num_adversaries")
        if task.agents is None:
            return {"num_good": good or num_good, "num_adversaries": adversaries or num_adversaries}
        if good is None:
            good = num_good if adversaries is None else task.agents - adversaries
        if adversaries is None:
            adversaries = task.agents - good
        if min(good, adversaries) < 1 or good + adversaries != task.agents:
            raise ValueError(
                f"{task.name}: agents is {task.agents}; num_good and num_adversaries, each from 1, are as many"
                f" together, not {good} and {adversaries}"
            )
        return {"num_good": good, "num_adversaries": adversaries}

    return size


_COMMON: dict[str, Check] = {"max_cycles": whole(1), "continuous_actions": flag, EXACT_PHYSICS: flag}
_MAX_CYCLES = 25


def maker(
    scenario: Callable[..., Scenario], size: Size, checks: Mapping[str, Check] | None = None
) -> Callable[[EnvTask, int], Engine]:
    """The function that makes `num_envs` environments of a scenario, which takes the arguments of `size` and the
    options of `checks` by name. It raises `ValueError`, one line."""
    own_checks = dict(checks or {})

    def make(task: EnvTask, num_envs: int) -> Engine:
        options = check_options(task, {**_COMMON, **own_checks})
        arguments = {name: value for name, value in options.items() if name in own_checks}
        bodies = scenario(**arguments | size(task, options))
        world = _exact_world() if options.get(EXACT_PHYSICS) else World
        max_cycles, continuous = options.get("max_cycles", _MAX_CYCLES), options.get("continuous_actions", False)
        return Engine(bodies, num_envs, max_cycles, continuous, world)

    return make


def _exact_world() -> type[World]:
    """Worlds with the bytes of `ExactWorld`, stepped by the faster kernels if these are built."""
    if not are_built():
        return ExactWorld
    from marless.functions.environments.mpe.native_world import NativeWorld

    return NativeWorld
