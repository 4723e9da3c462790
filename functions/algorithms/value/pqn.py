"""Parallel Q-learning: networks of action values that learn from the round's own data, without replay.

Gallici et al., "Simplifying Deep Temporal Difference Learning", 2025. Layer norm keeps values stable without a target
network. Targets are computed once a round, by Q(λ). The value of a side is the sum of its agents' values. Sunehag et
al., "Value-Decomposition Networks For Cooperative Multi-Agent Learning", 2018.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from marless.functions.algorithms.advantages import LearningSignal, next_values
from marless.functions.algorithms.agent_inputs import groups_of, leads_side, members, observation_shape, side_of
from marless.functions.algorithms.engine import weights_of
from marless.functions.algorithms.group_inputs import observations, observations_after_cuts
from marless.functions.algorithms.metrics import ByAgent
from marless.functions.algorithms.minibatches import Independent, RowIndices
from marless.functions.algorithms.new_networks import NetworkPart, new_network
from marless.functions.algorithms.off_policy.target_networks import legal_next
from marless.functions.algorithms.off_policy.td import (
    LambdaReturns,
    TdLoss,
    gather_actions,
    joint_sum,
    lambda_returns,
    scatter_actions,
    td_loss,
)
from marless.functions.algorithms.stage import Context, Stage, StageResult
from marless.functions.algorithms.trainable import Trainable, last_epoch, mean_of_steps, minibatches
from marless.functions.algorithms.value.decomposition_stages import sent_by
from marless.functions.algorithms.value.pqn_specs import PqnConfig
from marless.functions.algorithms.value.specs import utility_network
from marless.functions.algorithms.value.utilities import recorded_actions
from marless.functions.environments.base import EnvSpec
from marless.functions.errors import BadRequest
from marless.functions.keys import group_name
from marless.functions.messages.team import Team
from marless.functions.nn.layers import Array
from marless.functions.nn.losses import mask_logits
from marless.functions.randomness import generator


def initialise(spec: EnvSpec, team: Team, config: PqnConfig, seed: int, group: int) -> dict[str, Array]:
    """Return a group's network and moments at round 0. Raise `BadRequest` for unsupported actions."""
    network = utility_network(spec, team, config, group)
    part = NetworkPart("policy", observation_shape(spec, members(team, group)[0]), 1.0, acts=True)
    return new_network(config, part, network, group, generator(seed, "initialise", group))


def value(context: Context[PqnConfig], group: int) -> StageResult:
    """Return the values ``[n, T, E]`` of the actions of the group's n agents, and of the best legal next actions.

    Raise `BadRequest` for a network with memory.
    """
    batch, agents, name = context.batch, members(context.team, group), group_name(group)
    weights = weights_of(context, f"policy/{name}")
    if weights.hidden_size:
        raise BadRequest("pqn learns from single steps, so algorithm.network needs one without memory")
    now, after = [], []
    for agent in agents:
        steps = observations(context, agent)
        outputs = weights.forward(steps.reshape(-1, steps.shape[-1])).outputs
        now.append(outputs.reshape(*steps.shape[:2], -1))
        after.append(weights.forward(observations_after_cuts(context, agent)).outputs)
    values = np.stack(now)
    following = next_values(values, np.stack(after), batch.cut)
    best, alive = mask_logits(following, legal_next(context, agents)).max(axis=-1), batch.alive[agents]
    of_actions = gather_actions(values, recorded_actions(context, agents))
    metrics = ByAgent.of(agents, alive).means({"value": of_actions[alive]})
    return StageResult({f"taken/{name}": of_actions, f"best/{name}": best}, metrics)


def target(context: Context[PqnConfig], group: int) -> StageResult:
    """Return the group's targets ``[n, T, E]``.

    With a decomposition, the side's first group returns the target of the sum over each group, ``[T, E]``.
    """
    name = group_name(group)
    if context.config.decomposition == "sum":
        return StageResult(_joint_targets(context, group), {})
    signal = LearningSignal.of(context, members(context.team, group), context.config.reward == "team")
    return StageResult({f"target/{name}": _returns(context, signal).targets(context.tensors[f"best/{name}"])}, {})


