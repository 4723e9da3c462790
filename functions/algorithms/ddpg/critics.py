"""Critics of deterministic policies: their training, and the gradient of their values with respect to the actions."""

from marless.functions.algorithms.ddpg.specs import DdpgConfig
from marless.functions.algorithms.metrics import due
from marless.functions.algorithms.off_policy.critic_inputs import Actions, CriticInputs, OwnActions
from marless.functions.algorithms.off_policy.critics import critic_overestimation, learn_values
from marless.functions.algorithms.off_policy.replay_minibatch import learning_signal
from marless.functions.algorithms.off_policy.specs import View
from marless.functions.algorithms.off_policy.target_networks import NetworkInputs, by_column
from marless.functions.algorithms.stage import Context, StageResult
from marless.functions.keys import group_name
from marless.functions.nn.layers import Array
from marless.functions.nn.networks import Weights


def train_step(
    view: View, context: Context[DdpgConfig], group: int, now: Array, after: Actions, after_own: Actions
) -> StageResult:
    """One step of the group's critics and their targets, and d policy loss / d policy's actions.

    `context` is not a minibatch's. `now` ``[n, T, E, width]`` are the policy's actions at the minibatch's steps, and
    `after` the target policies' actions after them. `after_own` are the actions after all of the round's own steps, in
    its last update. If there are two critics, the policy follows the first, like TD3.
    """
    metrics = critic_overestimation(view, context, group, after_own) if due(context) else {}
    update = learn_values(view, context, group, after)
    gradient = _action_gradient(update.weights[0], update.inputs, update.steps, now)
    return StageResult({**update.tensors, f"gradient/{group_name(group)}": gradient}, metrics | update.metrics)


def _action_gradient(weights: Weights, inputs: CriticInputs, steps: NetworkInputs, own_actions: Array) -> Array:
    """d(-mean Q_i) / d `own_actions` ``[n, T, E, width]``, with recorded actions of others. The mean is over living
    agents' rows."""
    loss_mask = learning_signal(inputs.context, inputs.agents, team=False).loss_mask
    grad_output = by_column(loss_mask) * weights.dtype.type(-1 / max(1, int(loss_mask.sum())))
    return OwnActions.of(weights, inputs, steps, own_actions).gradient(weights, grad_output)
