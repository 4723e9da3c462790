"""The kinds of layers of networks: parameters, and in numpy outputs and gradients in closed form.

This file needs only numpy: ``marless export`` writes it next to the program that plays policies from plain tensors. The
layers in torch are in `marless.functions.nn.torch_layers`, in ONNX in the exports. `marless.functions.nn.gru` trains a
GRU over time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Shape = tuple[int, ...]
Orthogonal = Callable[[int, int], Array]
"""Draws a matrix of so many rows and columns with orthonormal rows or columns."""

EPSILON = 1e-5  # of layer norms
# Normalised inputs end this many standard deviations from the mean. Source: Andrychowicz et al., "What Matters in
# On-Policy Reinforcement Learning?", 2021.
MOST_DEVIATIONS = 10.0


class Layer:
    """A layer of a network: a dataclass. Its fields are its parameters, in the order of a network's flat vector.

    Parameters have the shapes of `shapes`. Stacked parameters of several networks have further axes in front.

    Attributes:
        kind: Its name in exported policies.
        names: The names of its parameters in storage, before its number among the layers of its kind.
        has_number: Whether the number is part of these names.
        entry: The fields that multiply the layer's inputs and are added to the product, for layers that change the
            width. Others keep it, and compute in place.
        mark: The name of the empty tensor that marks this activation in storage.
        is_norm: True if storage puts its parameters after the parameters of all layers that are no norms.
        elementwise: Whether every output depends on the input at its place alone.
    """

    kind: ClassVar[str]
    names: ClassVar[tuple[str, ...]] = ()
    has_number: ClassVar[bool] = True
    entry: ClassVar[tuple[str, ...]] = ()
    mark: ClassVar[str] = ""
    is_norm: ClassVar[bool] = False
    elementwise: ClassVar[bool] = False

    def __init__(self, *parameters: Array) -> None:
        """Subclasses are dataclasses."""

    @classmethod
    def shapes(cls, inputs: int, outputs: int) -> tuple[Shape, ...]:
        """The shapes of the parameters of a layer from `inputs` numbers to `outputs`."""
        return ()

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The parameters."""
        return tuple(vars(self).values())

    @property
    def inputs(self) -> int:
        """The number of inputs of a layer that changes the width."""
        return int(self.arrays[0].shape[-2])

    def width(self, inputs: int) -> int:
        """The number of outputs for so many inputs."""
        return inputs

    def initialise(self, orthogonal: Orthogonal, gain: float) -> None:
        """Writes new parameters over zeros. `gain` scales the weights of a layer if its activation does not."""

    def forward(self, values: Array, out: Array | None = None) -> tuple[Array, Any]:
        """Outputs ``[..., out]`` of inputs ``[..., in]``, and the cache for `backward`.

        A layer that keeps the width writes its outputs into `out`, which may be `values`, if it is given.
        """
        raise NotImplementedError

    @classmethod
    def surplus(cls, width: int) -> int:
        """Return how many more outputs the last layer has than the network, for the `width` of this layer's outputs."""
        return 0

    def backward(self, cache: Any, grad_output: Array, gradient: Self | None, to_inputs: bool = True) -> Array:
        """Writes d loss / d parameters into `gradient`, if there is one, given d loss / d outputs ``[rows, out]``.

        Returns d loss / d inputs ``[rows, in]``, which layers that keep the width write over `grad_output`. Unless
        `to_inputs`, layers that change the width return d loss / d product of inputs and weights instead.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Linear(Layer):
    """x weight + bias, for a `weight` ``[in, out]`` and a `bias` ``[out]``."""

    kind: ClassVar[str] = "linear"
    names: ClassVar[tuple[str, ...]] = ("w", "b")
    entry: ClassVar[tuple[str, ...]] = ("weight", "bias")

    weight: Array
    bias: Array

    @classmethod
    def shapes(cls, inputs: int, outputs: int) -> tuple[Shape, ...]:
        return (inputs, outputs), (outputs,)

    def width(self, inputs: int) -> int:
        return int(self.weight.shape[-1])

    def initialise(self, orthogonal: Orthogonal, gain: float) -> None:
        self.weight[...] = gain * orthogonal(*self.weight.shape)

    def forward(self, values: Array, out: Array | None = None) -> tuple[Array, Array]:
        outputs: Array = values @ self.weight
        outputs += self.bias
        return outputs, values

    def backward(self, cache: Array, grad_output: Array, gradient: "Linear | None", to_inputs: bool = True) -> Array:
        if gradient is not None:
            np.matmul(cache.T, grad_output, out=gradient.weight)
            np.add.reduce(grad_output, axis=0, out=gradient.bias)
        return grad_output @ self.weight.T if to_inputs else grad_output


@dataclass(frozen=True)
class LayerNorm(Layer):
    """Layer normalisation with `gain` and `shift` ``[H]``.

    Ba, Kiros and Hinton, "Layer Normalization", 2016, as `torch.nn.LayerNorm` computes it. The H units x of a row have
    the mean m and variance v. Then y = gain u + shift with u = (x - m) / √(v + ε).
    """

    kind: ClassVar[str] = "layer_norm"
    names: ClassVar[tuple[str, ...]] = ("gain", "shift")
    is_norm: ClassVar[bool] = True

    gain: Array
    shift: Array

    @classmethod
    def shapes(cls, inputs: int, outputs: int) -> tuple[Shape, ...]:
        return (outputs,), (outputs,)

    def initialise(self, orthogonal: Orthogonal, gain: float) -> None:
        self.gain[...] = 1

    def forward(self, values: Array, out: Array | None = None) -> tuple[Array, tuple[Array, Array]]:
        """``[rows, H]``. The cache is u ``[rows, H]`` and 1 / √(v + ε) ``[rows, 1]``."""
        units = values - _row_means(values)
        inverse = 1 / np.sqrt(_row_means(units, units) + EPSILON)
        units *= inverse
        outputs = np.multiply(units, self.gain, out=out)
        outputs += self.shift
        return outputs, (units, inverse)

    def backward(
        self, cache: tuple[Array, Array], grad_output: Array, gradient: "LayerNorm | None", to_inputs: bool = True
    ) -> Array:
        """d loss / d x ``[rows, H]``, written over `grad_output`."""
        units, inverse = cache
        if gradient is not None:
            np.einsum("rh,rh->h", grad_output, units, out=gradient.gain)
            np.add.reduce(grad_output, axis=0, out=gradient.shift)
        grad_output *= self.gain
        along = _row_means(grad_output, units)
        grad_output -= _row_means(grad_output)
        grad_output -= units * along
        grad_output *= inverse
        return grad_output


@dataclass(frozen=True)
class Tanh(Layer):
    """tanh of every number."""

    kind: ClassVar[str] = "tanh"
    elementwise: ClassVar[bool] = True

    def forward(self, values: Array, out: Array | None = None) -> tuple[Array, Array]:
        outputs = np.tanh(values, out=out)
        return outputs, outputs

    def backward(self, cache: Array, grad_output: Array, gradient: "Tanh | None", to_inputs: bool = True) -> Array:
        grad_output *= 1 - cache * cache
        return grad_output


@dataclass(frozen=True)
class Relu(Layer):
    """max(0, x) of every number."""

    kind: ClassVar[str] = "relu"
    mark: ClassVar[str] = "relu"
    elementwise: ClassVar[bool] = True

    def forward(self, values: Array, out: Array | None = None) -> tuple[Array, Array]:
        outputs = np.maximum(values, 0, out=out)
        return outputs, outputs

    def backward(self, cache: Array, grad_output: Array, gradient: "Relu | None", to_inputs: bool = True) -> Array:
        grad_output *= cache > 0
        return grad_output


@dataclass(frozen=True)
class Normalise(Layer):
    """(x - mean) times inverse, cut off at ±10. `mean` is the mean of inputs ``[F]``, `inverse` one over their standard
    deviation."""

    kind: ClassVar[str] = "normalise"

    mean: Array
    inverse: Array

    @classmethod
    def shapes(cls, inputs: int, outputs: int) -> tuple[Shape, ...]:
        return (outputs,), (outputs,)

    def forward(self, values: Array, out: Array | None = None) -> tuple[Array, None]:
        outputs: Array = np.subtract(values, self.mean, out=out)
        outputs *= self.inverse
        return np.clip(outputs, -MOST_DEVIATIONS, MOST_DEVIATIONS, out=outputs), None


@dataclass(frozen=True)
class Gru(Layer):
    """The gated recurrent unit: `x` ``[in, 3H]``, `h` ``[H, 3H]`` and their biases `bx`, `bh` ``[3H]``.

    Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", 2014, in the form of `torch.nn.GRU`. The
    reset gate multiplies the hidden state's product, including its bias. With a = x Wx + bx and c = h Wh + bh, three
    parts r, z, n of width H each,

        r = sigmoid(a_r + c_r)    z = sigmoid(a_z + c_z)    n = tanh(a_n + r c_n)    h' = (1 - z) n + z h.

    Its outputs are the next hidden state.
    """

    kind: ClassVar[str] = "gru"
    names: ClassVar[tuple[str, ...]] = ("gru_x", "gru_h", "gru_bx", "gru_bh")
    has_number: ClassVar[bool] = False
    entry: ClassVar[tuple[str, ...]] = ("x", "bx")

    x: Array
    h: Array
    bx: Array
    bh: Array

    @classmethod
    def shapes(cls, inputs: int, outputs: int) -> tuple[Shape, ...]:
        return (inputs, 3 * outputs), (outputs, 3 * outputs), (3 * outputs,), (3 * outputs,)

    def width(self, inputs: int) -> int:
        return int(self.h.shape[-1]) // 3

    def initialise(self, orthogonal: Orthogonal, gain: float) -> None:
        """Each matrix becomes one orthogonal matrix of gain 1 over its three parts, like the code of MAPPO (Yu et al.,
        2022, `RNNLayer`). For LSTMs: Huang et al., "The 37 Implementation Details of PPO", 2022."""
        for matrix in (self.x, self.h):
            matrix[...] = orthogonal(*matrix.shape)

    def step(self, inputs: Array, before: Array) -> Array:
        """The state ``[..., H]`` that follows `before`.

        Its products have all 3H columns, while training has one product per gate, so the last bits differ.
        """
        gates, product = np.matmul(inputs, self.x), np.matmul(before, self.h)
        gates += self.bx
        product += self.bh
        after = np.empty_like(before)
        shape = (*gates.shape[:-1], 3, -1)
        advance(np.moveaxis(gates.reshape(shape), -2, 0), np.moveaxis(product.reshape(shape), -2, 0), before, after)
        return after


# Hidden layers have the first of these unless storage holds the mark of another.
ACTIVATIONS: tuple[type[Layer], ...] = (Tanh, Relu)
NORMS: tuple[type[Layer], ...] = (LayerNorm,)
_ALL: tuple[type[Layer], ...] = (Normalise, Linear, *NORMS, *ACTIVATIONS, Gru)
# By the names in exported policies.
KINDS = {layer.kind: layer for layer in _ALL}


def forward(layers: Sequence[Layer], values: Array, state: Array | None) -> tuple[Array, Array | None]:
    """Acts: outputs ``[..., out]`` of inputs ``[..., in]``, and the hidden state ``[..., H]`` that follows `state`.

    The state is None if all layers are feed-forward. Layers may have the stacked parameters of several networks.
    """
    finish = None
    for layer in layers:
        if isinstance(layer, Gru):
            assert state is not None
            values = state = layer.step(values, state)
        else:
            values, cache = layer.forward(values)
            finish = getattr(cache, "with_scores", finish)  # attention to entities that actions name
    return values if finish is None else finish(values), state


def orthogonal(rng: np.random.Generator, rows: int, columns: int) -> Array:
    """A ``[rows, columns]`` matrix with orthonormal rows or columns, whichever are fewer, drawn uniformly (Haar)."""
    q, r = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))
    q *= np.sign(np.diag(r))  # this makes the distribution uniform
    return q if rows >= columns else q.T


def advance(gates: Array, product: Array, before: Array, after: Array) -> None:
    """One step: turns a in `gates` ``[3, ..., H]`` into r, z, n, and writes the state that follows `before` to `after`.

    `product` is c ``[3, ..., H]``. The sigmoid of x is (1 + tanh(x / 2)) / 2, which cannot overflow.
    """
    both, new = gates[:2], gates[2]
    both += product[:2]
    both *= 0.5
    np.tanh(both, out=both)
    both += 1
    both *= 0.5
    np.multiply(both[0], product[2], out=after)
    new += after
    np.tanh(new, out=new)
    np.subtract(before, new, out=after)
    after *= both[1]
    after += new


def _row_means(*factors: Array) -> Array:
    """The means over the last axis ``[..., 1]`` of the product. `einsum` is the fastest way for some ten numbers."""
    subscripts = ",".join(["...h"] * len(factors))
    means: Array = np.einsum(f"{subscripts}->...", *factors)[..., np.newaxis]
    means /= factors[0].dtype.type(factors[0].shape[-1])
    return means
