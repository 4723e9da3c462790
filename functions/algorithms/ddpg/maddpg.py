"""MADDPG: policies see their own observations, and the critics that they go up see the state and what everybody does.

Lowe et al., "Multi-Agent Actor-Critic for Mixed Cooperative-Competitive Environments", 2017. What the other agents do
comes from the replay where a policy learns, and from their target policies in the critics' targets. A critic sees the
agents of all sides that learn, and learns from the reward of its own.
"""

from collections.abc import Mapping
from functools import partial

from functions.algorithms.base import AlgorithmSpec, Context, Stage, StageResult, StageSpec, Summary, as_base
from functions.algorithms.ddpg import ddpg
from functions.algorithms.ddpg.actors import acting_next, acting_now
from functions.algorithms.ddpg.config import DdpgConfig
from functions.algorithms.ddpg.critics import Critics, View
from functions.algorithms.ddpg.ddpg import CRITIC_PARTS, PARTS, POLICY_PARTS, policy
from functions.algorithms.metrics import OWN, due
from functions.algorithms.off_policy.replay import drawn
from functions.algorithms.ppo.mappo import state_width, team_state
from functions.algorithms.rows import members
from functions.contract import SummaryName, Team
from functions.environments.base import EnvSpec
from functions.keys import group_name
from functions.nn.mlp import Array


def _learners(spec: EnvSpec, team: Team, agent: int) -> list[int]:
    """All agents but opponents that do not learn: those are a part of the task, whose state the critic sees."""
    return list(team.learners)


_CRITICS = Critics(View(state_width, team_state, whose=_learners))


class MaddpgConfig(DdpgConfig, frozen=True, kw_only=True, tag_field="name", tag="maddpg"):
    """Multi-agent DDPG."""


def actors(context: Context[DdpgConfig], group: int) -> StageResult:
    """What the group's policy does at the minibatch's steps, and its target policy after them."""
    name, batch = group_name(group), drawn(context)
    made = {f"action/{name}": acting_now(batch, group), f"next_action/{name}": acting_next(batch, group)}
    if due(context):
        made[f"next_action{OWN}/{name}"] = acting_next(context, group)
    return StageResult(made, {})


def critic(context: Context[DdpgConfig], group: int) -> StageResult:
    """One step of the group's critic, and what it makes of the group's policy."""
    now, after = context.tensors[f"action/{group_name(group)}"], _gathered(context, "next_action")
    return _CRITICS.judge(context, group, now, after, _gathered(context, f"next_action{OWN}") if due(context) else {})


def _gathered(context: Context[DdpgConfig], what: str) -> dict[int, Array]:
    """What the groups that learn gave under a name, by agent."""
    found = dict[int, Array]()
    for other in context.team.learning:
        found |= dict(zip(members(context.team, other), context.tensors[f"{what}/{group_name(other)}"], strict=True))
    return found


initialise = partial(ddpg.initialise, _CRITICS)
STAGES: Mapping[str, Stage] = {"actors": actors, "critic": critic, "policy": policy}
SUMMARIES: Mapping[SummaryName, Summary] = {}
merge = as_base
SPEC = AlgorithmSpec(
    "maddpg",
    MaddpgConfig,
    (
        StageSpec("actors", (), "group", ("policy", "target"), ()),
        StageSpec("critic", ("actors",), "group", CRITIC_PARTS, CRITIC_PARTS, couples=True),
        StageSpec("policy", ("critic",), "group", POLICY_PARTS, POLICY_PARTS),
    ),
    PARTS,
    __name__,
    part_bytes=partial(ddpg.part_bytes, _CRITICS),
)
