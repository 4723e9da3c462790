"""Multi-layer perceptrons in numpy: layers of one flat vector, forward, and the exact gradient in closed form.

Hidden layers are tanh, or ReLU if a network is `rectified`; the last layer is linear. For networks of this size an
automatic-differentiation framework spends most of its time on bookkeeping; the tests check the closed form against
torch.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from functions.nn.shape import Mlp

# The name of the empty tensor that marks networks with ReLU layers.
RECTIFIED = "relu"

Array = NDArray[Any]
Layer = tuple[Array, Array]
InPlace = Callable[[Array], None]


def initialise(mlp: Mlp, rng: np.random.Generator, output_gain: float) -> NDArray[np.float32]:
    """A flat vector of orthogonal weights and zero biases.

    Gain √2 on hidden layers and `output_gain` on the last, the practice of PPO implementations (Huang et al., "The 37
    Implementation Details of PPO", 2022; orthogonal matrices after Saxe et al., 2014).
    """
    flat = np.zeros(mlp.parameters, np.float32)
    layers = mlp.layers(flat)
    for index, (weight, _) in enumerate(layers):
        gain = output_gain if index == len(layers) - 1 else np.sqrt(2.0)
        weight[...] = gain * orthogonal(rng, *weight.shape)
    return flat


def orthogonal(rng: np.random.Generator, rows: int, columns: int) -> Array:
    """A ``[rows, columns]`` matrix with orthonormal rows or columns, whichever are fewer, drawn uniformly (Haar)."""
    gaussian = rng.standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(gaussian)
    q *= np.sign(np.diag(r))  # without it the distribution would not be uniform
    return q if rows >= columns else q.T


def forward(
    layers: Sequence[Layer], inputs: Array, rectified: bool = False, norms: Sequence[InPlace] = ()
) -> list[Array]:
    """All activations, input first, output (linear) last; rows are samples. `norms` are as in `hidden`."""
    activations = hidden(layers[:-1], inputs, rectified, norms)
    activations.append(_linear(layers[-1], activations[-1]))
    return activations


def hidden(layers: Sequence[Layer], inputs: Array, rectified: bool, norms: Sequence[InPlace] = ()) -> list[Array]:
    """All activations, input first, of layers that are all hidden.

    `norms` change the outputs of each layer before its activation, if there are any (`functions.nn.layer_norm`).
    """
    activations = [inputs]
    for index, layer in enumerate(layers):
        outputs = _linear(layer, activations[-1])
        if norms:
            norms[index](outputs)
        activate(outputs, rectified)
        activations.append(outputs)
    return activations


def _linear(layer: Layer, inputs: Array) -> Array:
    weight, bias = layer
    outputs: Array = inputs @ weight
    outputs += bias
    return outputs


def backward(
    layers: Sequence[Layer],
    activations: Sequence[Array],
    grad_output: Array,
    gradient: Sequence[Layer] | None,
    rectified: bool = False,
    norms: Sequence[InPlace] = (),
) -> Array:
    """Writes d loss / d parameters into `gradient`, if there is one, given `grad_output` = d loss / d output ``[rows,
    out]``.

    `norms` turn d loss / d normalised outputs of each hidden layer into d loss / d outputs, if there are any. Returns
    d loss / d first layer's outputs before norm and activation; its product with the transposed first weight is the
    gradient at the inputs.
    """
    for index in range(len(layers) - 1, -1, -1):
        below = activations[index]
        if gradient is not None:
            np.matmul(below.T, grad_output, out=gradient[index][0])
            np.add.reduce(grad_output, axis=0, out=gradient[index][1])
        if index:
            grad_output = grad_output @ layers[index][0].T
            backward_activation(grad_output, below, rectified)
            if norms:
                norms[index - 1](grad_output)
    return grad_output


def activate(outputs: Array, rectified: bool) -> None:
    """Applies tanh or ReLU in place."""
    if rectified:
        np.maximum(outputs, 0, out=outputs)
    else:
        np.tanh(outputs, out=outputs)


def backward_activation(grad_output: Array, activations: Array, rectified: bool) -> None:
    """Turns d loss / d activations into d loss / d pre-activations, in place."""
    if rectified:
        grad_output *= activations > 0
        return
    gradient = activations * activations
    np.subtract(1.0, gradient, out=gradient)
    grad_output *= gradient


def to_tensors(mlp: Mlp, flat: Array, prefix: str) -> dict[str, Array]:
    """The network as named layers: ``<prefix>/w0 [in, out]``, ``<prefix>/b0 [out]``, ..."""
    named = {}
    for index, (weight, bias) in enumerate(mlp.layers(flat)):
        named[f"{prefix}/w{index}"], named[f"{prefix}/b{index}"] = weight, bias
    return named


def layers_of(tensors: Mapping[str, NDArray[Any]], prefix: str) -> list[Layer]:
    """The named layers of `to_tensors`, in order; raises `KeyError` when there are none."""
    layers: list[Layer] = []
    while (weight := tensors.get(f"{prefix}/w{len(layers)}")) is not None:
        layers.append((weight, tensors[f"{prefix}/b{len(layers)}"]))
    if not layers:
        raise KeyError(f"no network named {prefix}")
    return layers


def from_tensors(tensors: Mapping[str, NDArray[Any]], prefix: str) -> tuple[Mlp, Array]:
    """The shape and the flat vector (a copy) of a network from `to_tensors`."""
    layers = layers_of(tensors, prefix)
    mlp = Mlp((layers[0][0].shape[0], *(weight.shape[1] for weight, _ in layers)))
    return mlp, np.concatenate([part.ravel() for layer in layers for part in layer])
