"""Advantage estimation and its inputs: rewards, next values, and the ends of episodes."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from marless.functions.algorithms.stage import Context
from marless.functions.nn.layers import Array

Flags = NDArray[np.bool_]


def gae(
    rewards: Array,
    values: Array,
    next_values: Array,
    terminated: Flags,
    ended: Flags,
    gamma: float,
    lambda_: float | Array,
) -> Array:
    """Generalised advantage estimates ``[..., T, E]`` (Schulman et al., 2016, eq. 16), time on the axis before last.

    `next_values` holds V(s_{t+1}), which at a truncation is the value of the observation before the reset. A
    termination removes the bootstrap. Both a termination and a reset (`ended`) stop the λ-sum. Arrays broadcast over
    the leading axes (agents), and λ may differ from step to step.
    """
    residuals = rewards + gamma * next_values * ~terminated - values
    discount = gamma * lambda_ * ~(terminated | ended)
    advantages = np.empty_like(residuals)
    advantage = np.zeros_like(residuals[..., 0, :])
    for t in range(residuals.shape[-2] - 1, -1, -1):
        advantage = residuals[..., t, :] + discount[..., t, :] * advantage
        advantages[..., t, :] = advantage
    return advantages


def vtrace(
    rewards: Array,
    values: Array,
    next_values: Array,
    terminated: Flags,
    resets: Flags,
    gamma: float,
    lambda_: float,
    weights: Array,
) -> Array:
    """Advantages A ``[..., T, E]`` of V-trace. V(s_t) + weights A are its value targets v_t.

    `weights` are w_t = min(1, p_t) for the action's probability ratio p_t, learned policy over sampling policy. Other
    arguments are `gae`'s, with `resets` for `ended`. V-trace (Espeholt et al., "IMPALA", 2018, eq. 1, with the λ of its
    remark 2) is v_t - V(s_t) = w_t (δ_t + γλ (v_{t+1} - V(s_{t+1}))) for clip constants of 1, as in its experiments.
    A_t is the term in the outer brackets, and its weight in the policy's gradient is w_t. The inner term is w_{t+1}
    A_{t+1}, so A is GAE with λ w_{t+1} at step t, and GAE(λ) if all ratios are 1. It is the advantage of rlax, which
    bootstraps from λ v_{t+1} + (1 - λ) V(s_{t+1}). The paper bootstraps from v_{t+1} alone, which is the same only for
    λ = 1. For a smaller λ it differs from GAE(λ) at ratios of 1.
    """
    following = np.ones_like(weights)
    following[..., :-1, :] = weights[..., 1:, :]
    return gae(rewards, values, next_values, terminated, resets, gamma, lambda_ * following)


def next_values(values: Array, after_cut: Array, cut: Array) -> Array:
    """V(s_{t+1}) for ``values [n, T, E]``: the next step's value, or at a cut (t, e) its value `after_cut` ``[n,
    K]``."""
    following = np.empty_like(values)
    following[:, :-1] = values[:, 1:]
    following[:, -1] = 0.0
    following[:, cut[:, 0], cut[:, 1]] = after_cut
    return following


def truncations(episode_ends: Flags, cut: NDArray[np.integer]) -> Flags:
    """The steps ``[T, E]`` of episodes that a time limit ended: cuts followed by a reset.

    The episode continues after the other cuts, which are ends of rollouts.
    """
    truncated = np.zeros_like(episode_ends)
    truncated[cut[:, 0], cut[:, 1]] = True
    return truncated & episode_ends


def team_rewards(rewards: Array, sides: Sequence[int]) -> Array:
    """Each agent's reward ``[N, T, E]`` summed over its side. Without `sides` all agents are on one."""
    side_of_agent = np.array(sides or [0] * len(rewards))
    return np.stack([rewards[side_of_agent == side].sum(axis=0) for side in side_of_agent])


def any_of_side(flags: NDArray[np.bool_], sides: Sequence[int]) -> NDArray[np.bool_]:
    """Return the flag ``[N, T, E]`` "any agent on this agent's side has the flag". Without `sides` all are on one."""
    side_of_agent = np.array(sides or [0] * len(flags))
    return np.stack([flags[side_of_agent == side].any(axis=0) for side in side_of_agent])


class RewardConfig(Protocol):
    """The setting that decides whether a time limit truncates or terminates an episode."""

    @property
    def time_limit(self) -> Literal["bootstrap", "terminal"]: ...


class LearningSignal(NamedTuple):
    """Rewards of some agents' steps ``[n, T, E]``, or of a side's ``[T, E]``. No return follows `terminal` steps, and
    values are trained on the rows of `loss_mask`.

    With its own reward an agent's return ends with its death. With the team's reward it continues until no agent of the
    side is alive: earlier actions may still win or lose (Yu et al., "The Surprising Effectiveness of PPO in Cooperative
    Multi-Agent Games", 2022).
    """

    rewards: NDArray[Any]
    terminal: Flags
    loss_mask: Flags

    @classmethod
    def of(cls, context: Context[RewardConfig], agents: list[int], team: bool) -> Self:
        """The agents' own rewards or, with `team`, the sums over their sides."""
        batch, sides = context.batch, context.spec.sides
        rewards, terminal, loss_mask = batch.rewards, batch.terminated, batch.alive
        if team:
            rewards, loss_mask = team_rewards(rewards, sides), any_of_side(batch.alive, sides)
            terminal = ~any_of_side(batch.alive & ~batch.terminated, sides)
        terminal = terminal[agents]
        if context.config.time_limit == "terminal":
            terminal = terminal | truncations(batch.ended, batch.cut)
        return cls(rewards[agents], terminal, loss_mask[agents])
