"""Calls of the kernels: the passes of a perceptron, and its training."""

import ctypes
from collections.abc import Sequence
from ctypes import byref
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from marless.functions.native.interface import BLOCK, AdamFields, EntitiesFields, PassesFields, TokenFields
from marless.functions.native.kernels import RowIndices, address, kernels, require_indices, start_of
from marless.functions.nn.entities.attention import EntityAttention
from marless.functions.nn.entities.forward_pass import HEADS
from marless.functions.nn.layers import Array, LayerNorm, Relu, Tanh
from marless.functions.nn.native.losses import NativeLoss
from marless.functions.nn.shape import Network
from marless.functions.setting_limits import MOST_KERNEL_LAYERS

# `enum Activation` of kernels.h.
_ACTIVATIONS = {Tanh: 0, Relu: 1}
# Rows that pass through all layers together: as many as stay in the nearest cache with a layer's weights.
ROWS_AT_ONCE = 96
# The bytes of a cache line. The arrays of a network begin at one.
_ALIGNMENT = 64
# Of rows, and of a layer's units: sums of products of two of them stay far below 2^63.
_MOST_NUMBERS = 2**27
# The tokens of a row. They must be fewer than SPAN of products.h.
_MOST_TOKENS = 64
# An optimiser has taken fewer steps, and takes one more without an overflow.
_MOST_STEPS = 2**62


class Room(NamedTuple):
    """The C structures of networks side by side, their working `memory`, and the description that they read."""

    fields: ctypes.Array[ctypes.c_char]
    memory: Array
    description: "Description | None"


class Description(NamedTuple):
    """The C structure of entities, and the arrays that its `fields` point to."""

    fields: EntitiesFields
    tokens: ctypes.Array[TokenFields]
    columns: NDArray[np.int64]
    absent: NDArray[np.float32]

    @classmethod
    def of(cls, front: type[EntityAttention], width: int) -> "Description":
        """Return the description for tokens of this width."""
        entities = front.entities
        start, absent = len(entities.own), list[float]()
        tokens = [TokenFields(0, start, 0, start, -1)]
        columns = [*entities.own, *(column for block in entities.blocks for row in block.columns for column in row)]
        weights, bias = start + 1, start + 1 + sum(block.features for block in entities.blocks)
        for block in entities.blocks:
            for _ in block.columns:
                tokens.append(TokenFields(start, block.features, weights, bias, len(absent) if block.absent else -1))
                start += block.features
            absent += block.absent
            weights, bias = weights + block.features, bias + 1
        arrays = (TokenFields * len(tokens))(*tokens), np.array(columns, np.int64), np.array(absent, np.float32)
        pointers, places = (ctypes.addressof(arrays[0]), *(array.ctypes.data for array in arrays[1:])), front.places()
        sizes = len(columns), len(tokens), width, HEADS, bias, min(places, default=0), len(places)
        return cls(EntitiesFields(*sizes, *pointers), *arrays)


class NativeOptimiser:
    """Adam on the flat vector `parameters`, see `marless.functions.nn.adam.Adam`. `step` steps along `gradient`."""

    def __init__(self, parameters: Array, first: Array, second: Array, steps: int, *settings: float) -> None:
        """`settings` are the step size, epsilon and the cap on the gradient's norm."""
        if not 0 <= steps < _MOST_STEPS:
            raise ValueError(f"an optimiser that has taken {steps} steps")
        self.parameters, self.first, self.second = parameters, first, second
        self.gradient = np.zeros_like(parameters)
        vectors = (parameters, first, second, self.gradient)
        places = [address(vector, np.float32, (parameters.size,), is_written=True) for vector in vectors]
        self.fields = AdamFields(*places, len(parameters), steps, *settings)

    @property
    def steps(self) -> int:
        """The steps that were taken."""
        return int(self.fields.steps)

    def step(self, gradient: Array) -> float:
        """Applies one update and returns the gradient's norm before clipping."""
        if gradient.shape != self.gradient.shape:
            raise ValueError(f"a gradient {gradient.shape} of {self.parameters.size} parameters")
        if gradient is not self.gradient:
            self.gradient[...] = gradient
        return float(kernels().network_step(byref(self.fields)))


class Training(NamedTuple):
    """The results of passes over n rows of several minibatches: the `metrics` ``[metrics, n]`` of the rows, in their
    order. For each minibatch, `losses` has the mean loss and `norms` the gradient's norm before clipping."""

    metrics: Array
    losses: NDArray[np.float64]
    norms: NDArray[np.float64]


