"""Multi-agent SAC: policies see their own observations, and their critics the state and the actions of all learners.

SAC with the critics of MADDPG (Lowe et al., "Multi-Agent Actor-Critic for Mixed Cooperative-Competitive Environments",
2017). The other agents' actions are the recorded actions in a policy's gradient, and samples of their policies in the
critics' targets. A critic sees the learning agents of all sides, and learns from the reward of its side.
"""

from collections.abc import Mapping
from functools import partial

from marless.functions.algorithms.agent_inputs import members
from marless.functions.algorithms.metrics import OWN, due
from marless.functions.algorithms.off_policy.replay_minibatch import with_minibatch
from marless.functions.algorithms.off_policy.specs import TEAM_VIEW
from marless.functions.algorithms.sac import sac
from marless.functions.algorithms.sac.critics import Followed, train_step
from marless.functions.algorithms.sac.policy_actions import After, actions_after, current_actions
from marless.functions.algorithms.sac.sac import policy
from marless.functions.algorithms.sac.specs import SacConfig
from marless.functions.algorithms.stage import Context, Stage, StageResult
from marless.functions.keys import group_name
from marless.functions.nn.layers import Array


def actors(context: Context[SacConfig], group: int) -> StageResult:
    """Samples of the group's policy at the minibatch's steps, and after them."""
    minibatch = with_minibatch(context)
    tensors = {f"action/{group_name(group)}": current_actions(minibatch, group)}
    tensors |= _as_tensors(actions_after(minibatch, group), group)
    if due(context):
        tensors |= _as_tensors(actions_after(context, group, OWN), group, OWN)
    return StageResult(tensors, {})


def critic(context: Context[SacConfig], group: int) -> StageResult:
    """One step of the group's critics, and the gradient of their values with respect to the policy's actions."""
    after_own = _policy_actions(context, group, OWN) if due(context) else None
    now = context.tensors[f"action/{group_name(group)}"]
    return train_step(TEAM_VIEW, context, group, now, _policy_actions(context, group), after_own)


def _as_tensors(after: After, group: int, suffix: str = "") -> dict[str, Array]:
    name = group_name(group)
    return {f"next_action{suffix}/{name}": after.actions, f"next_entropy{suffix}/{name}": after.entropy}


def _policy_actions(context: Context[SacConfig], group: int, suffix: str = "") -> Followed:
    arrays = dict[int, Array]()
    for peer in context.team.learning:
        group_actions = context.tensors[f"next_action{suffix}/{group_name(peer)}"]
        arrays |= dict(zip(members(context.team, peer), group_actions, strict=True))
    return Followed(arrays, context.tensors[f"next_entropy{suffix}/{group_name(group)}"])


initialise = partial(sac.initialise, TEAM_VIEW)
STAGES: Mapping[str, Stage] = {"actors": actors, "critic": critic, "policy": policy}
