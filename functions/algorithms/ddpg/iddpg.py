"""Independent DDPG: every group's policy follows a critic that sees one agent's own observation and action.

Lillicrap et al., "Continuous control with deep reinforcement learning", 2016, per agent. Choices follow MADDPG.
"""

from collections.abc import Mapping
from functools import partial

from marless.functions.algorithms.agent_inputs import members
from marless.functions.algorithms.ddpg import ddpg
from marless.functions.algorithms.ddpg.critics import train_step
from marless.functions.algorithms.ddpg.ddpg import policy
from marless.functions.algorithms.ddpg.policy_actions import current_actions, next_actions
from marless.functions.algorithms.ddpg.specs import DdpgConfig
from marless.functions.algorithms.metrics import due
from marless.functions.algorithms.off_policy.replay_minibatch import with_minibatch
from marless.functions.algorithms.off_policy.specs import OWN_VIEW
from marless.functions.algorithms.stage import Context, Stage, StageResult


def critic(context: Context[DdpgConfig], group: int) -> StageResult:
    """One step of the group's critic, and the gradient of its values with respect to the policy's actions."""
    minibatch, agents = with_minibatch(context), members(context.team, group)
    after = dict(zip(agents, next_actions(minibatch, group), strict=True))
    after_own = dict(zip(agents, next_actions(context, group), strict=True)) if due(context) else {}
    return train_step(OWN_VIEW, context, group, current_actions(minibatch, group), after, after_own)


initialise = partial(ddpg.initialise, OWN_VIEW)
STAGES: Mapping[str, Stage] = {"critic": critic, "policy": policy}
