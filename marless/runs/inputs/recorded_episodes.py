"""The arrays of recorded episodes, checked against the spaces of their task and against the protocol of environments.

Training must use the recorded numbers, so a number that a later step would round, cut off or overflow is refused. After
an agent's termination its numbers have no meaning. They become zeros, or legal actions.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marless.functions.environments import native_spaces
from marless.functions.environments.base import AgentClass, EnvSpec
from marless.functions.environments.spaces.actions import ActionCodec
from marless.functions.setting_limits import LARGEST_FLOAT32
from marless.runs.inputs.npz import ArrayFault, ArrayNumbers

Arrays = Mapping[str, NDArray[Any]]

STARTS, FINAL = "episode_starts", "final/"
# By how much of its range a continuous action may exceed a bound: a rounding error of float32.
_ROUNDING = 1e-6


def read_episodes(numbers: ArrayNumbers, spec: EnvSpec) -> dict[str, NDArray[Any]]:
    """Return the arrays of a dataset. Raises `ArrayFault` and `SpaceError`, which name the fault and its place."""
    starts = _starts(numbers)
    steps, episodes = int(starts[-1]), len(starts) - 1
    arrays = {STARTS: starts}
    all_gone, all_left = np.ones(steps, np.bool_), np.ones(episodes, np.bool_)
    for kind in spec.classes:
        for agent in kind.agents:
            name = spec.agents[agent]
            gone, left = _gone(numbers, name, starts)
            arrays |= _agent(numbers, name, kind, {"": gone, FINAL: left}, spec.masked)
            all_gone, all_left = all_gone & gone, all_left & left
    if spec.state_size:
        arrays["state"] = _finite(numbers, "state", spec.state_size, all_gone)
        arrays[f"{FINAL}state"] = _finite(numbers, f"{FINAL}state", spec.state_size, all_left)
    return arrays


def _starts(numbers: ArrayNumbers) -> NDArray[np.int64]:
    starts = numbers.read(STARTS, None)
    whole = starts.dtype.kind in "iuf" and len(starts) > 1 and bool(np.isfinite(starts).all())
    # Larger numbers of float64 are inexact, and a file never has as many steps.
    whole = whole and bool((starts == np.floor(starts)).all() and (starts >= 0).all() and (starts < 2.0**53).all())
    if not whole or starts[0] != 0 or not (starts[1:] > starts[:-1]).all():
        raise ArrayFault(f"{STARTS} does not rise in whole numbers from 0 to the number of steps")
    return starts.astype(np.int64)


def _gone(numbers: ArrayNumbers, name: str, starts: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """In which steps an agent is gone ``[steps]``, and which episodes it left before their end ``[episodes]``.

    Raises `ArrayFault` unless the agent is alive until it terminates, and then gone until the next episode.
    """
    alive, terminations = (_flags(numbers, f"{name}/{part}", (int(starts[-1]),)) for part in ("alive", "terminations"))
    expected_alive = np.empty_like(alive)
    expected_alive[1:] = alive[:-1] & ~terminations[:-1]
    expected_alive[starts[:-1]] = True
    if (alive != expected_alive).any():
        step = int(np.argmax(alive != expected_alive))
        raise ArrayFault(f"{name}/alive is {alive[step]} in step {step}, but {name}/terminations says otherwise")
    ends = starts[1:] - 1
    return ~alive, ~alive[ends] | terminations[ends]


def _agent(
    numbers: ArrayNumbers, name: str, kind: AgentClass, gone: Mapping[str, NDArray[np.bool_]], has_masks: bool
) -> dict[str, NDArray[Any]]:
    """The arrays of one agent. `gone` are the rows without it, of steps and of ends of episodes."""
    arrays = {f"{name}/alive": ~gone[""]}
    for at, rows in gone.items():
        key = f"{at}{name}/observations"
        arrays[key] = _finite(numbers, key, kind.observation_size, rows)
        if has_masks and not kind.continuous:
            key = f"{at}{name}/masks"
            arrays[key] = _flags(numbers, key, (len(rows), kind.actions), rows)
    arrays[f"{name}/rewards"] = _finite(numbers, f"{name}/rewards", None, gone[""])
    arrays[f"{name}/terminations"] = _flags(numbers, f"{name}/terminations", gone[""].shape) & ~gone[""]
    arrays[f"{name}/actions"] = _actions(numbers, f"{name}/actions", kind, gone[""])
    if has_masks and not kind.continuous:
        _require_legal(arrays, name, kind)
    return arrays


def _finite(numbers: ArrayNumbers, name: str, size: int | None, gone: NDArray[np.bool_]) -> NDArray[Any]:
    """Numbers that are finite in single precision, `size` or one in each row. Networks compute in that precision. Rows
    that are `gone` become zeros."""
    array = numbers.read(name, (len(gone),) if size is None else (len(gone), size))
    array[gone] = 0
    if not (np.isfinite(array).all() and (np.abs(array.astype(np.float64)) <= LARGEST_FLOAT32).all()):
        raise ArrayFault(f"{name} holds what is not a number, or is none in float32")
    return array


def _flags(
    numbers: ArrayNumbers, name: str, shape: tuple[int, ...], gone: NDArray[np.bool_] | None = None
) -> NDArray[np.bool_]:
    """Numbers that are 0 or 1. Rows that are `gone` are all 1 if they hold other numbers, or no 1."""
    array = numbers.read(name, shape)
    if gone is not None:
        array[gone & ~(((array == 0) | (array == 1)).all(axis=1) & (array == 1).any(axis=1))] = 1
    if not ((array == 0) | (array == 1)).all():
        raise ArrayFault(f"{name} holds other numbers than 0 and 1")
    return array.astype(np.bool_)


def action_codec(kind: AgentClass) -> ActionCodec:
    """The environment's own actions of a class."""
    return native_spaces.codec_of(kind, kind.name, last_action=False, masked=False).action


