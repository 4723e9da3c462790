"""Independent DDPG: every group's policy goes up a critic that sees an agent's own observation and action alone.

Lillicrap et al., "Continuous control with deep reinforcement learning", 2016, per agent; choices as in MADDPG.
"""

from collections.abc import Mapping
from functools import partial

from functions.algorithms.base import AlgorithmSpec, Context, Stage, StageResult, StageSpec, Summary, as_base
from functions.algorithms.ddpg import ddpg
from functions.algorithms.ddpg.actors import acting_next, acting_now
from functions.algorithms.ddpg.config import DdpgConfig
from functions.algorithms.ddpg.critics import Critics, View
from functions.algorithms.ddpg.ddpg import CRITIC_PARTS, PARTS, POLICY_PARTS, policy
from functions.algorithms.metrics import due
from functions.algorithms.off_policy.replay import drawn
from functions.algorithms.ppo.ippo import own_width
from functions.algorithms.rows import members, own_observation
from functions.contract import SummaryName

_CRITICS = Critics(View(own_width, own_observation, whose=lambda spec, team, agent: [agent]))


class IddpgConfig(DdpgConfig, frozen=True, kw_only=True, tag_field="name", tag="iddpg"):
    """Independent DDPG."""


def critic(context: Context[DdpgConfig], group: int) -> StageResult:
    """One step of the group's critic, and what it makes of the group's policy."""
    batch, agents = drawn(context), members(context.team, group)
    after = dict(zip(agents, acting_next(batch, group), strict=True))
    played = dict(zip(agents, acting_next(context, group), strict=True)) if due(context) else {}
    return _CRITICS.judge(context, group, acting_now(batch, group), after, played)


initialise = partial(ddpg.initialise, _CRITICS)
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
    part_bytes=partial(ddpg.part_bytes, _CRITICS),
)
