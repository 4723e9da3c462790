"""How a unit's trajectory is named inside an object, and the recorder that fills it step by step."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from functions.contract import NotFinite
from functions.environments.base import Observation, Spec, Step
from functions.policies import Choice

Array = NDArray[Any]


def unit_prefix(unit: int) -> str:
    """Tensor names of a unit start with this."""
    return f"u{unit:05d}"


class Recorder:
    """Preallocated arrays ``[n, T, E, ...]`` per class (one contiguous block per agent, as learners read them)."""

    def __init__(self, spec: Spec, steps: int, copies: int) -> None:
        self._spec, self._steps = spec, steps
        shape = (steps, copies)
        counts = [len(kind.agents) for kind in spec.classes]
        widths = [kind.observation_size for kind in spec.classes]
        self._observations = [np.empty((n, *shape, w), np.float32) for n, w in zip(counts, widths, strict=True)]
        self._actions = [np.empty((n, *shape), np.int32) for n in counts]
        self._log_probability = [np.empty((n, *shape), np.float32) for n in counts]
        self._masks = [
            np.empty((n, *shape, kind.actions), np.bool_) for n, kind in zip(counts, spec.classes, strict=True)
        ]
        self._state = np.empty((*shape, spec.state_size), np.float32)
        agents = len(spec.agents)
        self._rewards = np.empty((agents, *shape), np.float32)
        self._terminated = np.empty((agents, *shape), np.bool_)
        self._alive = np.empty((agents, *shape), np.bool_)
        self._ended = np.empty(shape, np.bool_)
        self._cuts: list[tuple[Array, Observation]] = []

    def record(self, t: int, seen: Observation, choice: Choice, step: Step) -> None:
        """Writes step `t`: what was seen, what was done, what came of it."""
        for index, values in enumerate(seen.values):
            self._observations[index][:, t] = values.swapaxes(0, 1)
            self._actions[index][:, t] = choice.actions[index]
            self._log_probability[index][:, t] = choice.log_probability[index]
        if seen.masks is not None:
            for index, masks in enumerate(seen.masks):
                self._masks[index][:, t] = masks.swapaxes(0, 1)
        if seen.state is not None:
            self._state[t] = seen.state
        self._rewards[:, t] = step.rewards.T
        self._terminated[:, t] = step.terminated.T
        self._alive[:, t] = seen.alive.T
        self._ended[t] = step.ended
        self._record_cut(t, step)

    def _record_cut(self, t: int, step: Step) -> None:
        """Keeps what follows a step whose value must stand in for a future that was not played."""
        if step.final is not None:
            rows = np.flatnonzero(step.ended & step.truncated)
            if len(rows):
                self._cuts.append((_pairs(t, rows), _rows(step.final, rows)))
        if t == self._steps - 1:
            rows = np.flatnonzero(~step.ended)
            if len(rows):
                self._cuts.append((_pairs(t, rows), _rows(step.observation, rows)))

    def tensors(self, unit: int) -> dict[str, Array]:
        """The unit's tensors by name; raises `NotFinite` when an observation or a reward is not a number."""
        named: dict[str, Array] = {
            "reward": self._rewards,
            "terminated": self._terminated,
            "alive": self._alive,
            "ended": self._ended,
        }
        for index in range(len(self._spec.classes)):
            named[f"observation/{index}"] = self._observations[index]
            named[f"action/{index}"] = self._actions[index]
            named[f"log_probability/{index}"] = self._log_probability[index]
            if self._spec.masked:
                named[f"mask/{index}"] = self._masks[index]
        if self._spec.state_size:
            named["state"] = self._state
        named |= self._cut_tensors()
        for name, array in named.items():
            if array.dtype == np.float32 and not np.isfinite(array).all():
                raise NotFinite(f"unit {unit}: {name} holds NaN or infinity")
        return {f"{unit_prefix(unit)}/{name}": array for name, array in named.items()}

    def _cut_tensors(self) -> dict[str, Array]:
        named: dict[str, Array] = {"cut": np.concatenate([np.empty((0, 2), np.int64), *(c[0] for c in self._cuts)])}
        for index, kind in enumerate(self._spec.classes):
            empty = np.empty((0, len(kind.agents), kind.observation_size), np.float32)
            joined = np.concatenate([empty, *(seen.values[index] for _, seen in self._cuts)])
            named[f"cut_observation/{index}"] = np.ascontiguousarray(joined.swapaxes(0, 1))
        if self._spec.state_size:
            empty = np.empty((0, self._spec.state_size), np.float32)
            named["cut_state"] = np.concatenate([empty, *(s.state for _, s in self._cuts if s.state is not None)])
        return named


def _pairs(t: int, rows: Array) -> Array:
    return np.stack([np.full(len(rows), t), rows], axis=1)


def _rows(seen: Observation, rows: Array) -> Observation:
    """The observation of some copies only, copied."""
    return Observation(
        values=tuple(values[rows] for values in seen.values),
        alive=seen.alive[rows],
        masks=None,
        state=None if seen.state is None else seen.state[rows],
    )
