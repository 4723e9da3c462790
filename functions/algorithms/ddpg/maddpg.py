"""MADDPG: policies see their own observations, and their critics see the state and the actions of all learners.

Lowe et al., "Multi-Agent Actor-Critic for Mixed Cooperative-Competitive Environments", 2017. The other agents' actions
are the recorded actions in a policy's gradient, and their target policies' actions in the critics' targets. A critic
sees the learning agents of all sides, and learns from the reward of its side.
"""

from collections.abc import Mapping
from functools import partial

from marless.functions.algorithms.agent_inputs import members
from marless.functions.algorithms.ddpg import ddpg
from marless.functions.algorithms.ddpg.critics import train_step
from marless.functions.algorithms.ddpg.ddpg import policy
from marless.functions.algorithms.ddpg.policy_actions import current_actions, next_actions
from marless.functions.algorithms.ddpg.specs import DdpgConfig
from marless.functions.algorithms.metrics import OWN, due
from marless.functions.algorithms.off_policy.replay_minibatch import with_minibatch
from marless.functions.algorithms.off_policy.specs import TEAM_VIEW
from marless.functions.algorithms.stage import Context, Stage, StageResult
from marless.functions.keys import group_name
from marless.functions.nn.layers import Array


def actors(context: Context[DdpgConfig], group: int) -> StageResult:
    """The actions of the group's policy at the minibatch's steps, and of its target policy after them."""
    name, minibatch = group_name(group), with_minibatch(context)
    tensors = {
        f"action/{name}": current_actions(minibatch, group),
        f"next_action/{name}": next_actions(minibatch, group),
    }
    if due(context):
        tensors[f"next_action{OWN}/{name}"] = next_actions(context, group)
    return StageResult(tensors, {})


def critic(context: Context[DdpgConfig], group: int) -> StageResult:
    """One step of the group's critic, and the gradient of its values with respect to the policy's actions."""
    now, after = context.tensors[f"action/{group_name(group)}"], _by_agent(context, "next_action")
    after_own = _by_agent(context, f"next_action{OWN}") if due(context) else {}
    return train_step(TEAM_VIEW, context, group, now, after, after_own)


def _by_agent(context: Context[DdpgConfig], part: str) -> dict[int, Array]:
    arrays = dict[int, Array]()
    for peer in context.team.learning:
        arrays |= dict(zip(members(context.team, peer), context.tensors[f"{part}/{group_name(peer)}"], strict=True))
    return arrays


initialise = partial(ddpg.initialise, TEAM_VIEW)
STAGES: Mapping[str, Stage] = {"actors": actors, "critic": critic, "policy": policy}
