"""Named arrays in equal slots, laid out so that rows of many slots are taken at once."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Slots:
    """Arrays ``[slots, rows, ...]``, or ``[agents, slots, rows, ...]`` for the names that `of_agents` begin with."""

    def __init__(self, of_agents: tuple[str, ...]) -> None:
        self._of_agents = of_agents
        self._arrays: dict[str, Array] = {}
        self._size = (0, 0)

    @property
    def rows(self) -> int:
        """Rows of a slot."""
        return self._size[1]

    def write(self, slot: int, tensors: Mapping[str, Array]) -> None:
        """Puts arrays ``[rows, ...]`` (``[agents, rows, ...]``) first into a slot, making room where there is none."""
        rows = max(array.shape[self._axis(name)] for name, array in tensors.items())
        slots = self._size[0] if slot < self._size[0] else max(slot + 1, self._size[0] * 5 // 4)
        self._size = (slots, max(rows, self._size[1]))
        for name, array in tensors.items():
            axis = self._axis(name)
            shape = (*array.shape[:axis], *self._size, *array.shape[axis + 1 :])
            home = self._arrays.get(name)
            if home is None or home.shape != shape:
                home = self._arrays[name] = _grown(home, shape, array.dtype)
            own = home[:, slot] if axis else home[slot]
            own[(slice(None),) * axis + (slice(array.shape[axis]),)] = array

    def take(self, name: str, rows: NDArray[np.integer]) -> Array:
        """Rows by number over all slots, ``[*rows.shape, ...]`` (``[agents, *rows.shape, ...]``); beyond the last is
        the last."""
        axis, home = self._axis(name), self._arrays[name]
        flat = home.reshape(*home.shape[:axis], -1, *home.shape[axis + 2 :])
        return np.take(flat, rows, axis=axis, mode="clip")

    def _axis(self, name: str) -> int:
        return int(name.startswith(self._of_agents))


def _grown(home: Array | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array of that shape with what `home` holds at its beginning."""
    grown = np.zeros(shape, dtype)
    if home is not None:
        grown[tuple(slice(size) for size in home.shape)] = home
    return grown
