"""Extreme eigenvalues of the Hessian of a policy's training loss, without the Hessian.

A product with the Hessian costs about two gradients, by differentiating the gradient's computation along a direction
(Pearlmutter, "Fast Exact Multiplication by the Hessian", 1994). Lanczos' method finds both ends of the spectrum with a
few products. Matrices are multiplied by methods, not operators: on matrices this small the overhead of operators is a
fifth of the time.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from marless.functions.algorithms.engine import L, LossOf
from marless.functions.algorithms.engines.numpy_engine import NumpyLossGradient
from marless.functions.algorithms.minibatches import Minibatch
from marless.functions.algorithms.ppo.distil import log_probabilities
from marless.functions.nn.layers import Array
from marless.functions.nn.shape import Network

# The fewest products: with fewer, residuals may be small by chance.
FEWEST = 5
# The orthogonal component is mostly rounding error if its square is at most this share of the projection's square.
LITTLE = 0.01
# Step of central differences as a share of the parameters' norm. Near the cube root of the precision, truncation and
# rounding errors are of similar size.
DIFFERENCE_STEP = 1e-5


class Derivatives(NamedTuple):
    """The derivatives of a mean loss of B rows by the outputs: `first` ``[B, out]``, `second` ``[B, out, out]``."""

    first: Array
    second: Array


class Extremes(NamedTuple):
    """The smallest and the largest eigenvalue."""

    smallest: float
    largest: float


def policy_derivatives(
    logits: Array,
    actions: NDArray[np.integer],
    advantage: Array,
    entropy_weight: float,
    legal: NDArray[np.bool_] | None = None,
) -> Derivatives:
    """Derivatives of `losses.clipped_policy_loss` at the weights that sampled the actions, where all ratios are 1.

    Let u = (one-hot of the action) - p and q = log p + H. A row's surrogate -r A has the derivatives f = -A u and -A (u
    uᵀ - diag(p) + p pᵀ). Its bonus -w H has `f = w p q` and `w (diag(p (q + 1)) - p_i p_j (q_i + q_j + 1))`. Summed
    over both, the second is diag(f + w p) - p gᵀ - g pᵀ with g = f + w p / 2.
    """
    log_p = log_probabilities(logits, legal)
    p = np.exp(log_p)
    rows, width = p.shape
    weight, bonus = advantage / logits.dtype.type(rows), p * (entropy_weight / rows)
    grad = log_p - np.add.reduce(p * log_p, axis=1, keepdims=True)
    grad *= bonus
    grad += weight[:, np.newaxis] * p
    grad[np.arange(rows), actions] -= weight
    bonus *= 0.5
    g = grad + bonus
    outer = p[:, :, np.newaxis] * g[:, np.newaxis, :]
    second = -outer
    second -= outer.swapaxes(1, 2)
    second.reshape(rows, -1)[:, :: width + 1] += g + bonus  # the diagonals
    return Derivatives(grad, second)


class _Layer(NamedTuple):
    """A layer after the first: its `inputs` (activations and a 1), its weight, and its `grad` d loss / d outputs. For
    the activations it has the `slope` tanh' and the `bend`, d `slope` / d activations times d loss / d activations."""

    inputs: Array
    weight: Array
    grad: Array
    slope: Array
    bend: Array


class Hessian:
    """The Hessian of a mean loss by the flat parameters of a network with tanh layers, as a product with vectors.

    A layer's segment of the flat vector, weight and then bias, is one matrix ``[in + 1, out]`` for inputs that end in a
    1. Terms that do not depend on the direction are computed once. `loss` takes the outputs ``[B, out]``.
    """

    def __init__(self, network: Network, flat: Array, inputs: Array, loss: Callable[[Array], Derivatives]) -> None:
        self._network = network
        *hidden, last = matrices = network.matrices(flat)
        inputs = self._inputs = _with_ones(inputs)
        layer_inputs = []
        for matrix in hidden:
            outputs = inputs.dot(matrix)
            inputs = _with_ones(np.tanh(outputs, out=outputs))
            layer_inputs.append(inputs)
        self._error, self._second = loss(inputs.dot(last))
        self._layers: list[_Layer] = []  # last one first
        grad = self._error
        for inputs, matrix in zip(layer_inputs[::-1], matrices[:0:-1], strict=True):
            weight = matrix[:-1]
            activations, back = inputs[:, :-1], grad.dot(weight.T)
            slope = 1 - activations * activations
            self._layers.append(_Layer(inputs, weight, grad, slope, -2 * activations * back))
            grad = back * slope

    def start(self, rng: np.random.Generator) -> Array:
        """A direction ``[parameters]`` with curvature: the gradient with every output's error multiplied by a random
        number between -½ and ½."""
        chance = rng.random(self._error.shape, np.float32)
        chance -= np.float32(0.5)
        grad = (self._error + np.finfo(self._error.dtype).eps) * chance
        direction = np.empty(self._network.parameters, grad.dtype)
        first, *outs = self._network.matrices(direction)
        for layer, out in zip(self._layers, outs[::-1], strict=True):
            layer.inputs.T.dot(grad, out=out)
            grad = grad.dot(layer.weight.T)
            grad *= layer.slope
        self._inputs.T.dot(grad, out=first)
        return direction

    def times(self, vector: Array) -> Array:
        """The product ``[parameters]`` with a direction ``[parameters]``: R{gradient} of Pearlmutter's operator R."""
        first, *directions = self._network.matrices(vector)
        changes: list[Array] = []  # R{activations} below every layer but the first
        change = self._inputs.dot(first)
        for layer, direction in zip(self._layers[::-1], directions, strict=True):
            change *= layer.slope
            changes.append(change)
            change = change.dot(layer.weight)
            change += layer.inputs.dot(direction)
        grad = np.einsum("bij,bj->bi", self._second, change)  # R{d loss / d outputs}
        product = np.empty_like(vector)
        first, *outs = self._network.matrices(product)
        for layer, direction, out in zip(self._layers, directions[::-1], outs[::-1], strict=True):
            change = changes.pop()
            layer.inputs.T.dot(grad, out=out)
            out[:-1] += change.T.dot(layer.grad)
            grad = grad.dot(layer.weight.T)
            grad += layer.grad.dot(direction[:-1].T)
            grad *= layer.slope
            change *= layer.bend
            grad += change
        self._inputs.T.dot(grad, out=first)
        return product


