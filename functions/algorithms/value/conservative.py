"""Conservative Q-learning: values of actions that a dataset does not show are pushed down.

Kumar et al., "Conservative Q-Learning for Offline Reinforcement Learning", NeurIPS 2020, CQL(H) of equation 4. The loss
grows by `cql_alpha` times the mean of ``log Σ_a exp Q(s, a) - Q(s, a_data)``, the sum over legal actions. The paper
halves the squared temporal-difference error, and `td_loss` does not, so the weight here is twice the paper's. With
Huber's loss, which has the half, it is the same. In joint values the term applies to every agent's utility, summed over
a side's agents, because the joint value increases with each of them.
"""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from marless.functions.algorithms.advantages import Flags
from marless.functions.algorithms.off_policy.td import gather_actions
from marless.functions.native.arithmetic import NUMPY, Arithmetic
from marless.functions.nn.layers import Array
from marless.functions.nn.losses import mask_logits


class ConservativeGap(NamedTuple):
    """`gradient` ``[..., actions]`` is the gradient of the sum of all gaps ``log Σ_a exp Q(s, a) - Q(s, a_data)`` by
    the values, `mean` the mean gap."""

    mean: float
    gradient: Array

    @classmethod
    def of(
        cls,
        values: Array,
        actions: NDArray[np.integer],
        legal: Flags | None,
        loss_mask: Flags,
        arithmetic: Arithmetic = NUMPY,
    ) -> Self:
        """The gaps of `values` ``[..., actions]`` at the recorded `actions` ``[...]``, in the rows of `loss_mask`
        ``[...]``.

        The gradient is softmax(Q) over legal actions, less 1 at the recorded action.
        """
        masked_values = mask_logits(values, legal)
        highest = masked_values.max(axis=-1, keepdims=True)
        exponentials = arithmetic.exp(masked_values - highest)
        total = exponentials.sum(axis=-1, keepdims=True)
        gaps = (arithmetic.log(total) + highest)[..., 0] - gather_actions(masked_values, actions)
        one_hot_actions = np.arange(values.shape[-1]) == actions[..., None]
        gradient = (exponentials / total - one_hot_actions) * loss_mask[..., None]
        return cls(float(gaps[loss_mask].mean()) if loss_mask.any() else 0.0, gradient.astype(values.dtype))
