"""Independent Q-learning: every group values its agents' own actions by their own observations alone.

Tan, "Multi-Agent Reinforcement Learning: Independent vs. Cooperative Agents", 1993, with networks after Mnih et al.,
2015, and double Q-learning after van Hasselt et al., 2016. Agents learn from the reward of their side by default, as in
Papoudakis et al., "Benchmarking Multi-Agent Deep Reinforcement Learning Algorithms in Cooperative Tasks", 2021.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta

from functions.algorithms.base import AlgorithmSpec, Context, Stage, StageResult, StageSpec, Summary, as_base
from functions.algorithms.overestimation import due, overestimation
from functions.algorithms.priorities import PART, Draw, Judged
from functions.algorithms.replayed import outcome, standardised
from functions.algorithms.rows import members
from functions.algorithms.td import look_ahead, td_loss
from functions.algorithms.utilities import PARTS, UtilityConfig, initialise, trained, utilities
from functions.contract import SummaryName
from functions.keys import group_name

__all__ = ["SPEC", "STAGES", "SUMMARIES", "IqlConfig", "initialise", "merge"]


class IqlConfig(UtilityConfig, frozen=True, kw_only=True, tag_field="name", tag="iql"):
    """Independent Q-learning."""

    reward: Annotated[Literal["own", "team"], Meta(description="own, or the sum over the agents of one's side")] = (
        "team"
    )


def policy(context: Context, group: int) -> StageResult:
    """One step of the group's network towards what its agents got and may still get."""
    told = _overestimation(context, group) if due(context) else {}
    name, agents, config = group_name(group), members(context.team, group), context.config
    draw = Draw.of(context, name)
    context = draw.shown(context)
    found, came = utilities(context, group), outcome(context, agents, config.reward == "team")
    rewards, normaliser = standardised(context, name, came.rewards, came.learned)
    targets = look_ahead(rewards, came.over, context.batch.ended, config.gamma, config.ahead).targets(found.future)
    weights = draw.weighing(found.taken)
    loss = td_loss(found.taken, targets.astype(found.taken.dtype), config.huber, weights, came.learned)
    tensors, norm = trained(context, group, found, loss.error)
    figures = {"td_loss": loss.loss, "policy_grad_norm": norm, "value": float(found.taken.mean())}
    judged = Judged.by(draw, config, loss.difference, came.learned)
    written = judged.written(context, name) if judged else {}
    return StageResult({**tensors, f"normaliser/{name}": normaliser, **written}, figures | told)


def _overestimation(context: Context, group: int) -> dict[str, float]:
    agents, name = members(context.team, group), f"normaliser/{group_name(group)}"
    found, came = utilities(context, group), outcome(context, agents, context.config.reward == "team")
    return overestimation(context, name, found.taken, found.future, came, agents)


STAGES: Mapping[str, Stage] = {"policy": policy}
SUMMARIES: Mapping[SummaryName, Summary] = {}
merge = as_base
SPEC = AlgorithmSpec(
    "iql",
    IqlConfig,
    (StageSpec("policy", (), "group", PARTS, PARTS),),
    PARTS,
    __name__,
    by_window=(PART,),
)