class DifferenceHessian:
    """The Hessian of a minibatch's mean loss for any network and loss, by central differences of its gradient.

    In double precision the error of a product is about 1e-10 of it: the square of the step, and rounding over the step.
    """

    def __init__(self, network: Network, flat: Array, part: Minibatch, loss_of: LossOf[L]) -> None:
        self._centre = flat.astype(np.float64)
        self._parameters = self._centre.copy()
        self._loss_gradient = NumpyLossGradient(network, self._parameters)
        first = None if part.first is None else part.first.astype(np.float64)
        self._part, self._loss_of = part._replace(inputs=part.inputs.astype(np.float64), first=first), loss_of

    def start(self, rng: np.random.Generator) -> Array:
        """A direction ``[parameters]`` with curvature: the product of the Hessian with a random vector."""
        return self.times(rng.standard_normal(len(self._centre)))

    def times(self, vector: Array) -> Array:
        """The product ``[parameters]`` with a direction ``[parameters]`` that is not zero."""
        step = DIFFERENCE_STEP * (1 + np.linalg.norm(self._centre)) / np.linalg.norm(vector)
        difference = self._gradient(self._centre + step * vector)
        difference -= self._gradient(self._centre - step * vector)
        difference /= 2 * step
        return difference

    def _gradient(self, parameters: Array) -> Array:
        self._parameters[...] = parameters
        return self._loss_gradient.of(self._part, self._loss_of)[1].copy()


def extremes(times: Callable[[Array], Array], start: Array, most: int, residual: float) -> Extremes:
    """Both ends of the spectrum of a symmetric operator, by at most `most` products, from the direction `start`.

    Lanczos' method with full reorthogonalisation (Golub and Van Loan, "Matrix Computations", chapter 10). It ends early
    once the relative residuals of both ends are at most `residual`. Their relative errors are then of the order of
    `residual` squared. The projected matrix includes the next row before its diagonal element is computed. An estimate
    of this element brings the ends closer to the true eigenvalues.
    """
    most = min(most, len(start))
    basis = np.empty((most, len(start)), start.dtype)
    tridiagonal = np.zeros((most + 1, most + 1))  # only the lower triangle is read
    vector, length, ritz = start, math.sqrt(start.dot(start)), Extremes(0.0, 0.0)
    for step in range(most):
        np.divide(vector, length, out=basis[step])
        count = step + 1
        vector, length, onto, is_exhausted = _apart(times(basis[step]), basis[:count])
        tridiagonal[step, step] = tridiagonal[count, count] = onto[-1]  # the latter estimates the next element
        tridiagonal[count, step] = length
        if is_exhausted or count >= min(FEWEST, most):
            values, vectors = np.linalg.eigh(tridiagonal[: count + 1, : count + 1])
            ritz = Extremes(float(values[0]), float(values[-1]))
            low, high = (abs((end - onto[-1]) * vectors[-1, place]) for end, place in zip(ritz, (0, -1), strict=True))
            if low <= residual * abs(ritz.smallest) and high <= residual * abs(ritz.largest):
                break
    return ritz


def _apart(vector: Array, basis: Array) -> tuple[Array, float, Array, bool]:
    """Return the component of `vector` orthogonal to the orthonormal rows `basis`, its length, and the projections of
    `vector` on the rows. The flag is True if the component is small.

    A small component is largely rounding error, which a second pass removes.
    """
    onto = basis.dot(vector)
    rest = vector - onto.dot(basis)
    square = float(rest.dot(rest))
    little = square <= LITTLE * float(onto.dot(onto))
    if little:
        rest -= basis.dot(rest).dot(basis)
        square = float(rest.dot(rest))
    return rest, math.sqrt(square), onto, little


def _with_ones(rows: Array) -> Array:
    wide = np.empty((len(rows), rows.shape[1] + 1), rows.dtype)
    wide[:, :-1] = rows
    wide[:, -1] = 1
    return wide
