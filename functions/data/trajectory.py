"""Tensor names of a rollout's trajectory, and the recorder that fills it step by step."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.base import (
    ActionArray,
    AgentClass,
    EnvironmentFault,
    EnvSpec,
    FloatArray,
    Observation,
    Step,
)
from marless.functions.errors import NotFinite

Array = NDArray[Any]

# ``[N]``: the agents that played by policies of an earlier round. Absent where there are none.
EARLIER = "earlier"
_OF_POLICY = ("action/", "log_probability/")


def rollout_prefix(rollout: int) -> str:
    """The prefix of a rollout's tensor names."""
    return f"u{rollout:05d}"


def tensors_below(tensors: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    """Return the tensors with names that begin with `prefix`, by the rest of their name."""
    return {name.removeprefix(prefix): array for name, array in tensors.items() if name.startswith(prefix)}


class Recorder:
    """Preallocated arrays ``[n, T, U * E, ...]`` per class for U rollouts of E environments, stepped side by side."""

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

    def record(
        self,
        t: int,
        observation: Observation,
        actions: Sequence[ActionArray],
        log_probability: Sequence[FloatArray] | None,
        step: Step,
    ) -> None:
        """Write step `t`. `policies.Choice` explains `actions` and `log_probability`.

        Raises `EnvironmentFault` for ends that are no booleans.
        """
        if t == 0:
            _require_booleans(step)
        for index, values in enumerate(observation.values):
            self._observations[index][:, t] = values.swapaxes(0, 1)
            self._actions[index][:, t] = actions[index]
        if log_probability is not None:
            self._record_log_probability(t, log_probability)
        if observation.masks is not None:
            for index, masks in enumerate(observation.masks):
                self._masks[index][:, t] = masks.swapaxes(0, 1)
        if observation.state is not None:
            self._state[t] = observation.state
        with np.errstate(over="ignore"):  # `tensors` says it
            self._rewards[:, t] = step.rewards.T
        self._terminated[:, t] = step.terminated.T
        self._alive[:, t] = observation.alive.T
        self._ended[t] = step.ended
        self._record_cut(t, step)

    def _record_log_probability(self, t: int, of_classes: Sequence[Array]) -> None:
        if self._log_probability is None:
            self._log_probability = [np.empty(actions.shape[:3], np.float32) for actions in self._actions]
        for index, log_probability in enumerate(of_classes):
            self._log_probability[index][:, t] = log_probability

    def _record_cut(self, t: int, step: Step) -> None:
        if step.final is not None:
            rows = np.flatnonzero(step.ended & step.truncated)
            if len(rows):
                self._cuts.append((_pairs(t, rows), _rows(step.final, rows)))
        if t == self._steps - 1:
            rows = np.flatnonzero(~step.ended)
            if len(rows):
                self._cuts.append((_pairs(t, rows), _rows(step.observation, rows)))

    def tensors(self, rollout: int, index: int = 0) -> dict[str, Array]:
        """The tensors by name of `rollout`, which is number `index` in the recorder. Contiguous by agent for learners.

        Raises `EnvironmentFault` if an observation, a state or a reward is not finite, or agents come back. Raises
        `NotFinite` for actions and log-probabilities.
        """
        columns = slice(index * self._num_envs, (index + 1) * self._num_envs)
        arrays: dict[str, Array] = {
            "reward": self._rewards[:, :, columns],
            "terminated": self._terminated[:, :, columns],
            "alive": self._alive[:, :, columns],
            "ended": self._ended[:, columns],
        }
        for c in range(len(self._spec.classes)):
            arrays[f"observation/{c}"] = self._observations[c][:, :, columns]
            arrays[f"action/{c}"] = self._actions[c][:, :, columns]
            if self._log_probability is not None:
                arrays[f"log_probability/{c}"] = self._log_probability[c][:, :, columns]
            if self._spec.masked:
                arrays[f"mask/{c}"] = self._masks[c][:, :, columns]
        if self._spec.state_size:
            arrays["state"] = self._state[:, columns]
        arrays |= self._cut_tensors(index)
        arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        for name, array in arrays.items():
            if array.dtype == np.float32 and not np.isfinite(array).all():
                from_policy = name.startswith(_OF_POLICY)
                raise (NotFinite if from_policy else EnvironmentFault)(
                    f"rollout {rollout}: {name} holds NaN or infinity"
                )
        _require_lives(rollout, arrays["alive"], arrays["terminated"], arrays["ended"])
        return {f"{rollout_prefix(rollout)}/{name}": array for name, array in arrays.items()}

    def _cut_tensors(self, index: int) -> dict[str, Array]:
        pairs, observations = self._cuts_of(index)
        arrays: dict[str, Array] = {"cut": np.concatenate([np.empty((0, 2), np.int64), *pairs])}
        for c, kind in enumerate(self._spec.classes):
            empty = np.empty((0, len(kind.agents), kind.observation_size), np.float32)
            values_ = np.concatenate([empty, *(part.values[c] for part in observations)])
            arrays[f"cut_observation/{c}"] = values_.swapaxes(0, 1)
            if self._spec.masked:
                legal = np.empty((0, len(kind.agents), kind.actions), np.bool_)
                masks = np.concatenate([legal, *(part.masks[c] for part in observations if part.masks is not None)])
                arrays[f"cut_mask/{c}"] = masks.swapaxes(0, 1)
        if self._spec.state_size:
            empty = np.empty((0, self._spec.state_size), np.float32)
            arrays["cut_state"] = np.concatenate(
                [empty, *(part.state for part in observations if part.state is not None)]
            )
        return arrays

    def _cuts_of(self, index: int) -> tuple[list[Array], list[Observation]]:
        """The cuts of one rollout: (t, e) with e counted inside the rollout, and the observations that follow."""
        pairs, observations = [], []
        for cut, after in self._cuts:
            rows = np.flatnonzero(cut[:, 1] // self._num_envs == index)
            pairs.append(cut[rows] - np.array([0, index * self._num_envs]))
            observations.append(_rows(after, rows))
        return pairs, observations


def _require_booleans(step: Step) -> None:
    flags = {"terminated": step.terminated, "truncated": step.truncated, "ended": step.ended}
    flags["alive"] = step.observation.alive
    if wrong := [f"{name} is of {flag.dtype}" for name, flag in flags.items() if flag.dtype != np.bool_]:
        raise EnvironmentFault(f"step 1: {', '.join(wrong)}, not of booleans")


def _require_lives(rollout: int, alive: Array, terminated: Array, done: Array) -> None:
    """Raises `EnvironmentFault` unless agents are alive until they terminate, and then gone until the reset.

    Shapes are ``[N, T, E]``, of `done` ``[T, E]``.
    """
    changed = (alive[:, 1:] != (alive[:, :-1] & ~terminated[:, :-1])) & ~done[:-1]
    if changed.any():
        agent, t, row = np.argwhere(changed)[0].tolist()
        change = "is alive, but was gone" if alive[agent, t + 1, row] else "is gone, but did not terminate"
        raise EnvironmentFault(f"rollout {rollout}, environment {row}, step {t + 1}: agent {agent} {change} before it")


def _empty_actions(kind: AgentClass, shape: tuple[int, int]) -> Array:
    """``[n, T, E]`` for one choice, ``[n, T, E, branches]`` for several, ``[n, T, E, d]`` for continuous actions."""
    if kind.continuous:
        return np.empty((len(kind.agents), *shape, kind.actions), np.float32)
    several = (len(kind.branches),) if kind.branches else ()
    return np.empty((len(kind.agents), *shape, *several), np.int32)


def _pairs(t: int, rows: Array) -> Array:
    return np.stack([np.full(len(rows), t), rows], axis=1)


def _rows(observation: Observation, rows: Array) -> Observation:
    return Observation(
        values=tuple(values[rows] for values in observation.values),
        alive=observation.alive[rows],
        masks=None if observation.masks is None else tuple(masks[rows] for masks in observation.masks),
        state=None if observation.state is None else observation.state[rows],
    )
