"""Feed-forward and recurrent networks: a perceptron, or one whose last hidden layer is a gated recurrent unit (GRU).

One flat vector holds all parameters in forward order. A feed-forward network gives the same bytes as
`functions.nn.mlp`. With layer norms, a hidden layer is normalised before its activation, and a GRU's output, not its
hidden state, before the last layer, as in the code of MAPPO (Yu et al., 2022, `RNNLayer`); their parameters follow the
layers. A Gaussian policy ends with its log standard deviations, parameters that do not depend on the input.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from functions.nn import gru
from functions.nn import mlp as networks
from functions.nn.layer_norm import Norm, NormPass
from functions.nn.mlp import RECTIFIED, Array, Layer, layers_of
from functions.nn.shape import Mlp, Network

# The name of the empty tensor that marks policies whose continuous actions are clipped.
CLIPPED = "clip"
# The names of the parameters of a hidden layer's norm, before its number.
GAIN, SHIFT = "gain", "shift"
# The initial log of Gaussian policies' standard deviation 0.6, as in OpenAI's "Spinning Up in Deep RL".
FIRST_LOG_STD = -0.5


class Weights(NamedTuple):
    """Views into a flat vector: the layers `below` the cell, the `cell`, the layers `above` it (the last linear).

    A feed-forward network has only layers above. Only Gaussian policies have a `log_std` ``[out]``. Hidden layers are
    tanh, or ReLU if `rectified`; sampled continuous actions are squashed by tanh, or clipped if `clipped`. In storage
    an empty tensor marks each of these two flags. `norms` has one for each hidden layer, the cell last, or none.
    """

    below: list[Layer]
    cell: gru.Weights | None
    above: list[Layer]
    log_std: Array | None
    rectified: bool = False
    clipped: bool = False
    norms: Sequence[Norm] = ()

    @property
    def hidden_size(self) -> int:
        """The width of the hidden state, 0 for feed-forward networks."""
        return 0 if self.cell is None else self.cell.width

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision."""
        return self.above[0][0].dtype

    def forward(
        self, inputs: Array, starts: gru.Flags | None = None, first: Array | None = None, burn_in: int = 0
    ) -> "Trace":
        """Maps rows ``[rows, in]`` to ``[rows, out]``, or with a cell sequences ``[T, B, in]`` to ``[T, B, out]``.

        `starts` ``[T, B]``, `first` ``[B, H]`` and `burn_in` are as in `gru.forward`.
        """
        passes = [NormPass(norm) for norm in self.norms]
        norms = [norm.forward for norm in passes]
        if self.cell is None:
            above = networks.forward(self.above, inputs, self.rectified, norms)
            return Trace(above[-1], [], None, above, passes)
        steps, rows, width = inputs.shape
        below = networks.hidden(self.below, inputs.reshape(steps * rows, width), self.rectified, norms)
        unrolled = gru.forward(self.cell, _timed(below[-1], steps), starts, first, burn_in)
        outputs = unrolled.hidden.reshape(steps * rows, self.cell.width)
        if norms:
            outputs = outputs.copy()  # the hidden state stays as it is
            norms[-1](outputs)
        above = networks.forward(self.above, outputs)
        return Trace(_timed(above[-1], steps), below, unrolled, above, passes)

    def backward(self, trace: "Trace", grad_output: Array, gradient: "Weights | None") -> None:
        """Writes d loss / d parameters into `gradient`, given `grad_output` = d loss / d outputs, shaped like them.

        It does not write the gradient of `log_std`, which comes from the loss.
        """
        _backward(self, trace, grad_output, gradient)

    def input_gradient(self, inputs: Array, grad_output: Array, first: Array | None = None) -> Array:
        """d loss / d inputs, shaped like them, from d loss / d outputs; `inputs` and `first` are as in `forward`."""
        grad_first, matrix = _backward(self, self.forward(inputs, first=first), grad_output, None)
        grad_inputs = grad_first @ matrix.T
        return grad_inputs if self.cell is None else _timed(grad_inputs, len(grad_output))

    def named(self) -> dict[str, Array]:
        """The tensors by their names in storage, in forward order."""
        tensors: dict[str, Array] = {}
        for index, (weight, bias) in enumerate(self.below):
            tensors |= {f"w{index}": weight, f"b{index}": bias}
        if self.cell is not None:
            tensors |= {f"gru_{name}": array for name, array in self.cell._asdict().items()}
        for index, (weight, bias) in enumerate(self.above, len(self.below)):
            tensors |= {f"w{index}": weight, f"b{index}": bias}
        for index, norm in enumerate(self.norms):
            tensors |= {f"{GAIN}{index}": norm.gain, f"{SHIFT}{index}": norm.shift}
        if self.rectified:
            tensors[RECTIFIED] = np.zeros(0, self.above[0][0].dtype)
        if self.clipped:
            tensors[CLIPPED] = np.zeros(0, self.above[0][0].dtype)
        return tensors if self.log_std is None else {**tensors, "log_std": self.log_std}


