"""Value decomposition: the value of what a side does together is the sum of its agents' own values.

Sunehag et al., "Value-Decomposition Networks For Cooperative Multi-Agent Learning", 2018. The sum couples all agents in
every update and in nothing else: given the joint error, each network's gradient is its own.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np

from functions.algorithms.base import AlgorithmSpec, Context, Stage, StageResult, StageSpec, Summary, as_base
from functions.algorithms.metrics import OWN, ByAgent, due
from functions.algorithms.off_policy.overestimation import overestimation
from functions.algorithms.off_policy.priorities import PART, Draw, Judged
from functions.algorithms.off_policy.replay import joint_signal, learning_signal, scaled
from functions.algorithms.off_policy.reward_scale import RewardScale
from functions.algorithms.off_policy.td import joint_sum, look_ahead, td_loss
from functions.algorithms.value.decomposed import (
    STAGE_SPECS,
    gathered,
    initialise,
    joint_figures,
    mixing_group,
    policy,
    shared_out,
    utility,
)
from functions.algorithms.value.utilities import PARTS, UtilityConfig, part_bytes
from functions.contract import SummaryName
from functions.keys import group_name

__all__ = ["SPEC", "STAGES", "SUMMARIES", "VdnConfig", "initialise", "merge"]


class VdnConfig(UtilityConfig, frozen=True, kw_only=True, tag_field="name", tag="vdn"):
    """Value-decomposition networks."""


def mix(context: Context[VdnConfig], group: int) -> StageResult:
    """The error of the joint value, for every agent on the group's side."""
    side = mixing_group(context, group)
    if not side:
        return StageResult({}, {})
    told = _overestimation(context, side, group) if due(context) else {}
    name, config, whole = group_name(group), context.config, context
    draw = Draw.told(context, name)
    context = draw.shown(context)
    living, ended, signal = context.batch.alive[side], context.batch.ended, joint_signal(context, side)
    units = scaled(whole, name, signal, partial(joint_signal, side=side))
    # The same part of the offset for every agent.
    found = gathered(context, side).raised(units.offset / len(side))
    # The side's reward counts once, and each agent's own value goes on until that agent is gone.
    earned = look_ahead(units.rewards, signal.terminal, ended, config.gamma, config.n_step).returns
    each = learning_signal(context, side, team=False)
    own = look_ahead(np.zeros_like(found.future), each.terminal, ended, config.gamma, config.n_step).targets(
        found.future
    )
    joint, targets = joint_sum(found.taken, living), earned + joint_sum(own, living)
    loss = td_loss(joint, targets.astype(joint.dtype), config.huber_delta, draw.weighing(joint), signal.learned)
    if due(whole):
        told |= joint_figures(loss, units.unit * joint, signal.learned)
        told |= ByAgent.of(side, each.learned).means({"value": units.unit * found.taken[each.learned]})
    judged = Judged.by(draw, config, loss.difference, signal.learned)
    down = shared_out(context, side, loss.grad_output * living, judged)
    return StageResult({**down, f"normaliser/{name}": units.normaliser}, told)


def _overestimation(context: Context[VdnConfig], side: list[int], group: int) -> dict[str, float]:
    living, name = context.batch.alive[side], f"normaliser/{group_name(group)}"
    left = living & ~learning_signal(context, side, team=False).terminal
    offset = RewardScale.of(context.tensors[name]).units(context.config.standardise_rewards).offset
    found = gathered(context, side, OWN).raised(offset / len(side))
    joint, future = joint_sum(found.taken, living), joint_sum(found.future, left)
    return overestimation(context, name, joint, future, joint_signal(context, side))


STAGES: Mapping[str, Stage] = {"utility": utility, "mix": mix, "policy": policy}
SUMMARIES: Mapping[SummaryName, Summary] = {}
merge = as_base
SPEC = AlgorithmSpec(
    "vdn",
    VdnConfig,
    (
        STAGE_SPECS["utility"],
        StageSpec("mix", ("utility",), "team", ("normaliser",), ("normaliser",), couples=True),
        STAGE_SPECS["policy"],
    ),
    PARTS,
    __name__,
    resizable_parts=(PART,),
    part_bytes=part_bytes,
)