def _actions(numbers: ArrayNumbers, name: str, kind: AgentClass, gone: NDArray[np.bool_]) -> NDArray[Any]:
    """The environment's own actions, within the bounds of each number or the range of each choice.

    Rows that are `gone` get the lowest action in place of a wrong action."""
    codec = action_codec(kind)
    array = numbers.read(name, (len(gone), *codec.shape))
    flat = array.reshape(len(gone), -1).astype(np.float64)
    if kind.continuous:
        low, high = np.array(kind.low), np.array(kind.high)
        room, broken = _ROUNDING * (high / 2 - low / 2), np.zeros_like(flat, np.bool_)
    else:
        low = codec.start.reshape(-1).astype(np.float64)
        high, room, broken = low + np.array(codec.counts) - 1, np.zeros(len(low)), flat != np.floor(flat)
    beyond = ~((flat >= low - room) & (flat <= high + room))
    array[gone & (beyond | broken).any(axis=1)] = low.reshape(codec.shape)
    if not np.isfinite(flat[~gone]).all():
        raise ArrayFault(f"{name} holds what is not a number")
    if broken[~gone].any():
        raise ArrayFault(f"{name} holds choices that are no whole numbers")
    if beyond[~gone].any():
        raise ArrayFault(f"{name} has values beyond {low.min():g} to {high.max():g}, or beyond those of their place")
    return array


def _require_legal(arrays: Arrays, name: str, kind: AgentClass) -> None:
    mask, alive = arrays[f"{name}/masks"], arrays[f"{name}/alive"]
    actions = arrays[f"{name}/actions"]
    choices = action_codec(kind).encode(actions, actions.shape[:1], f"{name}/actions").reshape(len(mask), -1)
    firsts = np.cumsum([0, *kind.branches[:-1]]) if kind.branches else np.zeros(1, np.int64)
    legal = np.take_along_axis(mask, choices + firsts, axis=1).all(axis=1)
    if (alive & ~legal).any():
        step = int(np.argmax(alive & ~legal))
        raise ArrayFault(f"{name}/actions has an action in step {step} that {name}/masks forbids")
