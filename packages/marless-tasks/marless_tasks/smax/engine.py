"""JaxMARL's SMAX as compiled functions over many environments. Only this module imports jax, when first used.

Jax reads its settings from environment variables once, when it starts. `engine` sets them during the start, unless the
process has set them or started jax. It chooses the CPU and one thread, because concurrent functions share cores. XLA
takes the size of its pool from ``NPROC``. Jax is not safe to fork once it has
started. Everything here may run in a spawned process.
"""

import difflib
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.base import EnvironmentFault
from marless.functions.environments.entities.description import Entities, EntityBlock, columns_of
from marless.functions.errors import MissingExtra

_SETTINGS = {"JAX_PLATFORMS": "cpu", "NPROC": "1"}
_INSTALL = "pip install 'jaxmarl>=0.2,<0.3'"

Options = tuple[tuple[str, str | int | float | bool], ...]


class Look(NamedTuple):
    """The observations in E environments: ``[E, n, observation]``, ``[E, n, actions]``, ``[E, state]``."""

    values: Any
    masks: Any
    state: Any


class Moved(NamedTuple):
    """The result of a step per environment: the team's `reward`, `alive` agents ``[E, n]``, and flags.

    A battle is `over`, was a `victory`, or was `cut` by the time limit.
    """

    reward: Any
    alive: Any
    over: Any
    victory: Any
    cut: Any


@dataclass(frozen=True)
class Engine:
    """A task's sizes and its compiled functions. `num_envs` is the leading axis of all arguments. ``blank(seeds [E, 2]
    uint32)`` returns keys, and battles and a `Look` of zeros. ``renew(keys, battles, look, ended [E])`` returns all
    three with new battles where `ended`, and ``step(keys, battles, actions [E, n])`` returns them after a step, with
    `Moved`. ``leaves(keys, battles, look)`` are the three as numpy's arrays, and ``of_leaves`` takes a list of these.
    """

    agents: tuple[str, ...]
    observation_size: int
    actions: int
    state_size: int
    horizon: int
    entities: Entities | None
    blank: Callable[[Any], tuple[Any, Any, Look]]
    renew: Callable[[Any, Any, Look, Any], tuple[Any, Any, Look]]
    step: Callable[[Any, Any, Any], tuple[Any, Any, Look, Moved]]
    leaves: Callable[[Any, Any, Look], list[NDArray[Any]]]
    of_leaves: Callable[[list[NDArray[Any]]], tuple[Any, Any, Look]]


@lru_cache(maxsize=16)
def engine(name: str, scenario: str, options: Options) -> Engine:
    """The engine of JaxMARL's `scenario`, kept because compiling takes many times longer than a battle.

    Raises `MissingExtra` without JaxMARL, `ValueError` for an unknown scenario or wrong options.
    """
    jax, smax = _modules(name)
    environment = _environment(name, scenario, dict(options), smax)
    blank, renew, step = _functions(jax, environment)
    return Engine(
        agents=tuple(environment.agents),
        observation_size=int(environment.obs_size),
        actions=int(environment.num_ally_actions),
        state_size=int(environment.state_size),
        horizon=int(environment.max_steps) + 1,  # JaxMARL checks the time limit before it counts the step
        entities=_entities(environment),
        blank=blank,
        renew=jax.jit(renew),
        step=jax.jit(step),
        leaves=partial(_leaves, jax),
        of_leaves=partial(_of_leaves, jax, blank),
    )


def _modules(name: str) -> tuple[Any, Any]:
    try:
        with _settings():
            jax = import_module("jax")
            jax.devices()  # settings are read here, not at the import
    except ModuleNotFoundError as error:
        raise _missing(name, error) from error
    try:
        with _silence():
            return jax, import_module("jaxmarl.environments.smax")
    except ModuleNotFoundError as error:
        raise _missing(name, error) from error
    except Exception as error:
        problem = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise EnvironmentFault(f"{name}: JaxMARL does not load: {problem}") from error


def _missing(name: str, error: ModuleNotFoundError) -> MissingExtra:
    package = str(error.name).partition(".")[0]
    return MissingExtra(f"{name} needs JaxMARL (the package '{package}' is not installed): {_INSTALL}")


@contextmanager
def _settings() -> Iterator[None]:
    """Sets our settings that the process lacks. On exit removes them and the variables that jax set."""
    before = {*os.environ}
    os.environ.update({key: value for key, value in _SETTINGS.items() if key not in before})
    try:
        yield
    finally:
        for key in {*os.environ} - before:
            os.environ.pop(key, None)


@contextmanager
def _silence() -> Iterator[None]:
    """Suppresses output. JaxMARL's import prints, and replaces the process's streams, so a redirection fails."""
    streams = {name: vars(sys)[name] for name in ("stdout", "stderr", "__stdout__")}
    nowhere = io.StringIO()
    vars(sys).update(stdout=nowhere, __stdout__=nowhere)
    try:
        yield
    finally:
        vars(sys).update(streams)


