"""Heterogeneous-agent PPO: the groups of a side learn in turn, each given the changes of the groups before it.

Kuba et al., "Trust Region Policy Optimisation in Multi-Agent Reinforcement Learning", 2022, algorithm 4. The joint
advantage of an update is a sum over agents in any order. An agent's term is conditioned on the new policies of the
agents before it. So a group's advantages are multiplied by the probability ratios, new over old, of the actions that
earlier groups took. The order is drawn for every round.

Like MAPPO, each group has a centralised critic. With the team's reward, the default, all critics learn the same values.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from marless.functions.algorithms.agent_inputs import groups_of, members, side_of
from marless.functions.algorithms.engine import engine_of, weights_of
from marless.functions.algorithms.group_inputs import observations, pool_rows, starts
from marless.functions.algorithms.ppo import correction
from marless.functions.algorithms.ppo.merge import Merging
from marless.functions.algorithms.ppo.ppo import Ppo, policy_loss, train_policy
from marless.functions.algorithms.ppo.specs import TEAM, HappoConfig
from marless.functions.algorithms.stage import Context, Stage, StageResult
from marless.functions.keys import group_name
from marless.functions.nn.layers import Array
from marless.functions.nn.losses import mask_logits
from marless.functions.nn.networks import Weights, unroll


def policy(context: Context[HappoConfig], group: int) -> StageResult:
    """Trains the group's policy on advantages times the ratios of earlier groups, and computes its own ratios."""
    factor, loss = _factor(context, group), policy_loss(context, group)
    weights = pool_rows(context, group, lambda agent: factor)
    result = train_policy(context, group, replace(loss, advantage=loss.advantage * weights))
    ratio = _ratio(context, group, weights_of(replace(context, tensors=result.tensors), f"policy/{group_name(group)}"))
    return result._replace(tensors={**result.tensors, f"ratio/{group_name(group)}": ratio})


def _factor(context: Context[HappoConfig], group: int) -> Array:
    """The product ``[T, E]`` of the ratios of the groups on its side that learned before it in this round."""
    factor: Array = np.ones(context.batch.ended.shape, context.tensors[f"advantage/{group_name(group)}"].dtype)
    for updated_group in groups_of(context.team, side_of(context.spec, context.team, group)):
        factor = factor * context.tensors.get(f"ratio/{group_name(updated_group)}", 1)
    return factor


def _ratio(context: Context[HappoConfig], group: int, weights: Weights) -> Array:
    """The probability of the actions of the group's agents ``[T, E]``, new `weights` over old weights.

    Both are on inputs as the round sampled them: new statistics of inputs are no step of the policy. The old weights
    are the weights at the round's start or, if the data is old and not corrected, at sampling.
    """
    batch = context.batch
    old = correction.proximal_log_probability(context, group) if correction.is_corrected(context) else None
    change: NDArray[np.floating] = np.zeros(batch.ended.shape, weights.dtype)
    for place, agent in enumerate(members(context.team, group)):
        head = correction.policy_head(context, agent)
        outputs, _ = unroll(weights, observations(context, agent), starts(context))
        legal = None if batch.masks is None else batch.of(batch.masks, agent)
        new = head.log_probability(mask_logits(outputs, legal), weights.log_std, batch.of(batch.actions, agent))
        before = correction.behaviour_log_probability(context, agent) if old is None else old[place]
        change += (new - before) * batch.alive[agent]
    return engine_of(context.config).arithmetic.exp(change)


_PPO = Ppo(TEAM)
STAGES: Mapping[str, Stage] = {**_PPO.stages, "policy": policy}
initialise = _PPO.initialise
merge = Merging(TEAM).merge
