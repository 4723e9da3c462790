"""The arrays of recorded episodes, checked against the spaces of their task and against the protocol of environments.

What is learned from must be what was recorded: a number that a later step would round, cut off or overflow is refused.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from functions.environments import native_spaces
from functions.environments.base import AgentClass, EnvSpec
from functions.environments.spaces.actions import ActionCodec
from functions.setting_limits import LARGEST_FLOAT32
from marless.runs.inputs.npz import ArrayFault, Numbers

Arrays = Mapping[str, NDArray[Any]]

STARTS, FINAL = "episode_starts", "final/"
# By how much of its range a continuous action may exceed a bound: a rounding error of float32.
_ROUNDING = 1e-6


def read_episodes(numbers: Numbers, spec: EnvSpec) -> dict[str, NDArray[Any]]:
    """The arrays of a dataset; raises `ArrayFault` and `SpaceError`, which name what is wrong where."""
    starts = _starts(numbers)
    steps, episodes = int(starts[-1]), len(starts) - 1
    arrays = {STARTS: starts}
    if spec.state_size:
        arrays["state"] = _finite(numbers, "state", (steps, spec.state_size))
        arrays[f"{FINAL}state"] = _finite(numbers, f"{FINAL}state", (episodes, spec.state_size))
    for kind in spec.classes:
        for agent in kind.agents:
            arrays |= _agent(numbers, spec.agents[agent], kind, steps, episodes, spec.masked)
            _require_a_life(arrays, spec.agents[agent])
    return arrays


def _starts(numbers: Numbers) -> NDArray[np.int64]:
    starts = numbers.read(STARTS, None)
    whole = starts.dtype.kind in "iuf" and len(starts) > 1 and bool(np.isfinite(starts).all())
    # Larger numbers of float64 are not exact, and no file has as many steps.
    whole = whole and bool((starts == np.floor(starts)).all() and (starts >= 0).all() and (starts < 2.0**53).all())
    if not whole or starts[0] != 0 or not (starts[1:] > starts[:-1]).all():
        raise ArrayFault(f"{STARTS} does not rise in whole numbers from 0 to the number of steps")
    return starts.astype(np.int64)


def _agent(
    numbers: Numbers, name: str, kind: AgentClass, steps: int, episodes: int, has_masks: bool
) -> dict[str, NDArray[Any]]:
    """The arrays of one agent."""
    rows = {"": steps, FINAL: episodes}
    arrays = {}
    for at, count in rows.items():
        key = f"{at}{name}/observations"
        arrays[key] = _finite(numbers, key, (count, kind.observation_size))
        if has_masks and not kind.continuous:
            key = f"{at}{name}/masks"
            arrays[key] = _flags(numbers, key, (count, kind.actions))
    arrays[f"{name}/rewards"] = _finite(numbers, f"{name}/rewards", (steps,))
    for part in ("terminations", "alive"):
        arrays[f"{name}/{part}"] = _flags(numbers, f"{name}/{part}", (steps,))
    arrays[f"{name}/actions"] = _actions(numbers, f"{name}/actions", kind, steps)
    if has_masks and not kind.continuous:
        _require_legal(arrays, name, kind)
    return arrays


def _finite(numbers: Numbers, name: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Numbers that are finite in single precision, in which networks compute."""
    array = numbers.read(name, shape)
    if not (np.isfinite(array).all() and (np.abs(array.astype(np.float64)) <= LARGEST_FLOAT32).all()):
        raise ArrayFault(f"{name} holds what is not a number, or is none in float32")
    return array


def _flags(numbers: Numbers, name: str, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    array = numbers.read(name, shape)
    if not ((array == 0) | (array == 1)).all():
        raise ArrayFault(f"{name} holds other numbers than 0 and 1")
    return array.astype(np.bool_)


def action_codec(kind: AgentClass) -> ActionCodec:
    """The environment's own actions of a class."""
    return native_spaces.codec_of(kind, kind.name, last_action=False, masked=False).action


def _actions(numbers: Numbers, name: str, kind: AgentClass, steps: int) -> NDArray[Any]:
    """The environment's own actions, within the bounds of each number or the range of each choice."""
    codec = action_codec(kind)
    array = numbers.read(name, (steps, *codec.shape))
    if not np.isfinite(array).all():
        raise ArrayFault(f"{name} holds what is not a number")
    flat = array.reshape(steps, -1).astype(np.float64)
    if kind.continuous:
        low, high = np.array(kind.low), np.array(kind.high)
        room = _ROUNDING * (high / 2 - low / 2)
    else:
        low = codec.start.reshape(-1).astype(np.float64)
        high, room = low + np.array(codec.counts) - 1, np.zeros(len(low))
        if (flat != np.floor(flat)).any():
            raise ArrayFault(f"{name} holds choices that are no whole numbers")
    if ((flat < low - room) | (flat > high + room)).any():
        raise ArrayFault(f"{name} has values beyond {low.min():g} to {high.max():g}, or beyond those of their place")
    return array


def _require_legal(arrays: Arrays, name: str, kind: AgentClass) -> None:
    """Raises `ArrayFault` where an agent that is alive took an action that its mask forbids."""
    mask, alive = arrays[f"{name}/masks"], arrays[f"{name}/alive"]
    actions = arrays[f"{name}/actions"]
    choices = action_codec(kind).encode(actions, actions.shape[:1], f"{name}/actions").reshape(len(mask), -1)
    firsts = np.cumsum([0, *kind.branches[:-1]]) if kind.branches else np.zeros(1, np.int64)
    legal = np.take_along_axis(mask, choices + firsts, axis=1).all(axis=1)
    if (alive & ~legal).any():
        step = int(np.argmax(alive & ~legal))
        raise ArrayFault(f"{name}/actions has an action in step {step} that {name}/masks forbids")


def _require_a_life(arrays: Arrays, name: str) -> None:
    """Raises `ArrayFault` unless the agent is alive until it terminates, and then gone until the next episode."""
    alive, terminations = arrays[f"{name}/alive"], arrays[f"{name}/terminations"]
    expected_alive = np.empty_like(alive)
    expected_alive[1:] = alive[:-1] & ~terminations[:-1]
    expected_alive[arrays[STARTS][:-1]] = True
    if (alive != expected_alive).any():
        step = int(np.argmax(alive != expected_alive))
        raise ArrayFault(f"{name}/alive is {alive[step]} in step {step}, but {name}/terminations says otherwise")
    if (terminations & ~alive).any():
        step = int(np.argmax(terminations & ~alive))
        raise ArrayFault(f"{name}/terminations is True in step {step}, but {name}/alive says that it is gone")
