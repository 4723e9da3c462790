"""Networks in numpy and their gradients in closed form: feed-forward and recurrent ones.

For networks of this size an automatic-differentiation framework spends most of its time on bookkeeping. The tests check
the closed form against torch.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from marless.functions.nn import gru
from marless.functions.nn.entities.attention import ENTITIES, EntityAttention, attention_over, decode, encode
from marless.functions.nn.gru import Flags, Unrolled
from marless.functions.nn.layers import ACTIVATIONS, NORMS, Array, Gru, Layer, Linear, orthogonal
from marless.functions.nn.shape import CLIPPED, Kind, Network, layer_kinds, stored_order, tensor_names

# The log of 0.6, the initial standard deviation of Gaussian policies in OpenAI's "Spinning Up in Deep RL".
FIRST_LOG_STD = -0.5
DrawsOrthogonal = Callable[[np.random.Generator, int, int], Array]
"""Draws a matrix as `layers.orthogonal` does."""
# The names of the empty tensors that a network may have.
_MARKS = (*(kind.mark for kind in ACTIVATIONS if kind.mark), CLIPPED)


class LayeredTrace(NamedTuple):
    """A forward pass: `outputs` ``[..., out]``, each layer's cache for its gradient, and the last layer's result."""

    outputs: Array
    caches: list[Any]
    unfinished: Array

    @property
    def hidden(self) -> Array:
        """The hidden states after every step ``[T, B, H]``. Raises `ValueError` for a feed-forward network."""
        return self._gru_trace.hidden

    @property
    def before(self) -> Array:
        """The hidden states before every step ``[T, B, H]``. Raises `ValueError` for a feed-forward network."""
        return self._gru_trace.before

    @property
    def _gru_trace(self) -> Unrolled:
        for saved in self.caches:
            if isinstance(saved, Unrolled):
                return saved
        raise ValueError("a network without a GRU has no hidden state")


class LayeredWeights(NamedTuple):
    """The layers of a network, their parameters views into a flat vector.

    Only Gaussian policies have a `log_std` ``[out]``. Their samples are squashed by tanh, or clipped if
    `clips_actions`. `marks` are the names of the empty tensors that tell in storage the kind of activation, and that
    samples are clipped.
    """

    layers: Sequence[Layer]
    log_std: Array | None
    marks: tuple[str, ...] = ()

    @property
    def front(self) -> type[EntityAttention] | None:
        """The kind of the first layer if that is no linear one."""
        kind = type(self.layers[0])
        return kind if issubclass(kind, EntityAttention) else None

    @property
    def clips_actions(self) -> bool:
        """Return True if sampled continuous actions are clipped."""
        return CLIPPED in self.marks

    @property
    def hidden_size(self) -> int:
        """The width of the hidden state, 0 for feed-forward networks."""
        return next((layer.width(0) for layer in self.layers if isinstance(layer, Gru)), 0)

    @property
    def inputs(self) -> int:
        """The width of the inputs."""
        return self.layers[0].inputs

    @property
    def outputs(self) -> int:
        """The width of the outputs."""
        return self.layers[-1].width(0) - sum(layer.surplus(layer.width(0)) for layer in self.layers)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of the layers."""
        return tuple(type(layer) for layer in self.layers)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision."""
        return self.layers[-1].arrays[0].dtype

    @property
    def network(self) -> "Network":
        """The shape of the network."""
        widths = self.inputs, *(layer.width(0) for layer in self.layers if layer.entry)
        norm = next((kind for kind in self.kinds if kind.is_norm), None)
        gaussian, activation = self.log_std is not None, _activation(self.marks)
        return Network(widths, self.hidden_size > 0, gaussian, activation, self.clips_actions, norm, self.front)

    def forward(
        self, inputs: Array, starts: Flags | None = None, first: Array | None = None, burn_in: int = 0
    ) -> LayeredTrace:
        """Maps rows ``[rows, in]`` to ``[rows, out]``, or with a GRU sequences ``[T, B, in]`` to ``[T, B, out]``.

        See `gru.forward` for `starts` ``[T, B]``, `first` ``[B, H]`` and `burn_in`.
        """
        caches: list[Any] = []
        sequences = inputs.shape[:-1]
        values = inputs.reshape(-1, inputs.shape[-1]) if self.hidden_size else inputs
        for layer in self.layers:
            if isinstance(layer, Gru):
                cache = gru.forward(layer, values.reshape(*sequences, values.shape[-1]), starts, first, burn_in)
                values = cache.hidden.reshape(-1, cache.hidden.shape[-1])
            else:
                values, cache = layer.forward(values)
            caches.append(cache)
        outputs = values if self.front is None else caches[0].with_scores(values)
        return LayeredTrace(outputs.reshape(*sequences, outputs.shape[-1]), caches, values)

    def backward(self, trace: LayeredTrace, grad_output: Array, gradient: "LayeredWeights | None") -> None:
        """Writes d loss / d parameters into `gradient`, given `grad_output` = d loss / d outputs, shaped like them.

        It does not write the gradient of `log_std`, which comes from the loss.
        """
        self._backward(trace, grad_output, gradient, to_inputs=False)

    def input_gradient(self, inputs: Array, grad_output: Array, first: Array | None = None) -> Array:
        """d loss / d inputs, shaped like them, from d loss / d outputs. See `forward` for `inputs` and `first`."""
        rows = self._backward(self.forward(inputs, first=first), grad_output, None, to_inputs=True)
        return rows.reshape(inputs.shape)

    def _backward(
        self, trace: LayeredTrace, grad_output: Array, gradient: "LayeredWeights | None", to_inputs: bool
    ) -> Array:
        grad_output = grad_output.reshape(-1, grad_output.shape[-1])
        by_named = grad_output[:, :0]
        if self.front is not None:
            grad_output, by_named = trace.caches[0].slopes(trace.unfinished, grad_output)
        for index in range(len(self.layers) - 1, -1, -1):
            into = None if gradient is None else gradient.layers[index]
            layer, cache, descends = self.layers[index], trace.caches[index], to_inputs or index > 0
            if isinstance(layer, Gru):
                grad_output = gru.backward_rows(layer, cache, grad_output, cast(Gru | None, into), descends)
            else:
                if not index and by_named.size:
                    grad_output = np.concatenate([grad_output, by_named], axis=1)
                grad_output = layer.backward(cache, grad_output, into, descends)
        return grad_output

    def to_tensors(self) -> dict[str, Array]:
        """The tensors by their names in storage, in the order of the flat vector, without copies."""
        names = tensor_names(self.kinds)
        tensors: dict[str, Array] = {}
        for index in stored_order(self.kinds):
            tensors.update(zip(names[index], self.layers[index].arrays, strict=True))
        tensors |= {mark: np.zeros(0, self.dtype) for mark in self.marks}
        if self.front is not None:
            tensors[ENTITIES] = encode(self.front.entities)
        return tensors if self.log_std is None else {**tensors, "log_std": self.log_std}


class FlatPerceptron:
    """The passes of a feed-forward network with flat parameters, see
    `marless.functions.algorithms.engine.Perceptron`."""

    def __init__(self, network: Network, parameters: Array) -> None:
        self._network, self._weights = network, views(network, parameters)

    def forward(self, inputs: Array) -> LayeredTrace:
        return self._weights.forward(inputs)

    def backward(self, trace: LayeredTrace, grad_output: Array, gradient: Array) -> None:
        self._weights.backward(trace, grad_output, views(self._network, gradient))


def views(network: Network, flat: Array) -> LayeredWeights:
    """The weights of a network as views into its flat vector ``[parameters]``."""
    return LayeredWeights(network.layers(flat), flat[-network.sizes[-1] :] if network.gaussian else None, network.marks)


def initialise(
    network: Network, rng: np.random.Generator, output_gain: float, drawn_by: DrawsOrthogonal = orthogonal
) -> NDArray[np.float32]:
    """A flat vector of orthogonal weights, `drawn_by` that function, and zero biases. Norms change no scale yet.

    Gain √2 on hidden layers and `output_gain` on the last, the practice of PPO implementations (Huang et al., "The 37
    Implementation Details of PPO", 2022). Orthogonal matrices: Saxe et al., 2014.
    """
    flat = np.zeros(network.parameters, np.float32)
    weights = views(network, flat)
    for layer in weights.layers[:-1]:
        layer.initialise(partial(drawn_by, rng), np.sqrt(2.0))
    weights.layers[-1].initialise(partial(drawn_by, rng), output_gain)
    if weights.log_std is not None:
        weights.log_std[...] = FIRST_LOG_STD
    return flat


def to_tensors(network: Network, flat: Array, prefix: str) -> dict[str, Array]:
    """The network by name: ``<prefix>/w0 [in, out]``, ``<prefix>/b0 [out]``, ... See `LayeredWeights.to_tensors`."""
    return {f"{prefix}/{name}": array for name, array in views(network, flat).to_tensors().items()}


def from_tensors(tensors: Mapping[str, NDArray[Any]], prefix: str) -> tuple[Network, Array]:
    """The network and its flat vector (a copy) from `to_tensors`. Raises like `weights_of`."""
    start = f"{prefix}/"
    arrays = {name.removeprefix(start): array for name, array in tensors.items() if name.startswith(start)}
    if f"{Linear.names[0]}0" not in arrays:
        raise KeyError(f"no network named {prefix}")
    entities = arrays[ENTITIES].tobytes() if ENTITIES in arrays else b""
    network, names = _described(tuple((name, array.shape) for name, array in arrays.items()), entities)
    return network, np.concatenate([arrays[name].ravel() for name in names])


@cache
def _described(shapes: tuple[tuple[str, tuple[int, ...]], ...], entities: bytes) -> tuple[Network, tuple[str, ...]]:
    """The network of named tensors with these shapes, and the names of its numbers in the order of the flat vector."""
    tensors = {f"/{name}": np.broadcast_to(np.float32(0), shape) for name, shape in shapes}
    if entities:
        tensors[f"/{ENTITIES}"] = np.frombuffer(entities, np.uint8)
    weights = weights_of(tensors, "")
    return weights.network, tuple(name for name in weights.to_tensors() if name != ENTITIES)


def weights_of(tensors: Mapping[str, NDArray[Any]], prefix: str) -> LayeredWeights:
    """The named tensors of `to_tensors`, not copied.

    Raises `KeyError` if the network is missing, and `ValueError` if its norms do not fit its hidden layers.
    """
    front = attention_over(decode(tensors[f"{prefix}/{ENTITIES}"])) if f"{prefix}/{ENTITIES}" in tensors else None
    linear = _count(tensors, f"{prefix}/{Linear.names[0]}")
    if not linear:
        raise KeyError(f"no network named {prefix}")
    recurrent = f"{prefix}/{Gru.names[0]}" in tensors
    hidden = linear - 1 + recurrent + (front is not None)
    norm = next((kind for kind in NORMS if f"{prefix}/{kind.names[0]}0" in tensors), None)
    if norm is not None and _count(tensors, f"{prefix}/{norm.names[0]}") != hidden:
        raise ValueError("its norms do not fit its hidden layers")
    marks = tuple(mark for mark in _MARKS if f"{prefix}/{mark}" in tensors)
    kinds = layer_kinds(hidden, recurrent, _activation(marks), norm, front)
    layers = [
        kind(*[tensors[f"{prefix}/{name}"] for name in names])
        for kind, names in zip(kinds, tensor_names(kinds), strict=True)
    ]
    return LayeredWeights(layers, tensors.get(f"{prefix}/log_std"), marks)


def _activation(marks: Sequence[str]) -> Kind:
    return next((kind for kind in ACTIVATIONS if kind.mark in marks), ACTIVATIONS[0])


def _count(tensors: Mapping[str, NDArray[Any]], name: str) -> int:
    number = 0
    while f"{name}{number}" in tensors:
        number += 1
    return number
