"""Independent SAC: every group's policy follows critics that see one agent's own observation and action.

Haarnoja et al., "Soft Actor-Critic Algorithms and Applications", 2018, per agent.
"""

from collections.abc import Mapping
from functools import partial

from marless.functions.algorithms.agent_inputs import members
from marless.functions.algorithms.metrics import OWN, due
from marless.functions.algorithms.off_policy.replay_minibatch import with_minibatch
from marless.functions.algorithms.off_policy.specs import OWN_VIEW
from marless.functions.algorithms.sac import sac
from marless.functions.algorithms.sac.critics import Followed, train_step
from marless.functions.algorithms.sac.policy_actions import actions_after, current_actions
from marless.functions.algorithms.sac.sac import policy
from marless.functions.algorithms.sac.specs import SacConfig
from marless.functions.algorithms.stage import Context, Stage, StageResult


def critic(context: Context[SacConfig], group: int) -> StageResult:
    """One step of the group's critics, and the gradient of their values with respect to the policy's actions."""
    minibatch, after_own = with_minibatch(context), _policy_actions(context, group, OWN) if due(context) else None
    return train_step(
        OWN_VIEW, context, group, current_actions(minibatch, group), _policy_actions(minibatch, group), after_own
    )


def _policy_actions(context: Context[SacConfig], group: int, address: str = "") -> Followed:
    actions, entropy = actions_after(context, group, address)
    return Followed(dict(zip(members(context.team, group), actions, strict=True)), entropy)


initialise = partial(sac.initialise, OWN_VIEW)
STAGES: Mapping[str, Stage] = {"critic": critic, "policy": policy}
