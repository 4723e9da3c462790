"""The longest episode of a PettingZoo environment: from where environments say it, or from the user."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from marless.functions.environments.base import EnvTask

# The packages' names of the longest episode, surest first.
NAMES = (
    "max_cycles",
    "max_steps",
    "max_episode_steps",
    "max_num_steps",
    "max_episode_length",
    "max_timesteps",
    "max_timestep",
    "max_turns",
    "max_moves",
    "max_ticks",
    "max_iter",
    "episode_limit",
    "episode_length",
    "timestep_limit",
    "step_limit",
    "time_limit",
    "num_steps",
    "n_steps",
    "horizon",
)
# Attributes that hold an environment's settings.
_SETTINGS = ("config", "_config", "cfg", "_cfg")


class Horizon(NamedTuple):
    """The longest episode in steps, and who said it."""

    steps: int
    # Where it stands, for the user.
    source: str
    # Whether this is `task.options.horizon` or PettingZoo's `max_cycles`, which runs do not report.
    usual: bool = False


class NoHorizon(ValueError):
    """Nothing says how long an episode is."""


def horizon_of(task: EnvTask, environment: Any, game: Any, factory: Callable[..., Any] | None) -> Horizon:
    """Look for the horizon in `task.options.horizon`, the environment's `max_cycles`, and then elsewhere in both.

    `game` is the environment, or the `AECEnv` inside a `TurnEnvironment`. Its limit may count turns or cycles, and the
    longer one cuts no episode short. Raises `NoHorizon` if it is unknown, and `ValueError` if it is not a whole number
    from 1.
    """
    stated = {
        "task.options.horizon": task.options.get("horizon"),
        "max_cycles of the environment": own_horizon(environment),
        "task.options.max_cycles": task.options.get("max_cycles"),
    }
    source, horizon = next(((place, steps) for place, steps in stated.items() if steps is not None), ("", None))
    if horizon is not None:
        if isinstance(horizon, bool) or not isinstance(horizon, int | np.integer) or horizon < 1:
            raise ValueError(f"{task.name}: the horizon is {horizon!r}; it must be a whole number of steps, at least 1")
        return Horizon(int(horizon), source, usual=True)
    for steps, source in _statements(task, game, factory):
        if game is environment:
            return Horizon(steps, source)
        return Horizon(steps * len(game.possible_agents), f"{source}, times {len(game.possible_agents)} agents")
    remedy = "add task.options.horizon, in steps, or give the environment max_cycles"
    raise NoHorizon(f"{task.name} does not say how long an episode is: {remedy}")


def own_horizon(environment: Any) -> Any:
    """`max_cycles` of the environment, of its metadata or of its game, where PettingZoo's families have it."""
    inner = getattr(environment, "unwrapped", environment)
    metadata = getattr(inner, "metadata", None) or {}
    game = getattr(inner, "env", None)
    return getattr(inner, "max_cycles", metadata.get("max_cycles", getattr(game, "max_cycles", None)))


def _statements(task: EnvTask, game: Any, factory: Callable[..., Any] | None) -> Iterator[tuple[int, str]]:
    """The limits that are whole numbers from 1 and where they stand, surest first."""
    places: list[tuple[str, Callable[[str], Any]]] = [("task.options.{}={}", task.options.get)]
    inner = attribute(game, "unwrapped") or game
    for holder in (game, inner):
        if (spec := attribute(holder, "spec")) is not None:
            places.append(("spec.{}={}", _reader(spec)))
    kind = type(inner).__name__
    for holder in (game, inner, *(attribute(inner, name) for name in ("env", *_SETTINGS))):
        places += [(f"{kind}.{{}}={{}}", _reader(holder)), (f"{kind}._{{}}={{}}", _reader(holder, "_"))]
    for maker in (factory, type(inner)):
        name = getattr(maker, "__name__", "the factory")
        places.append((f"{{}}={{}} in the signature of {name}", _defaults(maker).get))
    for text, read in places:
        for name in NAMES:
            value = read(name)
            if isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 1:
                yield int(value), text.format(name, value)


def _reader(holder: Any, prefix: str = "") -> Callable[[str], Any]:
    return lambda name: attribute(holder, prefix + name)


def attribute(holder: Any, name: str) -> Any:
    """An attribute or an entry, or None on any error, because foreign code may raise anything."""
    try:
        return holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)
    except Exception:
        return None


def _defaults(maker: Any) -> dict[str, Any]:
    try:
        return {name: argument.default for name, argument in inspect.signature(maker).parameters.items()}
    except (TypeError, ValueError):  # None, or it is written in another language than Python
        return {}