def views(network: Network, flat: Array) -> Weights:
    """The weights of a network as views into its flat vector ``[parameters]``."""
    below, cell, above = network.below, network.cell, network.above
    end = below + cell
    rest = flat[end + above :]
    log_std = rest[network.norms :] if network.gaussian else None
    marks = log_std, network.rectified, network.clipped, _norm_views(network, rest)
    if not network.recurrent:
        return Weights([], None, Mlp(network.sizes).layers(flat[:above]), *marks)
    under, over = Mlp(network.sizes[:-2]).layers(flat[:below]), Mlp(network.sizes[-2:]).layers(flat[end:])
    return Weights(under, _cell_views(network, flat[below:end]), over, *marks)


def _norm_views(network: Network, flat: Array) -> list[Norm]:
    """Views of the flat parameters that follow the layers."""
    if not network.layer_norm:
        return []
    ends = accumulate((2 * width for width in network.sizes[1:-1]), initial=0)
    return [Norm(*flat[start:end].reshape(2, -1)) for start, end in pairwise(ends)]


def _cell_views(network: Network, flat: Array) -> gru.Weights:
    inputs, width = network.sizes[-3], 3 * network.hidden_size
    x, h = inputs * width, (inputs + network.hidden_size) * width
    return gru.Weights(
        flat[:x].reshape(inputs, width), flat[x:h].reshape(-1, width), flat[h : h + width], flat[h + width :]
    )


class Trace(NamedTuple):
    """A forward pass: `outputs` ``[..., out]``, and the activations that `backward` needs.

    `hidden` ``[T, B, H]`` is the hidden state after every step.
    """

    outputs: Array
    below: list[Array]
    unrolled: gru.Unrolled | None
    above: list[Array]
    norms: list[NormPass]

    @property
    def hidden(self) -> Array:
        """The hidden states; raises `ValueError` for a feed-forward network."""
        return self._known.hidden

    @property
    def before(self) -> Array:
        """The hidden states before every step ``[T, B, H]``; raises `ValueError` for a feed-forward network."""
        return self._known.before

    @property
    def _known(self) -> gru.Unrolled:
        if self.unrolled is None:
            raise ValueError("a network without a GRU has no hidden state")
        return self.unrolled


def initialise(network: Network, rng: np.random.Generator, output_gain: float) -> NDArray[np.float32]:
    """A flat vector of orthogonal weights and zero biases; norms change no scale yet.

    Hidden layers have gain √2 and the last `output_gain`, as in `mlp.initialise`. Each of the cell's two matrices
    is one orthogonal matrix of gain 1 over its three parts, as in the code of MAPPO (Yu et al., 2022, `RNNLayer`) and
    for LSTMs in Huang et al., "The 37 Implementation Details of PPO", 2022.
    """
    flat = np.zeros(network.parameters, np.float32)
    weights = views(network, flat)
    if network.recurrent:
        for weight, _ in weights.below:
            weight[...] = np.sqrt(2.0) * networks.orthogonal(rng, *weight.shape)
        if weights.cell is not None:
            for matrix in (weights.cell.x, weights.cell.h):
                matrix[...] = networks.orthogonal(rng, *matrix.shape)
        weights.above[0][0][...] = output_gain * networks.orthogonal(rng, *weights.above[0][0].shape)
    else:
        mlp = Mlp(network.sizes)
        flat[: mlp.parameters] = networks.initialise(mlp, rng, output_gain)
    for norm in weights.norms:
        norm.gain[...] = 1
    if weights.log_std is not None:
        weights.log_std[...] = FIRST_LOG_STD
    return flat