class NativePerceptron:
    """The passes of a feed-forward network, one that the kernels cover, see `covers`.

    If it `trains`, it passes all rows forward together and keeps the caches for `backward`. Otherwise it computes only
    outputs, of ROWS_AT_ONCE rows at a time, and raises `ValueError` for other calls.
    """

    def __init__(self, network: Network, trains: bool = True) -> None:
        self._network, self._trains, self._most_rows = network, trains, -1
        self._perceptron_parameters = perceptron_parameters(network)
        self._room: Room

    def forward(self, parameters: Array, inputs: Array) -> Array:
        """Outputs ``[B, out]`` of rows ``[B, in]``."""
        rows = len(inputs)
        places = (
            address(parameters, np.float32, (self._perceptron_parameters,)),
            address(inputs, np.float32, (rows, self._network.sizes[0])),
        )
        self._make_room(rows if self._trains else min(rows, ROWS_AT_ONCE))
        outputs = np.empty((rows, self._network.outputs), np.float32)
        kernels().network_forward(self._room.fields, *places, rows, start_of(outputs))
        return outputs

    def backward(self, grad_output: Array, gradient: Array) -> None:
        """Writes d loss / d parameters, given d loss / d outputs ``[B, out]`` of the latest `forward`."""
        rows = len(grad_output)
        if not self._trains or rows > self._most_rows:
            raise ValueError(f"{rows} rows are more than the latest forward pass has kept for one backwards")
        kernels().network_backward(
            self._room.fields,
            address(grad_output, np.float32, (rows, self._network.outputs)),
            rows,
            address(gradient, np.float32, (self._perceptron_parameters,), is_written=True),
        )

    def train(
        self, optimiser: NativeOptimiser, inputs: Array, order: RowIndices, bounds: Sequence[int], loss: NativeLoss
    ) -> Training:
        """One step of the optimiser for each minibatch: the rows of `inputs` ``[n, in]`` with the indices `order`
        between two successive `bounds`."""
        if not self._trains:
            raise ValueError("this network computes outputs alone; make one that trains")
        if optimiser.parameters.size != self._network.parameters:
            raise ValueError(f"an optimiser of {optimiser.parameters.size} parameters, not {self._network.parameters}")
        edges = np.array(bounds, np.int64)
        if not len(order) or edges[0] != 0 or edges[-1] != len(order) or (np.diff(edges) < 1).any():
            raise ValueError(f"{bounds} do not part {len(order)} rows")
        self._make_room(int(np.diff(edges).max()))
        require_indices(order, len(inputs))
        minibatches = len(edges) - 1
        training = Training(
            np.empty((loss.metrics, len(order)), np.float32), np.empty(minibatches), np.empty(minibatches)
        )
        passes = PassesFields(
            address(inputs, np.float32, (len(inputs), self._network.sizes[0])),
            address(order, np.int64, (len(order),)),
            start_of(edges),
            minibatches,
            *map(start_of, training),
        )
        policy, values = loss.fields(len(inputs), self._network.outputs)
        kernels().network_train(self._room.fields, byref(optimiser.fields), byref(passes), policy, values)
        return training

    def _make_room(self, rows: int) -> None:
        """Makes room for passes over so many rows. The content of the smaller room is lost."""
        if rows > self._most_rows:
            self._room, self._most_rows = room_for(self._network, rows, 1, self._trains), rows


def room_for(network: Network, most_rows: int, count: int, trains: bool) -> Room:
    """So many networks of one shape, for passes over `most_rows` rows, forward ones alone unless `trains`.

    Raises `ValueError` for networks that the kernels do not cover, and for rows beyond any memory.
    """
    if not _covers(network) or max(*network.sizes, most_rows) > _MOST_NUMBERS:
        raise ValueError(f"{most_rows} rows of {network}: the kernels do not compute that")
    size, widths = kernels().network_bytes(), np.array(network.sizes, np.int64)
    fields = ctypes.create_string_buffer(count * size)
    places = [byref(fields, number * size) for number in range(count)]
    description = _description(network)
    entities = description and byref(description.fields)
    shape = len(widths) - 1, widths.ctypes.data, _ACTIVATIONS[network.activation], network.norm is not None, entities
    numbers = max(kernels().network_numbers(place, *shape, most_rows, trains) for place in places)
    if numbers < 0:
        raise ValueError(f"the kernels do not compute {network}")
    memory = np.zeros(count * numbers + _ALIGNMENT, np.float32)
    offset = -memory.ctypes.data % _ALIGNMENT // memory.itemsize
    for number, place in enumerate(places):
        kernels().network_place(place, memory[offset + number * numbers :].ctypes.data)
    return Room(fields, memory, description)


def perceptron_parameters(network: Network) -> int:
    """Return how many of the network's parameters are its layers'. They come first, and a `log_std` does not count."""
    return network.parameters - network.gaussian * network.sizes[-1]


def covers(network: Network, parameters: Array) -> bool:
    """Return True if the kernels compute the passes of the network with these parameters."""
    return parameters.dtype == np.float32 and _covers(network)


def _covers(network: Network) -> bool:
    return (
        not network.recurrent
        and 1 <= len(network.sizes) - 1 <= MOST_KERNEL_LAYERS
        and min(network.sizes) >= 1
        and network.activation in _ACTIVATIONS
        and network.norm in (None, LayerNorm)
        and _covers_front(network)
    )


def _description(network: Network) -> Description | None:
    front = network.front
    if front is None or not issubclass(front, EntityAttention):
        return None
    return Description.of(front, network.sizes[1] // 2)


def _covers_front(network: Network) -> bool:
    front, sizes = network.front, network.sizes
    if front is None or not issubclass(front, EntityAttention):
        return front is None
    tokens = 1 + sum(len(block.columns) for block in front.entities.blocks)
    fits = len(sizes) > 2 and sizes[1] % (2 * BLOCK) == 0 and tokens <= _MOST_TOKENS
    fits &= network.outputs >= len(front.places())
    return fits and not front.entities.fault(sizes[0])
