"""A loss in torch for algorithms without a closed form: torch computes the gradient at a network's outputs."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from marless.functions.algorithms.engine import LossOf
from marless.functions.algorithms.minibatches import RowIndices
from marless.functions.nn.layers import Array

TorchLossOf = Callable[[Tensor, Tensor | None, Tensor], Tensor]


class TorchLoss(NamedTuple):
    """The `value` of a batch's loss, and its gradients, see `engine.Loss`."""

    value: float
    grad_output: Array
    grad_log_std: Array | None


def torch_loss(scalar_loss: TorchLossOf) -> LossOf[TorchLoss]:
    """The loss ``scalar_loss(outputs, log_std, rows)``, a scalar tensor, for `Trainable.learn`.

    `outputs` ``[B, out]``, the head's `log_std` ``[out]`` or None, and the indices `rows` ``[B]`` of the minibatch are
    tensors on the CPU. The network may be computed by either engine: only the loss is torch's.
    """

    def loss(outputs: Array, log_std: Array | None, rows: RowIndices) -> TorchLoss:
        leaves = [torch.tensor(array, requires_grad=True) for array in (outputs, log_std) if array is not None]
        value = scalar_loss(leaves[0], leaves[1] if log_std is not None else None, torch.tensor(rows))
        # Inputs that do not affect the loss have a gradient of zeros.
        gradients = [gradient.numpy() for gradient in torch.autograd.grad(value, leaves, materialize_grads=True)]
        return TorchLoss(value.item(), gradients[0], gradients[1] if log_std is not None else None)

    return loss
