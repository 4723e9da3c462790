"""Corrections for data that the policies of an earlier round sampled.

Hilton, Cobbe and Schulman, "Batch size-invariance for policy optimization", 2022, distinguish three policies. The
behaviour policy sampled the data, with recorded log-probabilities. The proximal policy is the policy at the round's
start. The current policy is in training. PPO clips the ratio current over proximal, so the trust region is around the
newest policy, and every ratio is 1 at the first step. IMPACT (Luo et al., 2020) and AReaL (Fu et al., 2025) clip around
a target network and a recomputed policy for the same reason. A row's weight is the ratio proximal over behaviour, up to
a cap. As it is positive, min(r wA, clip(r) wA) = w min(r A, clip(r) A): weights are multiplied into the advantages.

`vtrace` has the cap 1, and the advantages and targets of V-trace (`advantages.vtrace`). Its gradient at the first step
is IMPALA's, with normalised advantages. `decoupled` has AReaL's cap 5. AReaL drops rows above it, while here they keep
the weight 5 (truncated importance sampling: Ionides, 2008). Its advantages are GAE. `none` is PPO as it is: it clips
current over behaviour.

Each agent's ratio covers only its own action. A team's values depend on all actions, but the variance of the product of
all ratios grows exponentially with the number of agents. Decentralised policies learn from their own action and treat
the others as a part of the environment. Its drift within a few rounds stays uncorrected.
"""

from typing import NamedTuple

import numpy as np

from marless.functions.algorithms.advantages import Flags, gae, vtrace
from marless.functions.algorithms.agent_inputs import members
from marless.functions.algorithms.engine import engine_of, weights_of
from marless.functions.algorithms.group_inputs import learned_from, observations, starts
from marless.functions.algorithms.metrics import ByAgent
from marless.functions.algorithms.ppo.specs import CORRECTIONS, PpoConfig
from marless.functions.algorithms.stage import Context
from marless.functions.errors import BadRequest
from marless.functions.keys import group_name
from marless.functions.nn.heads import Distribution, distribution
from marless.functions.nn.layers import Array
from marless.functions.nn.losses import mask_logits
from marless.functions.nn.networks import unroll

# Log ratios are cut off here, so that ratios and their squares stay finite.
_MOST_LOG_RATIO = 20.0


class AdvantageEstimates(NamedTuple):
    """`advantages` ``[n, T, E]`` before rows have weights, and `errors` ``[n, T, E]``, value targets less values."""

    advantages: Array
    errors: Array


def estimate_advantages(
    context: Context[PpoConfig], group: int, rewards: Array, values: Array, next_values: Array, terminal: Flags
) -> AdvantageEstimates:
    """GAE of a group's steps ``[n, T, E]``, or V-trace where an earlier policy sampled them and settings say so."""
    config = context.config
    series = rewards, values, next_values, terminal, context.batch.ended, config.discount, config.gae_lambda
    if context.age and CORRECTIONS[config.correction].traces:
        weights = row_weights(context, group)
        advantages = vtrace(*series, weights)
        return AdvantageEstimates(advantages, weights * advantages)
    advantages = gae(*series)
    return AdvantageEstimates(advantages, advantages)


def is_corrected(context: Context[PpoConfig]) -> bool:
    """Return True if rows have weights, and PPO clips the ratio to the policy at the round's start."""
    return bool(context.age) and CORRECTIONS[context.config.correction].cap is not None


def row_weights(context: Context[PpoConfig], group: int) -> Array:
    """The weights of the group's steps ``[n, T, E]``, of double precision: proximal over behaviour, up to the cap."""
    ratios, cap = _ratios(context, group), CORRECTIONS[context.config.correction].cap
    return ratios if cap is None else np.minimum(ratios, cap)


def proximal_log_probability(context: Context[PpoConfig], group: int) -> Array:
    """The log-probability ``[n, T, E]`` of the recorded actions by the policy that the round begins with.

    A recurrent network reads whole rollouts, from empty memory at every start of an episode, as the actor's did.
    """
    key = ("proximal_log_probability", group)
    if key not in context.memo:
        weights, batch = weights_of(context, f"policy/{group_name(group)}"), context.batch
        begins, by_agent = starts(context), []
        for agent in members(context.team, group):
            head = policy_head(context, agent)
            outputs, _ = unroll(weights, observations(context, agent), begins)
            masked = mask_logits(outputs, None if batch.masks is None else batch.of(batch.masks, agent))
            by_agent.append(head.log_probability(masked, weights.log_std, batch.of(batch.actions, agent)))
        context.memo[key] = np.stack(by_agent)
    result: Array = context.memo[key]
    return result


def policy_head(context: Context[PpoConfig], agent: int) -> Distribution:
    """The head of the agent's policy, which computes with the arithmetic of the engine."""
    kind = context.spec.classes[context.batch.place(agent)[0]]
    return distribution(kind, arithmetic=engine_of(context.config).arithmetic)


def behaviour_log_probability(context: Context[PpoConfig], agent: int) -> Array:
    """The recorded log-probability ``[T, E]`` of the agent's actions.

    Raises `BadRequest` for trajectories without log-probabilities.
    """
    if context.batch.log_probability is None:
        raise BadRequest("the trajectories hold no log-probabilities, which PPO learns from")
    return context.batch.of(context.batch.log_probability, agent)


def staleness(context: Context[PpoConfig], group: int) -> dict[str, float]:
    """Measure the distance of old data from the round's policies, as metrics of the rows that the group learns from.

    `stale_ratio` is the mean of the ratios proximal over behaviour, 1 but for chance. `stale_clip_fraction` is the
    share of rows with a ratio above the cap, which is then their weight. `effective_sample_size` is the share of the
    rows that would say as much with equal weights (Kish, 1965): mean² / mean of squares.
    """
    mask, cap = learned_from(context, group), CORRECTIONS[context.config.correction].cap
    ratio = _ratios(context, group)[mask]
    by_row = {"stale_ratio": ratio, "effective_sample_size": ratio * ratio}
    if cap is not None:
        by_row["stale_clip_fraction"] = ratio > cap
    metrics = ByAgent.of(members(context.team, group), mask).means(by_row)
    for name in [name for name in metrics if name.startswith("effective_sample_size")]:
        mean = metrics[name.replace("effective_sample_size", "stale_ratio")]
        metrics[name] = mean * mean / metrics[name] if metrics[name] else 0.0
    return metrics


def _ratios(context: Context[PpoConfig], group: int) -> Array:
    """Proximal over behaviour ``[n, T, E]``, in double precision, and 1 for dead agents, which take no action."""
    agents = members(context.team, group)
    recorded = np.stack([behaviour_log_probability(context, agent) for agent in agents]).astype(np.float64)
    change = np.clip(proximal_log_probability(context, group) - recorded, -_MOST_LOG_RATIO, _MOST_LOG_RATIO)
    return engine_of(context.config).arithmetic.exp(np.where(context.batch.alive[agents], change, 0.0))
