"""Minibatches: rows that stand alone, or stretches of sequences that a network with memory is taken back through.

Gradients go back at most one stretch, as in the code of MAPPO (Yu et al., 2022, `data_chunk_length`). What a network
remembers at the beginning of each is worked out once a round, with the weights that the actors had.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from functions.algorithms.base import AlgorithmConfig, Context
from functions.algorithms.rows import Mask, members, pooled, starts
from functions.nn import recurrent
from functions.nn.mlp import Array
from functions.nn.recurrent import Weights

Rows = NDArray[np.int64]


class Minibatch(NamedTuple):
    """A minibatch: the numbers `rows` ``[B]`` of its rows, and what the network is shown to give their outputs.

    For a network with memory `inputs` is ``[L, M, F]``, `starts` ``[L, M]``, `first` ``[M, H]``, and `at` ``[L, M]``
    says where the rows stand; else `inputs` is ``[B, F]``.
    """

    rows: Rows
    inputs: Array
    starts: NDArray[np.bool_] | None = None
    first: Array | None = None
    at: NDArray[np.bool_] | None = None

    def select(self, outputs: Array) -> Array:
        """The outputs ``[B, out]`` of the rows."""
        return outputs if self.at is None else outputs[self.at]

    def scatter(self, grad_output: Array) -> Array:
        """d loss / d outputs in the outputs' shape, from that of the rows ``[B, out]``: 0 for what is no row."""
        if self.at is None:
            return grad_output
        wide = np.zeros((*self.at.shape, grad_output.shape[1]), grad_output.dtype)
        wide[self.at] = grad_output
        return wide


class Samples(Protocol):
    """What minibatches are made of: pieces that can be shuffled."""

    def __len__(self) -> int:
        """How many pieces there are."""

    def part(self, pieces: Rows) -> Minibatch:
        """The minibatch of some pieces."""

    def containing(self, rows: NDArray[np.bool_]) -> Rows:
        """The pieces that have some of the rows that are marked ``[B]``."""


@dataclass(frozen=True)
class Independent:
    """Rows `inputs` ``[B, F]`` that a network without memory sees one by one."""

    inputs: Array

    def __len__(self) -> int:
        """Rows."""
        return len(self.inputs)

    def part(self, pieces: Rows) -> Minibatch:
        """See `Samples`."""
        return Minibatch(pieces, np.take(self.inputs, pieces, axis=0))

    def containing(self, rows: NDArray[np.bool_]) -> Rows:
        """See `Samples`."""
        return np.flatnonzero(rows)


@dataclass(frozen=True)
class Chunks:
    """C stretches of L steps: `inputs` ``[L, C, F]``, `starts` ``[L, C]``, what is remembered before them `first`
    ``[C, H]``, and the numbers of the `rows` ``[L, C]``, -1 where a step is none."""

    inputs: Array
    starts: NDArray[np.bool_]
    first: Array
    rows: Rows

    def __len__(self) -> int:
        """Stretches."""
        return len(self.first)

    def part(self, pieces: Rows) -> Minibatch:
        """See `Samples`."""
        inputs, starts, rows = (np.take(array, pieces, axis=1) for array in (self.inputs, self.starts, self.rows))
        at = rows >= 0
        return Minibatch(rows[at], inputs, starts, self.first[pieces], at)

    def containing(self, rows: NDArray[np.bool_]) -> Rows:
        """See `Samples`."""
        return np.flatnonzero(((self.rows >= 0) & rows[self.rows]).any(axis=0))

    def living(self) -> "Chunks":
        """Without stretches that have no row."""
        kept = np.flatnonzero((self.rows >= 0).any(axis=0))
        if len(kept) == len(self):
            return self
        inputs, starts, rows = (np.take(array, kept, axis=1) for array in (self.inputs, self.starts, self.rows))
        return Chunks(inputs, starts, self.first[kept], rows)


def training_samples(
    context: Context[AlgorithmConfig],
    group: int,
    weights: Weights,
    of: Callable[[int], Array],
    length: int | None = None,
    mask: Mask | None = None,
) -> Independent | Chunks:
    """The group's rows for the network with these incoming `weights`, which sees ``of(agent)`` ``[T, E, F]``.

    Living rows, or those that `mask` ``[n, T, E]`` marks. With memory they come in stretches of `length` steps, or of a
    whole unit.
    """
    if weights.cell is None:
        return Independent(pooled(context, group, of, mask))
    agents = members(context.team, group)
    numbers = _numbers(context.batch.alive[agents] if mask is None else mask)
    steps = len(context.batch.ended)
    inputs = np.concatenate([of(agent) for agent in agents], axis=1)
    begins = np.tile(starts(context), (1, len(agents)))
    return _cut_up(weights, inputs, begins, numbers, min(length or steps, steps))


def shuffled(pieces: Samples, rng: np.random.Generator, epochs: int, count: int) -> Iterator[Minibatch]:
    """`count` minibatches in each of the `epochs`, every piece in one of them; fewer where there are fewer pieces."""
    count = min(count, len(pieces))  # none is empty: the mean over no rows is not a number
    for _ in range(epochs):
        order = rng.permutation(len(pieces))
        bounds = np.linspace(0, len(order), count + 1).astype(int)
        for start, end in itertools.pairwise(bounds):
            yield pieces.part(order[start:end])


def _numbers(mask: Mask) -> Rows:
    """The numbers of the rows that are taken, where they stand in the sequences ``[T, n * E]``; -1 elsewhere."""
    found = np.where(mask, mask.cumsum().reshape(mask.shape) - 1, -1)
    return found.swapaxes(0, 1).reshape(mask.shape[1], -1)


def _cut_up(weights: Weights, inputs: Array, starts: NDArray[np.bool_], rows: Rows, length: int) -> Chunks:
    """Stretches of sequences ``[T, B, ...]``; the last ones are filled up with steps that are no rows."""
    blocks, begins, numbers = (_blocks(array, length, fill) for array, fill in ((inputs, 0), (starts, 0), (rows, -1)))
    last = weights.above[0][0]
    first = np.zeros((*blocks.shape[:1], blocks.shape[2], last.shape[0]), last.dtype)
    for index in range(len(blocks) - 1):
        first[index + 1] = recurrent.forward(weights, blocks[index], begins[index], first[index]).hidden[-1]
    return Chunks(_beside(blocks), _beside(begins), first.reshape(-1, last.shape[0]), _beside(numbers)).living()


def _blocks(array: Array, length: int, fill: int) -> Array:
    """``[T, B, ...]`` as ``[K, length, B, ...]``, filled up."""
    count = -(-len(array) // length)
    if len(array) < count * length:
        whole = np.full((count * length, *array.shape[1:]), fill, array.dtype)
        whole[: len(array)] = array
        array = whole
    return array.reshape(count, length, *array.shape[1:])


def _beside(blocks: Array) -> Array:
    """``[K, length, B, ...]`` as ``[length, K * B, ...]``."""
    return blocks.swapaxes(0, 1).reshape(blocks.shape[1], -1, *blocks.shape[3:])
