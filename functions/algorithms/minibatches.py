"""Minibatches: independent rows, or chunks of sequences for backpropagation through time.

Gradients flow through at most one chunk (the `data_chunk_length` of MAPPO's code, Yu et al., 2022). The hidden state at
the start of each chunk is computed once a round, with the weights that the actors used.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from marless.functions.algorithms.agent_inputs import members
from marless.functions.algorithms.group_inputs import Mask, learned_from, pool_rows, starts
from marless.functions.algorithms.specification import AlgorithmConfig
from marless.functions.algorithms.stage import Context
from marless.functions.nn.layers import Array
from marless.functions.nn.networks import Weights

RowIndices = NDArray[np.int64]


class Places(NamedTuple):
    """The indices `rows` ``[B]`` of a minibatch's rows. For recurrent networks `at` ``[L, M]`` marks the steps that are
    rows."""

    rows: RowIndices
    at: NDArray[np.bool_] | None = None

    def select(self, outputs: Array) -> Array:
        """The outputs ``[B, out]`` of the rows."""
        return outputs if self.at is None else outputs[self.at]

    def scatter(self, grad_output: Array) -> Array:
        """The rows' gradients ``[B, out]`` in the shape of the outputs, 0 at steps that are no rows."""
        if self.at is None:
            return grad_output
        wide = np.zeros((*self.at.shape, grad_output.shape[1]), grad_output.dtype)
        wide[self.at] = grad_output
        return wide


class Minibatch(NamedTuple):
    """A minibatch's rows, see `Places`, and the network inputs for them.

    For feed-forward networks `inputs` is ``[B, F]``. For recurrent ones it is ``[L, M, F]``, `starts` ``[L, M]`` marks
    first steps of episodes, and `first` ``[M, H]`` is the hidden state before them.
    """

    rows: RowIndices
    inputs: Array
    starts: NDArray[np.bool_] | None = None
    first: Array | None = None
    at: NDArray[np.bool_] | None = None

    @property
    def places(self) -> Places:
        """Return the places of the rows among the outputs."""
        return Places(self.rows, self.at)

    def select(self, outputs: Array) -> Array:
        """The outputs ``[B, out]`` of the rows."""
        return self.places.select(outputs)

    def scatter(self, grad_output: Array) -> Array:
        """See `Places.scatter`."""
        return self.places.scatter(grad_output)


class PieceInputs(NamedTuple):
    """The inputs of n pieces, see `Minibatch`: `inputs` ``[n, F]`` or ``[L, n, F]``, `starts` ``[L, n]``, `first` ``[n,
    H]``."""

    inputs: Array
    starts: NDArray[np.bool_] | None = None
    first: Array | None = None


class Samples(Protocol):
    """The pieces that are shuffled into minibatches."""

    def __len__(self) -> int:
        """The number of pieces."""

    def network_inputs(self) -> PieceInputs:
        """The inputs of all pieces, not copied."""

    def places(self, pieces: RowIndices) -> Places:
        """The rows of these pieces."""

    def columns(self, pieces: RowIndices) -> RowIndices:
        """Return the columns of `network_inputs` that these pieces have."""
        return pieces

    def part(self, pieces: RowIndices) -> Minibatch:
        """The minibatch of these pieces."""

    def containing(self, rows: NDArray[np.bool_]) -> RowIndices:
        """The pieces with at least one of the marked rows ``[B]``."""


@dataclass(frozen=True)
class Independent(Samples):
    """Rows `inputs` ``[agents * B, F]`` for a feed-forward network, agent after agent.

    A piece is a step b with the rows i * B + b of all agents i.
    """

    inputs: Array
    agents: int = 1

    def __len__(self) -> int:
        return len(self.inputs) // self.agents

    def network_inputs(self) -> PieceInputs:
        return PieceInputs(self.inputs)

    def places(self, pieces: RowIndices) -> Places:
        return Places((pieces + len(self) * np.arange(self.agents)[:, np.newaxis]).ravel())

    def columns(self, pieces: RowIndices) -> RowIndices:
        return self.places(pieces).rows

    def part(self, pieces: RowIndices) -> Minibatch:
        rows = self.columns(pieces)
        return Minibatch(rows, np.take(self.inputs, rows, axis=0))

    def containing(self, rows: NDArray[np.bool_]) -> RowIndices:
        return np.flatnonzero(rows.reshape(self.agents, -1).any(axis=0))


