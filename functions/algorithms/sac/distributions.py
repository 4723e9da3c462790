"""Samples of soft policies, and the gradients through them, in closed form.

Samples of continuous actions are reparameterised (Haarnoja et al., "Soft Actor-Critic Algorithms and Applications",
2018). Samples of discrete actions are straight-through Gumbel-softmax samples, like MADDPG's. They have `actions` ``[B,
width]`` for critics, and the `entropy` ``[B]`` of their distribution in nats. It is exact for discrete actions, and
-log p of the sample for continuous ones. `backward` gives d loss / d outputs ``[B, out]`` from d loss / d actions and d
loss / d entropy ``[B]``.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from marless.functions.algorithms.advantages import Flags
from marless.functions.environments.base import AgentClass
from marless.functions.nn import gumbel
from marless.functions.nn.continuous import SquashedSample
from marless.functions.nn.discrete import OneChoice
from marless.functions.nn.gumbel import Relaxed
from marless.functions.nn.layers import Array
from marless.functions.nn.losses import mask_logits


@dataclass(frozen=True)
class Choices:
    """One-hot samples of discrete actions, and their masked `logits` ``[B, actions]``."""

    logits: Array
    relaxation: Relaxed

    @property
    def actions(self) -> Array:
        """See the module."""
        return self.relaxation.hard

    @cached_property
    def entropy(self) -> Array:
        """See the module."""
        return OneChoice(self.logits.shape[-1]).entropy(self.logits, None)

    def backward(self, grad_actions: Array, grad_entropy: Array) -> Array:
        """See the module."""
        by_entropy, _ = OneChoice(self.logits.shape[-1]).entropy_gradient(self.logits, None)
        return np.asarray(self.relaxation.backward(grad_actions) + grad_entropy[:, None] * by_entropy)


@dataclass(frozen=True)
class Numbers:
    """Samples of continuous actions in [-1, 1]."""

    sample: SquashedSample

    @property
    def actions(self) -> Array:
        """See the module."""
        return self.sample.actions

    @property
    def entropy(self) -> Array:
        """See the module."""
        return -self.sample.log_probability

    def backward(self, grad_actions: Array, grad_entropy: Array) -> Array:
        """See the module."""
        return self.sample.backward(grad_actions, -grad_entropy)


def sample(kind: AgentClass, outputs: Array, legal: Flags | None, rng: np.random.Generator) -> Choices | Numbers:
    """Samples for the outputs ``[B, out]`` of policies of this class. `legal` actions are ``[B, actions]``."""
    shape = (len(outputs), kind.actions)
    if kind.continuous:
        return Numbers(SquashedSample.of(outputs, rng.standard_normal(shape, dtype=np.float32).astype(outputs.dtype)))
    noise = gumbel.noise(rng.random(shape, dtype=np.float32)).astype(outputs.dtype)
    return Choices(mask_logits(outputs, legal), gumbel.relax(outputs, noise, legal=legal))