def _backward(weights: Weights, trace: Trace, grad_output: Array, gradient: Weights | None) -> tuple[Array, Array]:
    """d loss / d result of the first matrix product ``[rows, width]``, and the matrix of that product ``[in,
    width]``."""
    grad_output = grad_output.reshape(-1, grad_output.shape[-1])
    above = None if gradient is None else gradient.above
    norms = _norms_backward(trace.norms, gradient)
    if weights.cell is None or trace.unrolled is None:
        grad_output = networks.backward(weights.above, trace.above, grad_output, above, weights.rectified, norms)
        return grad_output, weights.above[0][0]
    grad_output = networks.backward(weights.above, trace.above, grad_output, above)
    grad_output = grad_output @ weights.above[0][0].T
    if norms:
        norms[-1](grad_output)
    cell = None if gradient is None else gradient.cell
    grad_hidden = grad_output.reshape(trace.unrolled.hidden.shape)
    grad_inputs = gru.backward(weights.cell, trace.unrolled, grad_hidden, cell).inputs
    grad_output = grad_inputs.reshape(-1, grad_inputs.shape[-1])
    if not weights.below:
        return grad_output, weights.cell.x
    grad_output = grad_output @ weights.cell.x.T
    networks.backward_activation(grad_output, trace.below[-1], weights.rectified)
    if norms:
        norms[-2](grad_output)
    below = None if gradient is None else gradient.below
    grad_output = networks.backward(weights.below, trace.below, grad_output, below, weights.rectified, norms)
    return grad_output, weights.below[0][0]


def _norms_backward(passes: Sequence[NormPass], gradient: Weights | None) -> list[networks.InPlace]:
    """What turns the gradient at each norm's outputs into that at its inputs."""
    into = [None] * len(passes) if gradient is None else gradient.norms
    return [partial(norm.backward, gradient=own) for norm, own in zip(passes, into, strict=True)]


def _timed(rows: Array, steps: int) -> Array:
    """``[T * B, width]`` as ``[T, B, width]``; B may be 0."""
    return rows.reshape(steps, len(rows) // steps, rows.shape[1])


def to_tensors(network: Network, flat: Array, prefix: str) -> dict[str, Array]:
    """The network by name: ``<prefix>/w0 [in, out]``, ``<prefix>/b0 [out]``, ...; see `Weights.named`."""
    return {f"{prefix}/{name}": array for name, array in views(network, flat).named().items()}


def from_tensors(tensors: Mapping[str, NDArray[Any]], prefix: str) -> tuple[Network, Array]:
    """The network and its flat vector (a copy) from `to_tensors`; raises `KeyError` when there is none."""
    weights = weights_of(tensors, prefix)
    firsts = [weight.shape[0] for weight, _ in (*weights.below, *weights.above)]
    if weights.cell is not None:
        firsts.insert(len(weights.below), weights.cell.x.shape[0])
    sizes = (*firsts, weights.above[-1][0].shape[1])
    gaussian = weights.log_std is not None
    marks = weights.rectified, weights.clipped, bool(weights.norms)
    network = Network(sizes, weights.cell is not None, gaussian, *marks)
    return network, np.concatenate([array.ravel() for array in weights.named().values()])


def weights_of(tensors: Mapping[str, NDArray[Any]], prefix: str) -> Weights:
    """The named tensors of `to_tensors`, not copied; raises `KeyError` when there is no such network."""
    layers = layers_of(tensors, prefix)
    rectified, clipped = (f"{prefix}/{mark}" in tensors for mark in (RECTIFIED, CLIPPED))
    own = tensors.get(f"{prefix}/log_std"), rectified, clipped, norms_of(tensors, prefix)
    if f"{prefix}/gru_x" not in tensors:
        return Weights([], None, layers, *own)
    cell = gru.Weights(*(tensors[f"{prefix}/gru_{part}"] for part in gru.Weights._fields))
    return Weights(layers[:-1], cell, layers[-1:], *own)


def norms_of(tensors: Mapping[str, NDArray[Any]], prefix: str) -> list[Norm]:
    """The norms of the network's hidden layers, in order, not copied; none if it has no layer norms."""
    norms: list[Norm] = []
    while (gain := tensors.get(f"{prefix}/{GAIN}{len(norms)}")) is not None:
        norms.append(Norm(gain, tensors[f"{prefix}/{SHIFT}{len(norms)}"]))
    return norms
