"""The conformance suite of environments: checks the protocol of `marless.functions.environments.base` with random
actions.

Plug-in authors run ``check(lambda num_envs: make(task, num_envs))`` in their tests.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.base import (
    ActionArray,
    AgentClass,
    BoolArray,
    EnvSpec,
    Observation,
    Step,
    VectorEnvironment,
)
from marless.functions.environments.resumable import Resumable, Saved
from marless.functions.environments.spec_check import fault_of
from marless.testing.algorithms.tools import require

Make = Callable[[int], VectorEnvironment]
Array = NDArray[np.generic]

_NUM_ENVS = 3
_SEED = 20
_PAIRS = 3

_WRONG_NUM_ENVS = "num_envs is not the number of environments that was asked for"
_WRONG_ARRAY = "{what} is {got}, not {expected}"
_NOT_FINITE = "{what} is not finite"
_WRONG_PARTS = "an observation does not have one array per class"
_WRONG_MASKS = "masks are given although spec.masked is False, or the other way round"
_NO_LEGAL_ACTION = "a mask allows no action, or none of one of several choices (dead agents need one, too)"
_TWO_TURNS = "masks give two agents a choice in one step, although spec.turns says that they take turns"
_MASKED_NUMBERS = "a mask forbids numbers"
_WRONG_STATE = "a state is given although spec.state_size is 0, or the other way round"
_DEAD_SEE = "an agent that is gone sees something other than zeros"
_DEAD_EARN = "an agent that was gone before the step has a reward"
_DEAD_DIE = "an agent that was gone before the step terminates"
_NOT_ALL_START = "an episode starts without all agents alive"
_ALIVE = "alive is not 'alive before and not terminated'"
_ENDED = "ended is not 'truncated, or no agent left'"
_FINAL = "final is given although no environment ended, or the other way round"
_TOO_LONG = "an episode is longer than spec.horizon"
_ACTIONS_CHANGED = "step changed the actions that it was given"
_OVERWRITTEN = "arrays that an earlier call returned were overwritten"
_NOT_REPRODUCIBLE = "the same generator and actions gave other bytes in a new environment"
_NOT_FORGOTTEN = (
    "the same generator and actions gave other bytes after earlier episodes (reset leaves something behind)"
)
_SAME_STARTS = "another generator gave the same first observations"
_NOT_RESUMED = "resume went on with other bytes in another environment than in the one that was saved"
_COUPLED = "the actions in environment 0 changed what other environments gave"


def check(
    make: Make, episodes: int = 3, random_starts: bool = True, independent_envs: bool = True, repeatable: bool = True
) -> None:
    """Plays about `episodes` episodes of full length in environments made by `make(num_envs)`, and closes them twice.

    Raises `AssertionError` naming the broken rule. `random_starts`: whether first observations depend on the generator.
    `independent_envs`: whether actions in one environment leave the others unchanged until one ends. Use False if the
    number of draws from the shared generator depends on actions. `repeatable`: whether the same generator and actions
    give the same bytes. Use False if an engine's memory decides, and then environments are not compared either.
    """
    for num_envs in (1, _NUM_ENVS):
        _check_num_envs(make, num_envs, episodes, random_starts, repeatable)
    if independent_envs and repeatable:
        _check_independence(make)
    _check_resuming(make)


def _check_resuming(make: Make) -> None:
    one, other = make(_NUM_ENVS), make(_NUM_ENVS)
    if isinstance(one, Resumable) and isinstance(other, Resumable):
        _play(one, 1 + one.spec.horizon // 2, _SEED)
        snapshot = {name: np.array(array, ndmin=1) for name, array in one.save().items()}  # as objects hold them
        require(_go_on(one, snapshot) == _go_on(other, snapshot), _NOT_RESUMED)
    one.close()
    other.close()


def _go_on(environment: Resumable, snapshot: Saved) -> list[bytes]:
    choices = _actions_rng(_SEED)
    observation = environment.resume(snapshot, np.random.default_rng(_SEED + 1))
    outputs = [array.tobytes() for array in _arrays(observation)]
    for _ in range(environment.spec.horizon):
        step = environment.step(_choose(observation, environment.spec, choices))
        outputs.extend(array[rows].tobytes() for array, rows in _step_arrays(step))
        observation = step.observation
    return outputs


def _check_num_envs(make: Make, num_envs: int, episodes: int, random_starts: bool, repeatable: bool) -> None:
    environment, other = make(num_envs), make(num_envs)
    _check_spec(environment, num_envs)
    steps = episodes * environment.spec.horizon
    outputs = _play(environment, steps, _SEED)
    _play(environment, 1 + environment.spec.horizon // 2, _SEED + 1)  # most likely leaves an episode unfinished
    require(_play(environment, steps, _SEED) == outputs or not repeatable, _NOT_FORGOTTEN)
    require(_play(other, steps, _SEED) == outputs or not repeatable, _NOT_REPRODUCIBLE)
    if random_starts:
        require(_play(other, 1, _SEED + 1)[0] != outputs[0], _SAME_STARTS)
    for instance in (environment, other):
        instance.close()
        instance.close()


def _check_independence(make: Make) -> None:
    for seed in range(_PAIRS):
        plain, other = (_play_others(make(_NUM_ENVS), seed, first) for first in (_SEED, _SEED + 1))
        require(all(one == two for one, two in zip(plain, other, strict=False)), _COUPLED)


def _play_others(environment: VectorEnvironment, seed: int, first: int) -> list[bytes]:
    """Return the outputs of environments 1, 2, ... until the first end. `first` seeds the actions of environment 0.

    The observation of the last step is left out, because the reset may draw numbers before it.
    """
    choices, other_choices = _actions_rng(seed), _actions_rng(first)
    observation = environment.reset(np.random.default_rng(seed))
    outputs: list[bytes] = []
    for _ in range(environment.spec.horizon):
        actions = _choose(observation, environment.spec, choices)
        for numbers, other_numbers in zip(actions, _choose(observation, environment.spec, other_choices), strict=True):
            numbers[0] = other_numbers[0]
        step = environment.step(actions)
        outputs.extend(part[1:].tobytes() for part in (step.rewards, step.terminated, step.truncated))
        if step.ended.any():
            break
        outputs.extend(array[1:].tobytes() for array in _arrays(step.observation))
        observation = step.observation
    environment.close()
    return outputs


def _check_spec(environment: VectorEnvironment, num_envs: int) -> None:
    require(environment.num_envs == num_envs, _WRONG_NUM_ENVS)
    fault = fault_of(environment.spec)
    require(not fault, fault)


@dataclass
class _Witness:
    spec: EnvSpec
    alive: BoolArray
    lengths: NDArray[np.int64]


def _play(environment: VectorEnvironment, steps: int, seed: int) -> list[bytes]:
    bodies: list[tuple[Array, bytes]] = []
    outputs = []
    for output in islice(checked_steps(environment, seed), steps + 1):
        arrays = _step_arrays(output) if isinstance(output, Step) else [(array, ...) for array in _arrays(output)]
        bodies.extend((array, array.tobytes()) for array, _ in arrays)
        outputs.append(b"".join(array[rows].tobytes() for array, rows in arrays))
    require(all(array.tobytes() == body for array, body in bodies), _OVERWRITTEN)
    return outputs


def checked_steps(environment: VectorEnvironment, seed: int) -> Iterator[Observation | Step]:
    """Play random legal actions without end. Yield the first observation, then every step, after its checks.

    Raises `AssertionError` that names the broken rule.
    """
    spec, num_envs = environment.spec, environment.num_envs
    choices = _actions_rng(seed)
    observation = environment.reset(np.random.default_rng(seed))
    _check_observation(observation, spec, np.ones(num_envs, dtype=np.bool_))
    require(bool(observation.alive.all()), _NOT_ALL_START)
    witness = _Witness(spec, observation.alive.copy(), np.zeros(num_envs, dtype=np.int64))
    yield observation
    while True:
        actions = _choose(observation, spec, choices)
        before = [numbers.tobytes() for numbers in actions]
        step = environment.step(actions)
        require([numbers.tobytes() for numbers in actions] == before, _ACTIONS_CHANGED)
        _check_step(step, witness)
        yield step
        observation = step.observation


def _actions_rng(seed: int) -> np.random.Generator:
    """A stream other than the environment's, because actions from an equal stream could depend on its draws."""
    return np.random.default_rng([seed, 1])


