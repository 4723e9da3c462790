"""Value decomposition: the value of what a side does together is the sum of its agents' own values.

Sunehag et al., "Value-Decomposition Networks For Cooperative Multi-Agent Learning", 2018. The sum couples all agents in
every update and in nothing else: given the joint error, each network's gradient is its own.
"""

from collections.abc import Mapping

import numpy as np

from functions.algorithms.base import AlgorithmSpec, Context, Stage, StageResult, StageSpec, Summary, as_base
from functions.algorithms.decomposed import (
    OWN,
    STAGE_SPECS,
    gathered,
    initialise,
    mixing_group,
    policy,
    shared_out,
    utility,
)
from functions.algorithms.overestimation import due, overestimation
from functions.algorithms.priorities import PART, Draw, Judged
from functions.algorithms.replayed import Outcome, anybody, outcome, standardised
from functions.algorithms.td import look_ahead, td_loss
from functions.algorithms.utilities import PARTS, UtilityConfig
from functions.contract import SummaryName
from functions.keys import group_name

__all__ = ["SPEC", "STAGES", "SUMMARIES", "VdnConfig", "initialise", "merge"]


class VdnConfig(UtilityConfig, frozen=True, kw_only=True, tag_field="name", tag="vdn"):
    """Value-decomposition networks."""


def mix(context: Context, group: int) -> StageResult:
    """The error of the joint value, for every agent on the group's side."""
    side = mixing_group(context, group)
    if not side:
        return StageResult({}, {})
    told = _overestimation(context, side, group) if due(context) else {}
    name, config = group_name(group), context.config
    draw = Draw.told(context, name)
    context = draw.shown(context)
    living, ended = context.batch.alive[side], context.batch.ended
    came, found = outcome(context, side, team=True), gathered(context, side)
    counted = anybody(came.learned)
    rewards, normaliser = standardised(context, name, came.rewards[0], counted)
    # The side's reward counts once, and each agent's own value goes on until that agent is gone.
    earned = look_ahead(rewards, ~anybody(living & ~came.over), ended, config.gamma, config.ahead).returns
    own = look_ahead(np.zeros_like(found.future), came.over, ended, config.gamma, config.ahead).targets(found.future)
    joint, targets = np.where(living, found.taken, 0).sum(axis=0), earned + np.where(living, own, 0).sum(axis=0)
    loss = td_loss(joint, targets.astype(joint.dtype), config.huber, draw.weighing(joint), counted)
    figures = {"td_loss": loss.loss, "joint_value": float(joint.mean())}
    judged = Judged.by(draw, config, loss.difference, counted)
    down = shared_out(context, side, loss.error * living, judged)
    return StageResult({**down, f"normaliser/{name}": normaliser}, figures | told)


def _overestimation(context: Context, side: list[int], group: int) -> dict[str, float]:
    came, found, living = outcome(context, side, team=True), gathered(context, side, OWN), context.batch.alive[side]
    left = living & ~came.over
    joint, future = np.where(living, found.taken, 0).sum(axis=0), np.where(left, found.future, 0).sum(axis=0)
    one = Outcome(came.rewards[:1], ~anybody(left)[None], anybody(came.learned)[None])
    return overestimation(context, f"normaliser/{group_name(group)}", joint[None], future[None], one)


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
    by_window=(PART,),
)
