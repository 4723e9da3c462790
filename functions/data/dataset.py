"""A dataset: recorded steps in columns as long as a rollout, under the names of a trajectory's tensors.

A rollout of E environments is E columns. Columns are read in a random order, all of them once before any is read again.
`return` ``[N, T, C]`` has the agents' undiscounted returns at the last step of each episode, because an episode may
begin in an earlier column.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marless.functions.randomness import generator

Array = NDArray[Any]
Tensors = Mapping[str, Array]

RETURN = "return"
_AFTER_CUTS = {"cut_state": 0}
_BY_STEP = {"ended": 1, "state": 1}


def columns_at(seed: int, first: int, count: int, columns: int) -> NDArray[np.int64]:
    """Return the columns, of `columns`, at the places `first` to `first` + `count` - 1 of the run's random order."""
    passes, places = np.divmod(np.arange(first, first + count), columns)
    orders = {number: generator(seed, "dataset", number).permutation(columns) for number in np.unique(passes).tolist()}
    return np.array([orders[number][place] for number, place in zip(passes.tolist(), places, strict=True)], np.int64)


def column_count(dataset: Tensors) -> int:
    """C."""
    return int(dataset["ended"].shape[1])


def rollout(dataset: Tensors, columns: NDArray[np.int64]) -> dict[str, Array]:
    """Return the tensors of the rollout with these columns as environments, and `RETURN`."""
    cut = dataset["cut"]
    environment, place = np.nonzero(cut[:, 1] == columns[:, None])
    arrays: dict[str, Array] = {"cut": np.stack([cut[place, 0], environment], axis=1)}
    for name, array in dataset.items():
        if name.startswith("cut_"):
            arrays[name] = np.take(array, place, axis=_AFTER_CUTS.get(name, 1))
        elif name != "cut":
            arrays[name] = np.take(array, columns, axis=_BY_STEP.get(name, 2))
    return arrays
