"""Training of a network that is a frozen one plus a difference of low rank.

A matrix W ``[in, out]`` is W0 + A B with the frozen W0, A ``[in, rank]`` and B ``[rank, out]``, so

    d loss / d A = G Bᵀ    d loss / d B = Aᵀ G    for G = d loss / d W

(Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021). Tensors that are no matrices (biases, norms,
log standard deviations) are trained as they are. The tensors of a difference are ``<name>/a`` and ``<name>/b`` for a
matrix, and ``<name>`` for another tensor.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from marless.functions.algorithms.engine import AdamDescent, LossGradient, Moments, OptimiserSettings
from marless.functions.algorithms.stage import Tensors
from marless.functions.nn.adam import Adam
from marless.functions.nn.layers import Array, Shape

# The first part of the names of frozen tensors: `policy/g00/w0` begins as `base/policy/g00/w0`.
BASE = "base"


class Adapter:
    """A difference as the flat vector `parameters`, which may change. `tensors` are views into it.

    `names` are the names of the network's tensors, in the order of the network's flat vector.
    """

    def __init__(self, frozen: Tensors, difference: Tensors, names: Sequence[str]) -> None:
        self._frozen = {name: frozen[name] for name in names}
        keys = [key for name in names for key in ((name,) if name in difference else factors(name))]
        shapes = {key: difference[key].shape for key in keys}
        self.parameters = np.concatenate([difference[key].ravel() for key in keys])
        self.tensors = _views(self.parameters, shapes)
        self._gradient = np.empty_like(self.parameters)
        self._gradients = _views(self._gradient, shapes)

    def merge(self) -> Array:
        """The network's own flat vector."""
        return np.concatenate([array.ravel() for array in merged(self._frozen, self.tensors).values()])

    def gradient(self, of_network: Array) -> Array:
        """The gradient by `parameters` from the gradient by the network's flat vector. The next call overwrites it."""
        shapes = {name: array.shape for name, array in self._frozen.items()}
        for name, gradient in _views(of_network, shapes).items():
            if name in self.tensors:
                self._gradients[name][...] = gradient
            else:
                a, b = factors(name)
                np.matmul(gradient, self.tensors[b].T, out=self._gradients[a])
                np.matmul(self.tensors[a].T, gradient, out=self._gradients[b])
        return self._gradient


class AdaptedDescent(AdamDescent):
    """A difference in training, with the gradients that any engine computes of the whole network."""

    def __init__(
        self,
        loss_gradient: LossGradient,
        frozen: Tensors,
        difference: Tensors,
        settings: OptimiserSettings,
        moments: Moments,
    ) -> None:
        self._adapter = Adapter(frozen, difference, list(loss_gradient.weights.to_tensors()))
        first, second, steps = moments
        optimiser = Adam(self._adapter.parameters, np.array(first), np.array(second), steps, *settings)
        super().__init__(loss_gradient, optimiser)

    @property
    def difference(self) -> dict[str, Array]:
        return self._adapter.tensors

    def _step(self, gradient: Array) -> float:
        norm = super()._step(self._adapter.gradient(gradient))
        self._loss_gradient.assign(self._adapter.merge())
        return norm


def factors(name: str) -> tuple[str, str]:
    """The names of A and B of a matrix."""
    return f"{name}/a", f"{name}/b"


def merged(frozen: Tensors, difference: Tensors) -> dict[str, Array]:
    """The whole network by the names of its tensors, in the order of `frozen`."""
    whole: dict[str, Array] = {}
    for name, array in frozen.items():
        a, b = factors(name)
        whole[name] = difference[name] if name in difference else array + difference[a] @ difference[b]
    return whole


def _views(flat: Array, shapes: Mapping[str, Shape]) -> dict[str, Array]:
    parts = np.split(flat, np.cumsum([int(np.prod(shape)) for shape in shapes.values()])[:-1])
    return {name: part.reshape(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}
