"""Independent DDPG: every group's policy follows a critic that sees one agent's own observation and action.

Lillicrap et al., "Continuous control with deep reinforcement learning", 2016, per agent; choices as in MADDPG.
"""

from collections.abc import Mapping
from functools import partial

from functions.algorithms.ddpg import ddpg
from functions.algorithms.ddpg.actors import current_actions, next_actions
from functions.algorithms.ddpg.config import DdpgConfig
from functions.algorithms.ddpg.critics import train_step
from functions.algorithms.ddpg.ddpg import PARTS, POLICY_PARTS, policy
from functions.algorithms.metrics import due
from functions.algorithms.off_policy.critic_inputs import OWN_VIEW
from functions.algorithms.off_policy.critics import CRITIC_PARTS
from functions.algorithms.off_policy.replay import with_minibatch
from functions.algorithms.rows import members
from functions.algorithms.specification import AlgorithmSpec, StageSpec
from functions.algorithms.stage import Context, Stage, StageResult, Summary, as_base
from functions.contract import SummaryName


class IddpgConfig(DdpgConfig, frozen=True, kw_only=True, tag_field="name", tag="iddpg"):
    """Independent DDPG."""


def critic(context: Context[DdpgConfig], group: int) -> StageResult:
    """One step of the group's critic, and the gradient of its values with respect to the policy's actions."""
    minibatch, agents = with_minibatch(context), members(context.team, group)
    after = dict(zip(agents, next_actions(minibatch, group), strict=True))
    played = dict(zip(agents, next_actions(context, group), strict=True)) if due(context) else {}
    return train_step(OWN_VIEW, context, group, current_actions(minibatch, group), after, played)


initialise = partial(ddpg.initialise, OWN_VIEW)
STAGES: Mapping[str, Stage] = {"critic": critic, "policy": policy}
SUMMARIES: Mapping[SummaryName, Summary] = {}
merge = as_base
SPEC = AlgorithmSpec(
    "iddpg",
    IddpgConfig,
    (
        StageSpec("critic", (), "group", ("policy", "target", *CRITIC_PARTS), CRITIC_PARTS),
        StageSpec("policy", ("critic",), "group", POLICY_PARTS, POLICY_PARTS),
    ),
    PARTS,
    __name__,
    part_bytes=partial(ddpg.part_bytes, OWN_VIEW),
)