@dataclass(frozen=True)
class Chunks(Samples):
    """C chunks of L steps: `inputs` ``[L, C, F]``, `starts` ``[L, C]``, and the hidden states before them `first` ``[C,
    H]``. `rows` ``[L, C]`` are indices of rows, or -1 at steps that are no rows."""

    inputs: Array
    starts: NDArray[np.bool_]
    first: Array
    rows: RowIndices

    def __len__(self) -> int:
        return len(self.first)

    def network_inputs(self) -> PieceInputs:
        return PieceInputs(self.inputs, self.starts, self.first)

    def places(self, pieces: RowIndices) -> Places:
        rows = np.take(self.rows, pieces, axis=1)
        at = rows >= 0
        return Places(rows[at], at)

    def part(self, pieces: RowIndices) -> Minibatch:
        inputs, starts = (np.take(array, pieces, axis=1) for array in (self.inputs, self.starts))
        rows, at = self.places(pieces)
        return Minibatch(rows, inputs, starts, self.first[pieces], at)

    def containing(self, rows: NDArray[np.bool_]) -> RowIndices:
        return np.flatnonzero(((self.rows >= 0) & rows[self.rows]).any(axis=0))

    def living(self) -> "Chunks":
        """The chunks with at least one row."""
        live_columns = np.flatnonzero((self.rows >= 0).any(axis=0))
        if len(live_columns) == len(self):
            return self
        inputs, starts, rows = (np.take(array, live_columns, axis=1) for array in (self.inputs, self.starts, self.rows))
        return Chunks(inputs, starts, self.first[live_columns], rows)


class PassOrder(NamedTuple):
    """The order of `pieces` in a pass, and the `bounds` between its minibatches."""

    pieces: RowIndices
    bounds: Sequence[int]


@dataclass(frozen=True)
class Minibatches:
    """The minibatches of passes over samples, to be iterated over once.

    An engine that computes elsewhere may keep the samples there, so that for a minibatch only indices travel.
    """

    samples: Samples
    orders: Iterable[PassOrder]

    def __iter__(self) -> Iterator[Minibatch]:
        """Minibatch by minibatch, in this process's memory."""
        for pieces, bounds in self.orders:
            for start, end in itertools.pairwise(bounds):
                yield self.samples.part(pieces[start:end])


def training_samples(
    context: Context[AlgorithmConfig],
    group: int,
    weights: Weights,
    inputs_of: Callable[[int], Array],
    length: int | None = None,
    mask: Mask | None = None,
) -> Independent | Chunks:
    """The group's training rows for a network with the incoming `weights`.

    ``inputs_of(agent)`` are its inputs ``[T, E, F]``. These are the rows of `learned_from`, or the ones that `mask`
    ``[n, T, E]`` marks. For recurrent networks they are in chunks of `length` steps, by default of a whole rollout.
    """
    if not weights.hidden_size:
        return Independent(pool_rows(context, group, inputs_of, mask))
    agents = members(context.team, group)
    numbers = _numbers(learned_from(context, group) if mask is None else mask)
    steps = len(context.batch.ended)
    inputs = np.concatenate([inputs_of(agent) for agent in agents], axis=1)
    return _chunks(weights, inputs, np.tile(starts(context), (1, len(agents))), numbers, min(length or steps, steps))


def shuffled_minibatches(pieces: Samples, rng: np.random.Generator, epochs: int, count: int) -> Minibatches:
    """`count` minibatches per epoch that together hold every piece once, or fewer if there are fewer pieces."""
    count = min(count, len(pieces))  # an empty minibatch would have a mean of NaN
    bounds: list[int] = np.linspace(0, len(pieces), count + 1).astype(int).tolist()
    return Minibatches(pieces, (PassOrder(rng.permutation(len(pieces)), bounds) for _ in range(epochs)))


def _numbers(mask: Mask) -> RowIndices:
    """The row index of every step of the sequences ``[T, n * E]``, or -1 at steps that are no rows."""
    indices = np.where(mask, mask.cumsum().reshape(mask.shape) - 1, -1)
    return indices.swapaxes(0, 1).reshape(mask.shape[1], -1)


def _chunks(weights: Weights, inputs: Array, starts: NDArray[np.bool_], rows: RowIndices, length: int) -> Chunks:
    """Chunks of sequences ``[T, B, ...]``. The last chunks are padded with steps that are no rows."""
    blocks, begins, numbers = (_blocks(array, length, fill) for array, fill in ((inputs, 0), (starts, 0), (rows, -1)))
    size = weights.hidden_size
    first = np.zeros((*blocks.shape[:1], blocks.shape[2], size), weights.dtype)
    for index in range(len(blocks) - 1):
        first[index + 1] = weights.forward(blocks[index], begins[index], first[index]).hidden[-1]
    return Chunks(_join_blocks(blocks), _join_blocks(begins), first.reshape(-1, size), _join_blocks(numbers)).living()


def _blocks(array: Array, length: int, fill: int) -> Array:
    """``[T, B, ...]`` as ``[K, length, B, ...]``, padded with `fill`."""
    count = -(-len(array) // length)
    if len(array) < count * length:
        whole = np.full((count * length, *array.shape[1:]), fill, array.dtype)
        whole[: len(array)] = array
        array = whole
    return array.reshape(count, length, *array.shape[1:])


def _join_blocks(blocks: Array) -> Array:
    """``[K, length, B, ...]`` as ``[length, K * B, ...]``."""
    return blocks.swapaxes(0, 1).reshape(blocks.shape[1], -1, *blocks.shape[3:])
