"""The replay buffer: rollouts of earlier rounds as rows that minibatches are drawn from.

Storage holds only the run's trajectory objects. A warm function keeps the rollouts that it has read, so it reads only
the rollouts of the last round. The rows drawn depend on the buffer's rollouts and on the generator. It does not matter
which rollouts were kept.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marless.functions.data.batch import Batch, living, side_by_side
from marless.functions.environments.base import EnvSpec
from marless.functions.errors import BadRequest
from marless.functions.messages.learner import Past

Array = NDArray[Any]
Tensors = Mapping[str, Array]

_OF_AGENTS = ("observation/", "action/", "log_probability/", "mask/", "reward", "terminated", "alive")
_CUT = "cut_"


class RolloutKey(NamedTuple):
    """Identifies a rollout: its round, its number in that round, and a hash of its bytes, '' until they are stored."""

    round: int
    rollout: int
    content: str


ReadRollouts = Callable[[Sequence[RolloutKey]], Mapping[RolloutKey, Tensors]]
"""Reads the tensors of rollouts, under the names that actors give them, without the rollout's prefix."""


def rollout_keys(past: Sequence[Past]) -> list[RolloutKey]:
    """The rollouts of some rounds, in order."""
    return [
        RolloutKey(round_.round, rollout, "".join(ref.sha256 for ref in round_.trajectories))
        for round_ in past
        for rollout in range(round_.rollouts)
    ]


class ReplayBuffer:
    """Rollouts of equal shape, in the order of `load`, whichever slots hold them.

    `rollouts` ``[U, 2]`` are their rounds and their numbers in these rounds, in that order.
    """

    def __init__(self, spec: EnvSpec) -> None:
        self.spec = spec
        self._kept: dict[RolloutKey, int] = {}
        self._order: NDArray[np.int64] = np.empty(0, np.int64)
        self.rollouts: NDArray[np.int64] = np.empty((0, 2), np.int64)
        self._shape = (0, 0)
        self._last_minibatch: tuple[object, Batch] | None = None
        self._steps, self._after = _Slots(), _Slots()

    @property
    def steps(self) -> int:
        """Steps of a rollout."""
        return self._shape[0]

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        return self._steps.nbytes + self._after.nbytes

    @property
    def size(self) -> int:
        """Environment steps in the buffer."""
        return len(self._order) * self._shape[0] * self._shape[1]

    def holds(self, keys: Sequence[RolloutKey]) -> bool:
        """Return whether it has all these rollouts."""
        return all(key in self._kept for key in keys)

    def load(self, rollout_keys: Sequence[RolloutKey], read: ReadRollouts) -> None:
        """Make the buffer hold the rollouts `rollout_keys`, reading the missing rollouts.

        Raises `BadRequest` for rollouts of different shapes.
        """
        among, self._last_minibatch = set(rollout_keys), None
        self._kept = {key: slot for key, slot in self._kept.items() if key in among}
        missing = [key for key in rollout_keys if key not in self._kept]
        free = sorted(set(range(len(among))) - set(self._kept.values()))
        tensors = read(missing) if missing else {}
        for key, slot in zip(missing, free, strict=False):
            self._write(slot, living(self.spec, tensors[key]))
            self._kept[key] = slot
        self._order = np.array([self._kept[key] for key in rollout_keys], np.int64)
        self.rollouts = np.array([(key.round, key.rollout) for key in rollout_keys], np.int64).reshape(-1, 2)

    def memoise(self, address: object, draw: Callable[[], Batch]) -> Batch:
        """The result of `draw`, which is called only when `address` changes."""
        if self._last_minibatch is None or self._last_minibatch[0] != address:
            self._last_minibatch = address, draw()
        return self._last_minibatch[1]

    def drop_unstored(self) -> None:
        """Drops rollouts that are not stored yet: another attempt may give other data under the same key."""
        self._kept = {key: slot for key, slot in self._kept.items() if key.content}

    def sample(self, rng: np.random.Generator, size: int, length: int = 1) -> Batch:
        """`size` segments of `length` steps, drawn uniformly. See `segments`."""
        return self.segments(rng.integers(len(self.rollouts) * self.segments_per_rollout(length), size=size), length)

    def segments_per_rollout(self, length: int) -> int:
        """Segments of `length` steps in a rollout. Raises `BadRequest` where they do not divide it evenly."""
        steps, num_envs = self._shape
        if steps % length:
            raise BadRequest(f"segments of {length} steps do not fill a rollout of {steps}")
        return steps // length * num_envs

    def segments(self, indices: NDArray[np.int64], length: int = 1) -> Batch:
        """The segments number `indices` ``[B]`` as a batch of B environments.

        Segments are counted by rollout, then by time, then by environment. The last step of a segment is followed by
        the observations after a cut, unless the episode terminated there.
        """
        segment, env = np.divmod(indices, self._shape[1])
        return self.segments_from(segment * (length * self._shape[1]) + env, length)

    def segments_from(self, first: NDArray[np.int64], length: int = 1) -> Batch:
        """Return the segments with the first steps `first` ``[B]``, counted by rollout, step and environment."""
        num_envs = self._shape[1]
        rollout, within = np.divmod(first, self._shape[0] * num_envs)
        begin = self._order[rollout] * (self._shape[0] * num_envs) + within
        return self._batch(begin + num_envs * np.arange(length)[:, None])

    def _batch(self, rows: NDArray[np.int64]) -> Batch:
        spec, classes, (steps, num_envs) = self.spec, range(len(self.spec.classes)), self._shape
        last = np.arange(len(rows)) == len(rows) - 1
        after = self._steps.take("after", rows)
        cut = np.argwhere((after >= 0) | last[:, None])
        at, cut_rows = rows[cut[:, 0], cut[:, 1]], after[cut[:, 0], cut[:, 1]]
        beyond = np.flatnonzero(cut_rows >= 0)
        cut_rows = cut_rows[beyond] + at[beyond] // (steps * num_envs) * self._after.rows
        # After a rollout's last rows come observations after a cut, if any, but never the next slot's rows.
        following = at + num_envs * (at % (steps * num_envs) < (steps - 1) * num_envs)

        def next_of(name: str) -> Array:
            values = self._steps.take(name, following)
            if len(beyond):
                values[..., beyond, :] = self._after.take(name, cut_rows)
            return values

        observations = tuple(self._steps.take(f"observation/{c}", rows) for c in classes)
        cut_observations = tuple(next_of(f"observation/{c}") for c in classes)
        has_state = bool(spec.state_size)
        return Batch(
            spec=spec,
            rollouts=1,
            observations=observations,
            actions=tuple(self._steps.take(f"action/{c}", rows) for c in classes),
            log_probability=None,
            masks=tuple(self._steps.take(f"mask/{c}", rows) for c in classes) if spec.masked else None,
            rewards=self._steps.take("reward", rows),
            terminated=self._steps.take("terminated", rows),
            alive=self._steps.take("alive", rows),
            ended=self._steps.take("ended", rows),
            state=self._steps.take("state", rows) if has_state else side_by_side(spec, observations),
            cut=cut,
            cut_observations=cut_observations,
            cut_masks=tuple(next_of(f"mask/{c}") for c in classes) if spec.masked else None,
            cut_state=next_of("state") if has_state else side_by_side(spec, cut_observations),
        )

    def _write(self, slot: int, tensors: Tensors) -> None:
        steps, num_envs = shape = tensors["ended"].shape
        if shape != self._shape:
            if self._kept:
                raise BadRequest(
                    f"a rollout of {steps} steps in {num_envs} environments, among others of {self._shape}"
                )
            self._shape, self._steps, self._after = shape, _Slots(), _Slots()
        cut = tensors["cut"]
        after = np.full(shape, -1, np.int64)
        after[cut[:, 0], cut[:, 1]] = np.arange(len(cut))
        by_row = {name: array for name, array in tensors.items() if not name.startswith("cut")} | {"after": after}
        self._steps.write(slot, {name: _flat(array, _agent_axis(name)) for name, array in by_row.items()})
        following = {name.removeprefix(_CUT): array for name, array in tensors.items() if name.startswith(_CUT)}
        self._after.write(slot, following)