def _choose(observation: Observation, spec: EnvSpec, choices: np.random.Generator) -> tuple[ActionArray, ...]:
    actions = []
    for c, kind in enumerate(spec.classes):
        likes = choices.random((len(observation.alive), len(kind.agents), kind.actions))
        if kind.continuous:
            actions.append(_between(likes, kind))
            continue
        if observation.masks is not None:
            likes = np.where(observation.masks[c], likes, -1.0)
        picks = [part.argmax(axis=-1) for part in _parts(likes, kind)]
        actions.append(np.stack(picks, axis=-1) if kind.branches else picks[0])
    return tuple(actions)


def _between(shares: NDArray[np.float64], kind: AgentClass) -> ActionArray:
    """Return continuous actions in the bounds of `kind`: one in ten at the lower bound, one in ten at the upper."""
    low, high = np.array(kind.low), np.array(kind.high)
    return np.asarray((low + np.clip(1.25 * shares - 0.125, 0, 1) * (high - low)).astype(np.float32))


def _parts(array: NDArray[Any], kind: AgentClass) -> list[NDArray[Any]]:
    return np.split(array, np.cumsum(kind.branches)[:-1], axis=-1) if kind.branches else [array]


def _check_observation(observation: Observation, spec: EnvSpec, rows: BoolArray) -> None:
    _check_array("alive", observation.alive, (len(spec.agents),), np.bool_, rows)
    require(len(observation.values) == len(spec.classes), _WRONG_PARTS)
    for kind, values in zip(spec.classes, observation.values, strict=True):
        shape = (len(kind.agents), kind.observation_size)
        _check_array(f"the observation of class '{kind.name}'", values, shape, np.float32, rows)
        require(not values[rows][~observation.alive[rows][:, kind.agents]].any(), _DEAD_SEE)
    require((observation.masks is not None) == spec.masked, _WRONG_MASKS)
    if observation.masks is not None:
        _check_masks(observation, observation.masks, spec, rows)
    require((observation.state is not None) == (spec.state_size > 0), _WRONG_STATE)
    if observation.state is not None:
        _check_array("the state", observation.state, (spec.state_size,), np.float32, rows)


