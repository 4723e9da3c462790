"""How a unit's trajectory is named inside an object, and the recorder that fills it step by step."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from functions.contract import NotFinite
from functions.environments.base import AgentClass, EnvironmentFault, EnvSpec, Observation, Step
from functions.policies import Choice

Array = NDArray[Any]

_OF_POLICY = ("action/", "log_probability/")


def rollout_prefix(rollout: int) -> str:
    """Tensor names of a unit start with this."""
    return f"u{rollout:05d}"


def named(tensors: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    """Those whose name begins with `prefix`, without it."""
    return {name.removeprefix(prefix): array for name, array in tensors.items() if name.startswith(prefix)}


class Recorder:
    """Preallocated arrays ``[n, T, U * E, ...]`` per class for U units of E copies that are stepped side by side."""

    def __init__(self, spec: EnvSpec, steps: int, num_envs: int, rollouts: int = 1) -> None:
        self._spec, self._steps, self._num_envs = spec, steps, num_envs
        shape = (steps, rollouts * num_envs)
        counts = [len(kind.agents) for kind in spec.classes]
        widths = [kind.observation_size for kind in spec.classes]
        self._observations = [np.empty((n, *shape, w), np.float32) for n, w in zip(counts, widths, strict=True)]
        self._actions = [_empty_actions(kind, shape) for kind in spec.classes]
        self._log_probability: list[Array] | None = None
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
        if choice.log_probability is not None:
            self._record_log_probability(t, choice.log_probability)
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

    def _record_log_probability(self, t: int, of_classes: tuple[Array, ...]) -> None:
        if self._log_probability is None:
            self._log_probability = [np.empty(actions.shape[:3], np.float32) for actions in self._actions]
        for index, log_probability in enumerate(of_classes):
            self._log_probability[index][:, t] = log_probability

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

    def tensors(self, rollout: int, place: int = 0) -> dict[str, Array]:
        """The tensors by name of the unit that is recorded as number `place`: one contiguous block per agent, as
        learners read them.

        Raises `EnvironmentFault` when an observation, a state or a reward is not a number, and `NotFinite` when what
        the policy made is none.
        """
        own = slice(place * self._num_envs, (place + 1) * self._num_envs)
        named: dict[str, Array] = {
            "reward": self._rewards[:, :, own],
            "terminated": self._terminated[:, :, own],
            "alive": self._alive[:, :, own],
            "ended": self._ended[:, own],
        }
        for index in range(len(self._spec.classes)):
            named[f"observation/{index}"] = self._observations[index][:, :, own]
            named[f"action/{index}"] = self._actions[index][:, :, own]
            if self._log_probability is not None:
                named[f"log_probability/{index}"] = self._log_probability[index][:, :, own]
            if self._spec.masked:
                named[f"mask/{index}"] = self._masks[index][:, :, own]
        if self._spec.state_size:
            named["state"] = self._state[:, own]
        named |= self._cut_tensors(place)
        named = {name: np.ascontiguousarray(array) for name, array in named.items()}
        for name, array in named.items():
            if array.dtype == np.float32 and not np.isfinite(array).all():
                policys = name.startswith(_OF_POLICY)
                raise (NotFinite if policys else EnvironmentFault)(f"unit {rollout}: {name} holds NaN or infinity")
        return {f"{rollout_prefix(rollout)}/{name}": array for name, array in named.items()}

    def _cut_tensors(self, place: int) -> dict[str, Array]:
        pairs, seen = self._cuts_of(place)
        named: dict[str, Array] = {"cut": np.concatenate([np.empty((0, 2), np.int64), *pairs])}
        for index, kind in enumerate(self._spec.classes):
            empty = np.empty((0, len(kind.agents), kind.observation_size), np.float32)
            joined = np.concatenate([empty, *(part.values[index] for part in seen)])
            named[f"cut_observation/{index}"] = joined.swapaxes(0, 1)
            if self._spec.masked:
                legal = np.empty((0, len(kind.agents), kind.actions), np.bool_)
                masks = np.concatenate([legal, *(part.masks[index] for part in seen if part.masks is not None)])
                named[f"cut_mask/{index}"] = masks.swapaxes(0, 1)
        if self._spec.state_size:
            empty = np.empty((0, self._spec.state_size), np.float32)
            named["cut_state"] = np.concatenate([empty, *(part.state for part in seen if part.state is not None)])
        return named

    def _cuts_of(self, place: int) -> tuple[list[Array], list[Observation]]:
        """What was kept of one unit: (t, e) with e counted inside the unit, and what came next."""
        pairs, seen = [], []
        for found, after in self._cuts:
            own = np.flatnonzero(found[:, 1] // self._num_envs == place)
            pairs.append(found[own] - np.array([0, place * self._num_envs]))
            seen.append(_rows(after, own))
        return pairs, seen


def _empty_actions(kind: AgentClass, shape: tuple[int, int]) -> Array:
    """``[n, T, E]`` for one choice, ``[n, T, E, branches]`` for several, ``[n, T, E, d]`` for numbers."""
    if kind.continuous:
        return np.empty((len(kind.agents), *shape, kind.actions), np.float32)
    several = (len(kind.branches),) if kind.branches else ()
    return np.empty((len(kind.agents), *shape, *several), np.int32)


def _pairs(t: int, rows: Array) -> Array:
    return np.stack([np.full(len(rows), t), rows], axis=1)


def _rows(seen: Observation, rows: Array) -> Observation:
    """The observation of some copies only, copied."""
    return Observation(
        values=tuple(values[rows] for values in seen.values),
        alive=seen.alive[rows],
        masks=None if seen.masks is None else tuple(masks[rows] for masks in seen.masks),
        state=None if seen.state is None else seen.state[rows],
    )
