"""Independent Q-learning: every group values its agents' own actions by their own observations alone.

Tan, "Multi-Agent Reinforcement Learning: Independent vs. Cooperative Agents", 1993, with networks after Mnih et al.,
2015, and double Q-learning after van Hasselt et al., 2016. Agents learn from the reward of their side by default, as in
Papoudakis et al., "Benchmarking Multi-Agent Deep Reinforcement Learning Algorithms in Cooperative Tasks", 2021.
"""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Literal

from msgspec import Meta

from functions.algorithms.base import AlgorithmSpec, Context, Stage, StageResult, StageSpec, Summary, as_base
from functions.algorithms.metrics import ByAgent, due
from functions.algorithms.off_policy.overestimation import overestimation
from functions.algorithms.off_policy.priorities import PART, Draw, Judged
from functions.algorithms.off_policy.replay import learning_signal, scaled
from functions.algorithms.off_policy.reward_scale import RewardScale
from functions.algorithms.off_policy.td import look_ahead, td_loss
from functions.algorithms.rows import members
from functions.algorithms.value.utilities import PARTS, UtilityConfig, initialise, part_bytes, trained, utilities
from functions.contract import SummaryName
from functions.keys import group_name

__all__ = ["SPEC", "STAGES", "SUMMARIES", "IqlConfig", "initialise", "merge"]


class IqlConfig(UtilityConfig, frozen=True, kw_only=True, tag_field="name", tag="iql"):
    """Independent Q-learning."""

    reward: Annotated[
        Literal["own", "team"], Meta(description="own, or the sum over one's side, which goes on when an agent dies")
    ] = "team"


def policy(context: Context[IqlConfig], group: int) -> StageResult:
    """One step of the group's network towards what its agents got and may still get."""
    told = _overestimation(context, group) if due(context) else {}
    name, config, whole = group_name(group), context.config, context
    draw = Draw.of(context, name)
    context = draw.shown(context)
    of = partial(learning_signal, agents=members(context.team, group), team=config.reward == "team")
    found, signal = utilities(context, group), of(context)
    units = scaled(whole, name, signal, of)
    n_step = look_ahead(units.rewards, signal.terminal, context.batch.ended, config.gamma, config.n_step)
    taken, targets = found.taken + units.offset, n_step.targets(found.future + units.offset)
    loss = td_loss(taken, targets.astype(taken.dtype), config.huber_delta, draw.weighing(taken), signal.learned)
    tensors, norm = trained(context, group, found, loss.grad_output)
    if due(whole):
        rows = {"td_loss": loss.rows[signal.learned], "value": units.unit * taken[signal.learned]}
        told |= {"policy_grad_norm": norm, **ByAgent.of(members(whole.team, group), signal.learned).means(rows)}
    judged = Judged.by(draw, config, loss.difference, signal.learned)
    written = judged.written(context, name) if judged else {}
    return StageResult({**tensors, f"normaliser/{name}": units.normaliser, **written}, told)


def _overestimation(context: Context[IqlConfig], group: int) -> dict[str, float]:
    agents, name = members(context.team, group), f"normaliser/{group_name(group)}"
    found, signal = utilities(context, group), learning_signal(context, agents, context.config.reward == "team")
    offset = RewardScale.of(context.tensors[name]).units(context.config.standardise_rewards).offset
    return overestimation(context, name, found.taken + offset, found.future + offset, signal, agents)


STAGES: Mapping[str, Stage] = {"policy": policy}
SUMMARIES: Mapping[SummaryName, Summary] = {}
merge = as_base
SPEC = AlgorithmSpec(
    "iql",
    IqlConfig,
    (StageSpec("policy", (), "group", PARTS, PARTS),),
    PARTS,
    __name__,
    resizable_parts=(PART,),
    part_bytes=part_bytes,
)