def _joint_targets(context: Context[PqnConfig], group: int) -> dict[str, Array]:
    """Return the targets of the side that the group leads, else none.

    Groups train at the same time. So each group corrects its share of the joint error, in proportion to its agents.
    """
    if not leads_side(context.spec, context.team, group):
        return {}
    side = side_of(context.spec, context.team, group)
    alive, by_agent = context.batch.alive[side], LearningSignal.of(context, side, team=False)
    joint = LearningSignal(*(arrays[0] for arrays in LearningSignal.of(context, side, team=True)))
    values, best = (sent_by(context, side, part) for part in ("taken", "best"))
    # The side's reward counts once, and each agent's own value is bootstrapped until that agent terminates.
    bootstrap = _returns(context, by_agent._replace(rewards=np.zeros_like(best))).targets(best)
    error = _returns(context, joint).returns + joint_sum(bootstrap - values, alive)
    targets = {}
    for number in groups_of(context.team, side):
        rows = [side.index(agent) for agent in members(context.team, number)]
        share = error.dtype.type(len(rows) / len(side))
        targets[f"target/{group_name(number)}"] = joint_sum(values[rows], alive[rows]) + share * error
    return targets


def _returns(context: Context[PqnConfig], signal: LearningSignal) -> LambdaReturns:
    config = context.config
    return lambda_returns(signal.rewards, signal.terminal, context.batch.ended, config.discount, config.td_lambda)


@dataclass(frozen=True)
class SumLoss:
    """The squared error of the sum over agents. `actions` and `alive` are ``[agents, B]``, and `targets` ``[B]``."""

    actions: NDArray[np.int64]
    alive: NDArray[np.bool_]
    targets: Array

    def __call__(self, outputs: Array, log_std: Array | None, rows: RowIndices) -> TdLoss:
        """Return the loss of some steps. `rows` are the indices of their rows, agent after agent."""
        columns = rows[: len(rows) // len(self.actions)]
        actions, alive = self.actions[:, columns], self.alive[:, columns]
        values = outputs.reshape(*actions.shape, -1)
        loss = td_loss(joint_sum(gather_actions(values, actions), alive), self.targets[columns])
        gradient = scatter_actions(loss.grad_output * alive, actions, values.shape[-1])
        return replace(loss, grad_output=gradient.astype(outputs.dtype).reshape(outputs.shape))


def policy(context: Context[PqnConfig], group: int) -> StageResult:
    """Train the group's network on the targets."""
    name, config, agents = group_name(group), context.config, members(context.team, group)
    network, targets = Trainable.load(context, "policy", name), context.tensors[f"target/{name}"]
    is_joint = config.decomposition == "sum"
    signal = LearningSignal.of(context, agents, is_joint or config.reward == "team")
    rows = (len(agents), -1) if is_joint else (1, -1)
    learned = (signal.loss_mask[0] if is_joint else signal.loss_mask).ravel()
    inputs = np.stack([observations(context, agent) for agent in agents])
    inputs = inputs.reshape(*rows, inputs.shape[-1])[:, learned].reshape(-1, inputs.shape[-1])
    actions, alive = recorded_actions(context, agents), context.batch.alive[agents] | (not is_joint)
    loss = SumLoss(actions.reshape(rows)[:, learned], alive.reshape(rows)[:, learned], targets.ravel()[learned])
    pieces = minibatches(Independent(inputs, rows[0]), context, "policy", group)
    steps = last_epoch(network.learn(pieces, loss), config.epochs)
    metrics = {
        "td_loss": mean_of_steps(float(step.loss.rows.mean()) for step in steps),
        "policy_grad_norm": mean_of_steps(step.norm for step in steps),
    }
    return StageResult(network.tensors("policy", name), metrics)


STAGES: Mapping[str, Stage] = {"value": value, "target": target, "policy": policy}