def _check_masks(observation: Observation, masks: tuple[BoolArray, ...], spec: EnvSpec, rows: BoolArray) -> None:
    require(len(masks) == len(spec.classes), _WRONG_PARTS)
    for kind, mask in zip(spec.classes, masks, strict=True):
        _check_array(f"the mask of class '{kind.name}'", mask, (len(kind.agents), kind.actions), np.bool_, rows)
        legal = [part.any(axis=-1).all() for part in _parts(mask[rows], kind)]
        require(all(legal), _NO_LEGAL_ACTION)
        require(not kind.continuous or bool(mask[rows].all()), _MASKED_NUMBERS)
    if spec.turns:
        require(bool((_choosing(observation, spec).sum(axis=1) < 2)[rows].all()), _TWO_TURNS)


def _choosing(observation: Observation, spec: EnvSpec) -> BoolArray:
    # Agents ``[E, N]`` in play with a choice under their masks.
    choosing = np.zeros_like(observation.alive)
    for kind, mask in zip(spec.classes, observation.masks or (), strict=True):
        choosing[:, kind.agents] = mask.sum(axis=-1) > max(1, len(kind.branches))
    return choosing & observation.alive


def _check_array(what: str, array: object, width: tuple[int, ...], dtype: type[np.generic], rows: BoolArray) -> None:
    expected_form = f"an array {(len(rows), *width)} of {np.dtype(dtype)}"
    got = f"an array {array.shape} of {array.dtype}" if isinstance(array, np.ndarray) else type(array).__name__
    if not isinstance(array, np.ndarray) or got != expected_form:
        raise AssertionError(_WRONG_ARRAY.format(what=what, got=got, expected=expected_form))
    require(bool(np.isfinite(array[rows]).all()), _NOT_FINITE.format(what=what))


def _check_step(step: Step, witness: _Witness) -> None:
    agents, before = (len(witness.spec.agents),), witness.alive
    everywhere = np.ones(len(before), dtype=np.bool_)
    _check_array("rewards", step.rewards, agents, np.float64, everywhere)
    _check_array("terminated", step.terminated, agents, np.bool_, everywhere)
    _check_array("truncated", step.truncated, (), np.bool_, everywhere)
    _check_array("ended", step.ended, (), np.bool_, everywhere)
    _check_observation(step.observation, witness.spec, everywhere)
    require(not step.rewards[~before].any(), _DEAD_EARN)
    require(not step.terminated[~before].any(), _DEAD_DIE)
    after = before & ~step.terminated
    require(np.array_equal(step.ended, step.truncated | ~after.any(axis=1)), _ENDED)
    require(np.array_equal(step.observation.alive[~step.ended], after[~step.ended]), _ALIVE)
    require(bool(step.observation.alive[step.ended].all()), _NOT_ALL_START)
    _check_end(step, after, witness.spec)
    witness.lengths += 1
    require(bool((step.ended | (witness.lengths < witness.spec.horizon)).all()), _TOO_LONG)
    witness.lengths[step.ended] = 0
    witness.alive = step.observation.alive.copy()


def _check_end(step: Step, after: BoolArray, spec: EnvSpec) -> None:
    require((step.final is not None) == bool(step.ended.any()), _FINAL)
    if step.final is not None:
        _check_observation(step.final, spec, step.ended)
        require(np.array_equal(step.final.alive[step.ended], after[step.ended]), _ALIVE)
    for name, values in step.env_metrics.items():
        _check_array(f"env metric '{name}'", values, (), np.float64, step.ended)


def _arrays(observation: Observation) -> list[Array]:
    return [
        observation.alive,
        *observation.values,
        *(observation.masks or ()),
        *([] if observation.state is None else [observation.state]),
    ]


def _step_arrays(step: Step) -> list[tuple[Array, BoolArray]]:
    everywhere = np.ones(len(step.ended), dtype=np.bool_)
    whole = [*_arrays(step.observation), step.rewards, step.terminated, step.truncated, step.ended]
    last = [] if step.final is None else _arrays(step.final)
    last += [step.env_metrics[name] for name in sorted(step.env_metrics)]
    return [(array, everywhere) for array in whole] + [(array, step.ended) for array in last]