def _environment(name: str, scenario: str, options: dict[str, Any], smax: Any) -> Any:
    """The battle against JaxMARL's scripted enemy."""
    try:
        units = smax.map_name_to_scenario(scenario)
    except KeyError:
        maps = smax.smax_env.MAP_NAME_TO_SCENARIO
        nearest = ", ".join(difflib.get_close_matches(scenario, maps, cutoff=0.5) or sorted(maps))
        raise ValueError(f"{name}: JaxMARL has no SMAX scenario '{scenario}'. Choose one of {nearest}") from None
    try:
        return smax.HeuristicEnemySMAX(scenario=units, **options)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: SMAX refuses task.options {options}: {' '.join(str(error).split())}") from error


def _entities(environment: Any) -> Entities | None:
    """Return the units in a list of all units, or None for other observations.

    Actions name enemies by their numbers, so each enemy needs a separate block. Teammates are equal, except that an
    enemy's `last_targeted` names an ally by its number. The option `see_enemy_actions=false` removes this feature.
    """
    if environment.observation_type != "unit_list":
        return None
    allies, features = len(environment.agents) - 1, len(environment.unit_features)
    position = tuple(environment.unit_features.index(f"position_{axis}") for axis in "xy")
    absent = (0.0,) * features
    enemies = [((allies + i) * features, features) for i in range(int(environment.num_enemies))]
    return Entities.of(
        int(environment.obs_size),
        EntityBlock("teammate", columns_of(allies, (0, features)), position, absent, teammates=True),
        *(EntityBlock(f"enemy_{i}", columns_of(1, part), position, absent) for i, part in enumerate(enemies)),
    )


def _functions(jax: Any, environment: Any) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """`Engine`'s `blank`, `renew` and `step`, not yet compiled."""
    jnp, agents, sizes = jax.numpy, environment.agents, jax.numpy.asarray(_state_sizes(environment))

    def look(observations: Any, battle: Any) -> Look:
        legal = environment.get_avail_actions(battle)
        masks = jnp.stack([legal[agent] for agent in agents]) > 0
        return Look(jnp.stack([observations[agent] for agent in agents]), masks, observations["world_state"] / sizes)

    def fresh(key: Any) -> tuple[Any, Any, Look]:
        key, draw = jax.random.split(key)
        observations, battle = environment.reset(draw)
        return key, _fix_types(jax, battle), look(observations, battle)

    def move(key: Any, battle: Any, choices: Any) -> tuple[Any, Any, Look, Moved]:
        """One step of one battle: the next key and battle, the agents' look, and the outcome."""
        key, draw = jax.random.split(key)
        actions = {agent: choices[i] for i, agent in enumerate(agents)}
        observations, battle, rewards, dones, _ = environment.step_env(draw, battle, actions)
        alive = ~jnp.stack([dones[agent] for agent in agents])
        beaten = ~battle.state.unit_alive[len(agents) :].any()
        over = beaten | ~alive.any()
        outcome = Moved(rewards[agents[0]], alive, over, beaten & alive.any(), dones["__all__"] & ~over)
        return key, _fix_types(jax, battle), look(observations, battle), outcome

    def blank(seeds: Any) -> Any:
        keys = jax.random.wrap_key_data(jnp.asarray(seeds), impl="threefry2x32")
        _, battles, look_shape = jax.eval_shape(jax.vmap(fresh), keys)
        return keys, *jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), (battles, look_shape))

    def renew(keys: Any, battles: Any, looks: Look, done: Any) -> Any:
        def select(new: Any, old: Any) -> Any:
            return jnp.where(done.reshape(-1, *[1] * (new.ndim - 1)), new, old)

        return jax.tree.map(select, jax.vmap(fresh)(keys), (keys, battles, looks))

    return blank, renew, jax.vmap(move)


def _leaves(jax: Any, keys: Any, battles: Any, looks: Look) -> list[NDArray[Any]]:
    return [np.asarray(leaf) for leaf in (jax.random.key_data(keys), *jax.tree.leaves((battles, looks)))]


def _of_leaves(jax: Any, blank: Callable[..., Any], leaves: list[NDArray[Any]]) -> tuple[Any, Any, Look]:
    keys, *rest = blank(leaves[0])
    battles, looks = jax.tree.unflatten(jax.tree.structure(tuple(rest)), map(jax.numpy.asarray, leaves[1:]))
    return keys, battles, looks


def _state_sizes(environment: Any) -> list[float]:
    """The divisor of each number of the global state: the size of the map for positions, and 1 for all others."""
    divisors = {"position_x": float(environment.map_width), "position_y": float(environment.map_height)}
    unit_sizes = [divisors.get(feature, 1.0) for feature in environment.own_features]
    units = len(environment.agents) + int(environment.num_enemies)
    return unit_sizes * units + [1.0] * (int(environment.state_size) - units * len(unit_sizes))


def _fix_types(jax: Any, battle: Any) -> Any:
    """`battle` with types that do not change between steps, because every change causes a compilation."""
    return jax.tree.map(lambda leaf: jax.lax.convert_element_type(leaf, leaf.dtype), battle)