class _Slots:
    """Arrays ``[slots, rows, ...]``, or of agents ``[agents, slots, rows, ...]``: rows of many slots are read at
    once."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}
        self._size = (0, 0)

    @property
    def rows(self) -> int:
        """Rows of a slot."""
        return self._size[1]

    @property
    def nbytes(self) -> int:
        """Bytes of all slots."""
        return sum(array.nbytes for array in self._arrays.values())

    def write(self, slot: int, tensors: Mapping[str, Array]) -> None:
        """Writes arrays ``[rows, ...]`` (``[agents, rows, ...]``) to the first rows of a slot. Grows as needed."""
        rows = max(array.shape[_agent_axis(name)] for name, array in tensors.items())
        slots = self._size[0] if slot < self._size[0] else max(slot + 1, self._size[0] * 5 // 4)
        self._size = (slots, max(rows, self._size[1]))
        for name, array in tensors.items():
            axis = _agent_axis(name)
            shape = (*array.shape[:axis], *self._size, *array.shape[axis + 1 :])
            buffer = self._arrays.get(name)
            if buffer is None or buffer.shape != shape:
                buffer = self._arrays[name] = _grow(buffer, shape, array.dtype)
            slot_rows = buffer[:, slot] if axis else buffer[slot]
            slot_rows[(slice(None),) * axis + (slice(array.shape[axis]),)] = array

    def take(self, name: str, rows: NDArray[np.integer]) -> Array:
        """Rows by number over all slots, ``[*rows.shape, ...]`` (``[agents, *rows.shape, ...]``). A number beyond the
        last row gives the last."""
        axis, buffer = _agent_axis(name), self._arrays[name]
        return np.take(_flat(buffer, axis), rows, axis=axis, mode="clip")


def _agent_axis(name: str) -> int:
    return int(name.startswith(_OF_AGENTS))


def _flat(array: Array, axis: int) -> Array:
    """The axes `axis` and `axis` + 1 as one."""
    return array.reshape(*array.shape[:axis], -1, *array.shape[axis + 2 :])


def _grow(buffer: Array | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    larger = np.zeros(shape, dtype)
    if buffer is not None:
        larger[tuple(slice(size) for size in buffer.shape)] = buffer
    return larger
