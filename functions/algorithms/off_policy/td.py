"""Targets and losses of temporal-difference learning, in closed form.

Every function is pure and keeps the type of its inputs. Next values follow `marless.functions.algorithms.advantages`:
the value after a step, which at a truncation is the value of the observation before the reset. So a termination removes
the value that would follow, and a truncation does not.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from marless.functions.algorithms.advantages import Flags
from marless.functions.nn.layers import Array
from marless.functions.nn.losses import huber, mask_logits


def one_step(rewards: Array, next_values: Array, terminated: Flags, gamma: float) -> Array:
    """``r + gamma V(s')``, or r alone where the step terminated. Arrays of one shape."""
    return rewards + gamma * next_values * ~terminated


class NStepReturns(NamedTuple):
    """Discounted sums of up to n rewards, for every step of a sequence. All are ``[..., T, E]``.

    `returns` are the sums, and `last` the numbers of the steps that they end with. `discount` is the weight of the
    value after that step: gamma to the number of steps summed, or 0 after a termination.
    """

    returns: Array
    discount: Array
    last: NDArray[np.int64]

    def targets(self, next_values: Array) -> Array:
        """``returns + discount * V`` with V from `next_values` ``[..., T, E]``, the values after each step."""
        following: Array = np.take_along_axis(next_values, self.last, axis=-2)
        return np.asarray(self.returns + self.discount * following)


class LambdaReturns(NamedTuple):
    """Mixtures of the returns of 1, 2, ... steps with weights ``(1 - λ) λ^(n - 1)``, the rest on the longest one.

    This is Peng's Q(λ) if values are values of greedy actions (Peng and Williams, "Incremental Multi-Step Q-Learning",
    1996). Other actions stay uncorrected (Kozuno et al., "Revisiting Peng's Q(λ) for Modern Reinforcement Learning",
    2021). `rewards`, `discount` (gamma, or 0 after a termination) and `onward` (λ, or 0 at a sequence's end) are
    ``[..., T, E]``.
    """

    rewards: Array
    discount: Array
    onward: Array

    @property
    def returns(self) -> Array:
        """The mixtures without values."""
        return self.targets(np.zeros_like(self.rewards))

    def targets(self, next_values: Array) -> Array:
        """The mixtures with the values after each step `next_values` ``[..., T, E]``."""
        returns: Array = np.empty(np.broadcast_shapes(self.rewards.shape, next_values.shape), self.rewards.dtype)
        later: Array = np.zeros((*returns.shape[:-2], returns.shape[-1]), returns.dtype)
        for t in range(returns.shape[-2] - 1, -1, -1):
            onward = self.onward[..., t, :]
            following = (1 - onward) * next_values[..., t, :] + onward * later
            later = self.rewards[..., t, :] + self.discount[..., t, :] * following
            returns[..., t, :] = later
        return returns


class MultiStepConfig(Protocol):
    """The settings of targets that look several steps ahead."""

    @property
    def discount(self) -> float: ...

    @property
    def n_step(self) -> int: ...

    @property
    def td_lambda(self) -> float: ...


def multi_step_returns(
    rewards: Array, terminated: Flags, ends: Flags, config: MultiStepConfig
) -> NStepReturns | LambdaReturns:
    """Returns of n steps, or mixtures of them by λ, with the arrays of `n_step_returns`."""
    if not config.td_lambda:
        return n_step_returns(rewards, terminated, ends, config.discount, config.n_step)
    return lambda_returns(rewards, terminated, ends, config.discount, config.td_lambda)


def lambda_returns(rewards: Array, terminated: Flags, ends: Flags, gamma: float, mixing: float) -> LambdaReturns:
    """Mixtures of returns by λ, here `mixing`, with the arrays of `n_step_returns`."""
    onward = np.where(terminated | ends, 0.0, mixing).astype(rewards.dtype)
    onward[..., -1, :] = 0
    return LambdaReturns(rewards, (gamma * ~terminated).astype(rewards.dtype), onward)


def n_step_returns(rewards: Array, terminated: Flags, ends: Flags, gamma: float, steps: int) -> NStepReturns:
    """Sums at most `steps` rewards from each step on (Sutton and Barto, 2018, eq. 7.1).

    A sum ends earlier with a termination, with a reset (`ends`), and with the sequence. Only a termination removes the
    value that follows. `rewards` and `terminated` are ``[..., T, E]``, and `ends` broadcasts to them. Next values are
    added by `targets`, because they change with every update. Raises `ValueError` for fewer than 1 step.
    """
    if steps < 1:
        raise ValueError(f"a target looks at least 1 step ahead, not {steps}")
    length = rewards.shape[-2]
    stops = terminated | ends
    returns, discount = np.zeros_like(rewards), np.zeros_like(rewards)
    last = np.broadcast_to(np.arange(length)[:, None], rewards.shape).copy()
    going = np.ones(rewards.shape, np.bool_)
    factor = 1.0  # the powers of gamma by products, since `**` rounds differently on other machines
    for n_step in range(min(steps, length)):
        near, far = (..., slice(0, length - n_step), slice(None)), (..., slice(n_step, None), slice(None))
        on = going[near]
        returns[near] += factor * rewards[far] * on
        factor *= gamma
        discount[near] = np.where(on, factor * ~terminated[far], discount[near])
        last[near] += on & (n_step > 0)
        going[near] = on & ~stops[far]
    return NStepReturns(returns, discount, last)


def double_q(online: Array, target: Array, legal: Flags | None = None) -> Array:
    """The target network's value of the legal action that the online network values highest, ``[...]``.

    Double Q-learning (van Hasselt et al., 2016, eq. 4). All arrays ``[..., actions]``. The first of equal values wins.
    """
    return gather_actions(target, mask_logits(online, legal).argmax(axis=-1))


def gather_actions(values: Array, actions: NDArray[np.integer]) -> Array:
    """The values ``[...]`` of the actions taken, of all values ``[..., actions]``."""
    return np.asarray(np.take_along_axis(values, actions[..., None], axis=-1)[..., 0])


def scatter_actions(grad_output: Array, actions: NDArray[np.integer], width: int) -> Array:
    """d loss / d values ``[..., width]``, given d loss / d the values of the actions taken ``[...]``."""
    wide = np.zeros((*actions.shape, width), grad_output.dtype)
    np.put_along_axis(wide, actions[..., None], grad_output[..., None], axis=-1)
    return wide


def joint_sum(values: Array, alive: Flags) -> Array:
    """The sum over the living agents of a side, ``[n, ...]`` to ``[...]``.

    The joint value of value-decomposition networks (Sunehag et al., 2018). Of the agents' utilities it gives the joint
    value, and of their targets the joint target. An agent that terminates loses its own bootstrap, and the others keep
    theirs.
    """
    living: Array = np.where(alive, values, values.dtype.type(0))
    return np.asarray(living.sum(axis=0))


@dataclass(frozen=True)
class TdLoss:
    """`grad_output` is d loss / d value and `difference` value minus target, both in the values' shape, 0 where not
    alive. So are `rows`, and the loss is their mean over living rows.

    `difference` is without importance weights, as replay priorities need it.
    """

    grad_output: Array
    difference: Array
    rows: Array
    grad_log_std: None = None


def td_loss(
    values: Array, targets: Array, delta: float | None = None, weights: Array | None = None, alive: Flags | None = None
) -> TdLoss:
    """The mean of ``w (v - t)²``, or of ``w huber(v - t)`` that turns linear at `delta`, over living rows.

    All arrays of one shape. `weights` come from prioritised replay, by default 1. The squared loss has no factor, as
    the papers define it. Huber's has ½ (`marless.functions.nn.losses.huber`).
    """
    difference = values - targets
    if alive is not None:
        difference = np.where(alive, difference, values.dtype.type(0))
    count = max(1, difference.size if alive is None else int(alive.sum()))
    if delta is None:
        rows, grad_output = difference * difference, 2 * difference
    else:
        rows, grad_output = huber(difference, delta), np.clip(difference, -delta, delta)
    if weights is not None:
        rows, grad_output = rows * weights, grad_output * weights
    return TdLoss(grad_output / count, difference, rows)
