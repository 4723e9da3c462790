"""What a policy's loss reads of a group's living rows."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from functions.algorithms.base import Context
from functions.algorithms.chunks import Rows
from functions.algorithms.rows import members, pooling
from functions.contract import BadRequest
from functions.keys import group_name
from functions.nn.discrete import OneChoice
from functions.nn.heads import Distribution, distribution
from functions.nn.losses import ILLEGAL, PolicyLoss, clipped_head_loss, clipped_policy_loss
from functions.nn.mlp import Array


class PolicyRows(NamedTuple):
    """B rows: `actions` ``[B]`` or ``[B, ...]`` as the `head` draws them, `legal` ``[B, width]`` or none, others
    ``[B]``; `clip_coef` and `ent_coef` are those of the configuration."""

    head: Distribution
    actions: Array
    log_probability: Array
    advantage: Array
    legal: NDArray[np.bool_] | None
    clip: float
    entropy: float

    @classmethod
    def living(cls, context: Context, group: int) -> Self:
        """The group's living rows, with the advantages of `postprocess`.

        Raises `BadRequest` for trajectories of actors that did not say how likely their actions were.
        """
        batch, joined = context.batch, pooling(context, group)
        if batch.log_probability is None:
            raise BadRequest("the trajectories hold no log-probabilities, which PPO learns from")
        told, masks = batch.log_probability, batch.masks
        index, _ = batch.place(members(context.team, group)[0])
        return cls(
            head=distribution(context.spec.classes[index]),
            actions=joined(lambda agent: _steps(batch.of(batch.actions, agent))),
            log_probability=joined(lambda agent: batch.of(told, agent).ravel()),
            advantage=context.tensors[f"advantage/{group_name(group)}"],
            legal=None if masks is None else joined(lambda agent: _steps(batch.of(masks, agent))),
            clip=context.config.clip_coef,
            entropy=context.config.ent_coef,
        )

    def loss(self, outputs: Array, own: Array | None, rows: Rows) -> PolicyLoss:
        """What the policy is trained on, for the `outputs` for the rows with the numbers `rows`."""
        legal = None if self.legal is None else self.legal[rows]
        known = self.actions[rows], self.log_probability[rows], self.advantage[rows], self.clip, self.entropy
        if isinstance(self.head, OneChoice):
            return clipped_policy_loss(outputs, *known, legal)
        return clipped_head_loss(self.head, only(outputs, legal), own, *known)


def only(outputs: Array, legal: NDArray[np.bool_] | None) -> Array:
    """The outputs with illegal choices at a large negative number."""
    return outputs if legal is None else np.where(legal, outputs, outputs.dtype.type(ILLEGAL))


def _steps(array: Array) -> Array:
    """``[T, E, ...]`` as ``[T * E, ...]``."""
    return array.reshape(-1, *array.shape[2:])
