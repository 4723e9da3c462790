"""The stages around a joint value: the mixing stage reads the agents' utilities and returns their gradient.

A joint value couples all agents of a side in every update. Their networks exchange little: the value of each agent's
action and of its next one, and the loss's gradient with respect to the former. So networks may be in different
functions. The gradient equals the gradient of one network that contains them all.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Generic, NamedTuple, Self, TypeVar

import numpy as np

from marless.functions.algorithms.advantages import LearningSignal
from marless.functions.algorithms.agent_inputs import groups_of, leads_side, members, side_of
from marless.functions.algorithms.metrics import OWN, ByAgent, due
from marless.functions.algorithms.off_policy.replay_minibatch import joint_signal, with_minibatch
from marless.functions.algorithms.off_policy.reward_scale import ScaledRewards, scale_rewards
from marless.functions.algorithms.off_policy.td import TdLoss, td_loss
from marless.functions.algorithms.specification import AlgorithmConfig
from marless.functions.algorithms.stage import Context, StageResult
from marless.functions.algorithms.value import utilities as utility_networks
from marless.functions.algorithms.value.priorities import Draw, PriorityUpdate
from marless.functions.algorithms.value.specs import UtilityConfig
from marless.functions.algorithms.value.utilities import Utilities, agent_utilities, train_step
from marless.functions.environments.base import EnvSpec
from marless.functions.keys import group_name
from marless.functions.messages.team import Team
from marless.functions.nn.layers import Array


def initialise(spec: EnvSpec, team: Team, config: UtilityConfig, seed: int, group: int) -> dict[str, Array]:
    """Initialise groups with `utilities.initialise`. A side has one normaliser, in its first group."""
    tensors = utility_networks.initialise(spec, team, config, seed, group)
    if not leads_side(spec, team, group):
        del tensors[f"normaliser/{group_name(group)}"]
    return tensors


Sent = Callable[[Context[UtilityConfig], int, Utilities], Mapping[str, Array]]
"""The tensors of a group's utilities that the mixing stage reads, by part."""


def values(context: Context[UtilityConfig], group: int, utilities: Utilities) -> Mapping[str, Array]:
    """The utilities of the actions taken and of the next ones."""
    return {"taken": utilities.q_taken, "future": utilities.future}


def utility(context: Context[UtilityConfig], group: int, message_of: Sent = values) -> StageResult:
    """The utilities of the group's agents, for the joint value and its target."""
    name = group_name(group)
    draw = Draw.sample(context, name)
    minibatch = draw.minibatch(context)
    utilities = context.memo["utilities", group] = agent_utilities(minibatch, group)
    tensors = {f"{part}/{name}": array for part, array in message_of(minibatch, group, utilities).items()}
    if due(context):
        batch_message = message_of(context, group, agent_utilities(context, group))
        tensors |= {f"{part}{OWN}/{name}": array for part, array in batch_message.items()}
    return StageResult({**tensors, **draw.tensors(name)}, {})


def policy(context: Context[UtilityConfig], group: int) -> StageResult:
    """One gradient step of the group's network on the joint value's loss."""
    name = group_name(group)
    update = PriorityUpdate.load(context, name)
    context = with_minibatch(context, update.indices if update else None)
    # Reuses the forward pass of the stage `utility` if that ran in this function, with the same weights.
    utilities = context.memo.pop(("utilities", group), None) or agent_utilities(context, group, with_future=False)
    steps = int(joint_signal(context, side_of(context.spec, context.team, group)).loss_mask.sum())
    tensors, metrics = train_step(context, group, utilities, context.tensors[f"gradient/{name}"], steps)
    priorities = update.apply(context, name) if update else {}
    return StageResult({**tensors, **priorities}, metrics)


class SideUtilities(NamedTuple):
    """The utilities of a side's agents ``[n, T, E]``, of actions taken and of next actions, see `Utilities`."""

    q_taken: Array
    future: Array

    @classmethod
    def load(cls, context: Context[UtilityConfig], side: list[int], data: str = "") -> Self:
        """Loads the utilities of the side's groups, or with `OWN` of the round's own data, in its last update."""
        return cls(*(sent_by(context, side, name + data) for name in ("taken", "future")))

    def shift(self, offset: float) -> Self:
        """All values plus `offset`."""
        return type(self)(self.q_taken + offset, self.future + offset)


C = TypeVar("C", bound=UtilityConfig)


class Mixing(NamedTuple, Generic[C]):
    """The inputs of a side's mixing stage: the minibatch's `context`, utilities, learning signal and rewards."""

    context: Context[C]
    side: list[int]
    draw: Draw
    utilities: SideUtilities
    signal: LearningSignal
    rewards: ScaledRewards

    @classmethod
    def load(cls, whole: Context[C], group: int, side: list[int]) -> Self:
        """Loads the inputs of the side that `group` leads. `whole` is not a minibatch's context."""
        name = group_name(group)
        draw = Draw.load(whole, name)
        context = draw.minibatch(whole)
        signal = joint_signal(context, side)
        rewards = scale_rewards(whole, name, signal, partial(joint_signal, side=side))
        return cls(context, side, draw, SideUtilities.load(context, side), signal, rewards)

    def loss(self, joint: Array, targets: Array) -> TdLoss:
        """The loss of joint values ``[T, E]``."""
        weights = self.draw.importance(joint)
        return td_loss(
            joint, targets.astype(joint.dtype), self.context.config.huber_delta, weights, self.signal.loss_mask
        )

    def metrics(self, loss: TdLoss, joint: Array) -> dict[str, float]:
        """The joint value is in units of reward."""
        loss_mask = self.signal.loss_mask
        rows = {"td_loss": loss.rows[loss_mask], "joint_value": self.rewards.scale * joint[loss_mask]}
        return ByAgent.of((), loss_mask).means(rows)

    def group_tensors(self, loss: TdLoss, gradients: Array) -> dict[str, Array]:
        """The tensors for every group of the side: its rows of `gradients` ``[n, T, E]``, d loss / d utilities taken,
        and the update of its priorities."""
        update = PriorityUpdate.of(self.draw, self.context.config, loss.difference, self.signal.loss_mask)
        tensors: dict[str, Array] = {}
        for group in groups_of(self.context.team, self.side):
            name, rows = group_name(group), [self.side.index(agent) for agent in members(self.context.team, group)]
            tensors |= {f"gradient/{name}": gradients[rows], **(update.tensors(name) if update else {})}
        return tensors


def mixed_agents(context: Context[UtilityConfig], group: int) -> list[int]:
    """The agents on the group's side, ascending, if the group is the side's first, otherwise []."""
    return side_of(context.spec, context.team, group) if leads_side(context.spec, context.team, group) else []


def sent_by(context: Context[AlgorithmConfig], side: list[int], name: str) -> Array:
    """A tensor that the stage `utility` sent, of the side's agents ``[n, T, E]``."""
    rows = []
    for agent in side:
        group = context.team.groups[agent]
        rows.append(context.tensors[f"{name}/{group_name(group)}"][members(context.team, group).index(agent)])
    return np.stack(rows)
