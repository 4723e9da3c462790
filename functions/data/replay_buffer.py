"""What learners remember of earlier rounds: their units as rows that minibatches are drawn from.

The trajectory objects of the run are the memory; a function that lives on keeps the units it has read, so that it
reads only those of the last round. Which rows are drawn depends on the window and the generator, not on what was kept.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from functions.contract import BadRequest, Past
from functions.data.batch import Batch, living, side_by_side
from functions.data.slots import Slots
from functions.environments.base import Spec

Array = NDArray[Any]
Tensors = Mapping[str, Array]

_OF_AGENTS = ("observation/", "action/", "log_probability/", "mask/", "reward", "terminated", "alive")
_CUT = "cut_"


class Unit(NamedTuple):
    """A unit of a round; `content` tells its bytes from those of any other, and is empty until they are stored."""

    round: int
    rollout: int
    content: str


Read = Callable[[Sequence[Unit]], Mapping[Unit, Tensors]]
"""Gives the tensors of units, as actors name them without the unit."""


def rollouts_of(past: Sequence[Past]) -> list[Unit]:
    """The units of some rounds, in their order."""
    return [
        Unit(round_.round, rollout, "".join(ref.sha256 for ref in round_.trajectories))
        for round_ in past
        for rollout in range(round_.rollouts)
    ]


class Window:
    """Units of equal shape, in an order that is theirs wherever they are kept.

    `rollouts` ``[U, 2]`` are their rounds and their numbers in these, in that order.
    """

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self._kept: dict[Unit, int] = {}
        self._order: NDArray[np.int64] = np.empty(0, np.int64)
        self.rollouts: NDArray[np.int64] = np.empty((0, 2), np.int64)
        self._shape = (0, 0)
        self._drawn: tuple[object, Batch] | None = None
        self._steps, self._after = Slots(_OF_AGENTS), Slots(_OF_AGENTS)

    @property
    def steps(self) -> int:
        """Steps of a unit."""
        return self._shape[0]

    @property
    def size(self) -> int:
        """Environment steps in the window."""
        return len(self._order) * self._shape[0] * self._shape[1]

    def hold(self, wanted: Sequence[Unit], read: Read) -> None:
        """Makes the window the units `wanted`, reading those that are not kept; raises `BadRequest` for odd shapes."""
        among, self._drawn = set(wanted), None
        self._kept = {rollout: slot for rollout, slot in self._kept.items() if rollout in among}
        missing = [rollout for rollout in wanted if rollout not in self._kept]
        free = sorted(set(range(len(among))) - set(self._kept.values()))
        found = read(missing) if missing else {}
        for rollout, slot in zip(missing, free, strict=False):
            self._write(slot, living(self.spec, found[rollout]))
            self._kept[rollout] = slot
        self._order = np.array([self._kept[rollout] for rollout in wanted], np.int64)
        self.rollouts = np.array([(rollout.round, rollout.rollout) for rollout in wanted], np.int64).reshape(-1, 2)

    def once(self, address: object, draw: Callable[[], Batch]) -> Batch:
        """What `draw` gives, which is not asked again while it is the last address that was asked for."""
        if self._drawn is None or self._drawn[0] != address:
            self._drawn = address, draw()
        return self._drawn[1]

    def forget_unstored(self) -> None:
        """Drops the units that nothing tells from those of another attempt, which may have been played otherwise."""
        self._kept = {rollout: slot for rollout, slot in self._kept.items() if rollout.content}

    def draw(self, rng: np.random.Generator, size: int, length: int = 1) -> Batch:
        """`size` stretches of `length` steps, uniformly; see `at`."""
        return self.at(rng.integers(len(self.rollouts) * self.pieces(length), size=size), length)

    def pieces(self, length: int) -> int:
        """Stretches of `length` steps in a unit; raises `BadRequest` where they do not fill it."""
        steps, num_envs = self._shape
        if steps % length:
            raise BadRequest(f"stretches of {length} steps do not fill a unit of {steps}")
        return steps // length * num_envs

    def at(self, places: NDArray[np.int64], length: int = 1) -> Batch:
        """The stretches with the numbers `places` ``[B]``, counted unit by unit, stretch by stretch, copy by copy, as a
        batch of B copies.

        What follows the last step of each stands as after a cut, unless nothing follows.
        """
        stretch, copy = np.divmod(places, self._shape[1])
        return self.of(stretch * (length * self._shape[1]) + copy, length)

    def of(self, first: NDArray[np.int64], length: int = 1) -> Batch:
        """The stretches that begin at `first` ``[B]``, counted unit by unit, step by step, copy by copy."""
        num_envs = self._shape[1]
        rollout, within = np.divmod(first, self._shape[0] * num_envs)
        begin = self._order[rollout] * (self._shape[0] * num_envs) + within
        return self._batch(begin + num_envs * np.arange(length)[:, None])

    def _batch(self, rows: NDArray[np.int64]) -> Batch:
        """The batch of `rows` ``[L, B]``, numbered over all slots."""
        spec, classes, (steps, num_envs) = self.spec, range(len(self.spec.classes)), self._shape
        last = np.arange(len(rows)) == len(rows) - 1
        after = self._steps.take("after", rows)
        cut = np.argwhere((after >= 0) | last[:, None])
        at, pooled = rows[cut[:, 0], cut[:, 1]], after[cut[:, 0], cut[:, 1]]
        beyond = np.flatnonzero(pooled >= 0)
        pooled = pooled[beyond] + at[beyond] // (steps * num_envs) * self._after.rows
        # Nothing follows a unit's last rows but what stands after a cut; never show what is kept beside the unit.
        following = at + num_envs * (at % (steps * num_envs) < (steps - 1) * num_envs)

        def next_of(name: str) -> Array:
            values = self._steps.take(name, following)
            if len(beyond):
                values[..., beyond, :] = self._after.take(name, pooled)
            return values

        observations = tuple(self._steps.take(f"observation/{c}", rows) for c in classes)
        cut_observations = tuple(next_of(f"observation/{c}") for c in classes)
        own = bool(spec.state_size)
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
            state=self._steps.take("state", rows) if own else side_by_side(spec, observations),
            cut=cut,
            cut_observations=cut_observations,
            cut_masks=tuple(next_of(f"mask/{c}") for c in classes) if spec.masked else None,
            cut_state=next_of("state") if own else side_by_side(spec, cut_observations),
        )

    def _write(self, slot: int, tensors: Tensors) -> None:
        steps, num_envs = shape = tensors["ended"].shape
        if shape != self._shape:
            if self._kept:
                raise BadRequest(f"a unit of {steps} steps in {num_envs} copies, among others of {self._shape}")
            self._shape, self._steps, self._after = shape, Slots(_OF_AGENTS), Slots(_OF_AGENTS)
        cut = tensors["cut"]
        after = np.full(shape, -1, np.int64)
        after[cut[:, 0], cut[:, 1]] = np.arange(len(cut))
        by_row = {name: array for name, array in tensors.items() if not name.startswith("cut")} | {"after": after}
        self._steps.write(slot, {name: _flat(array, name.startswith(_OF_AGENTS)) for name, array in by_row.items()})
        following = {name.removeprefix(_CUT): array for name, array in tensors.items() if name.startswith(_CUT)}
        self._after.write(slot, following)


def _flat(array: Array, of_agents: bool) -> Array:
    """Steps and copies as one axis."""
    axis = int(of_agents)
    return array.reshape(*array.shape[:axis], -1, *array.shape[axis + 2 :])
