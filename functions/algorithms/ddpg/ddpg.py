"""Deterministic policy gradients: critics value actions, and policies follow the gradient of the critics' values.

The common part of IDDPG and MADDPG. Their critics are in `critics.py`. Silver et al., "Deterministic Policy Gradient
Algorithms", 2014. Replay and target networks: Lillicrap et al., "Continuous control with deep reinforcement learning",
2016. Choices by the Gumbel-softmax: Lowe et al., 2017.
"""

from marless.functions.algorithms.agent_inputs import members, observation_shape
from marless.functions.algorithms.ddpg.policy_actions import entropy_metrics, policy_actions
from marless.functions.algorithms.ddpg.specs import POLICY_PARTS, DdpgConfig
from marless.functions.algorithms.metrics import due
from marless.functions.algorithms.new_networks import NetworkPart, as_target, new_network
from marless.functions.algorithms.off_policy.critics import current_tensors, new_critics, policies_move
from marless.functions.algorithms.off_policy.replay_minibatch import learning_signal, with_minibatch
from marless.functions.algorithms.off_policy.reward_scale import RewardScale
from marless.functions.algorithms.off_policy.specs import View, actor_and_critic, kind_of
from marless.functions.algorithms.off_policy.target_networks import by_column, grad_output_for, update_target
from marless.functions.algorithms.stage import Context, StageResult
from marless.functions.algorithms.trainable import Trainable
from marless.functions.environments.base import EnvSpec
from marless.functions.errors import BadRequest
from marless.functions.keys import group_name
from marless.functions.messages.team import Team
from marless.functions.nn.layers import Array
from marless.functions.randomness import generator


def initialise(view: View, spec: EnvSpec, team: Team, config: DdpgConfig, seed: int, group: int) -> dict[str, Array]:
    """A group's networks, their targets, zero moments and normaliser. Raises `BadRequest` for unsupported actions."""
    _require(spec, team, config)
    name, rng = group_name(group), generator(seed, "initialise", group)
    actor, critic = actor_and_critic(view, spec, team, config, group, stochastic=False)
    tensors: dict[str, Array] = {f"normaliser/{name}": RewardScale().tensor}
    # Initially discrete actions are almost equally probable, and continuous actions near the middle of their range.
    agent = members(team, group)[0]
    policy = NetworkPart("policy", observation_shape(spec, agent), 0.01, acts=True)
    weights = new_network(config, policy, actor, group, rng)
    tensors |= weights | as_target(weights, "policy", "target")
    return tensors | new_critics(config, view.shape(spec, agent), critic, group, rng)


def policy(context: Context[DdpgConfig], group: int) -> StageResult:
    """One gradient step of the group's policy on its critic's values, and then one of its target; nothing between the
    updates in which policies move."""
    name, config = group_name(group), context.config
    if not policies_move(context):
        return StageResult(current_tensors(context, POLICY_PARTS, name), {})
    minibatch = with_minibatch(context)
    network = Trainable.load(minibatch, "policy", name)
    actions = policy_actions(minibatch, group, network.weights)
    alive = learning_signal(minibatch, members(context.team, group), team=False).loss_mask
    loss_mask = by_column(alive)
    grad_output = actions.backward(by_column(context.tensors[f"gradient/{name}"]))
    # The regularisation is the mean square over rows and outputs.
    pull = 2 * config.regularisation / (max(1, int(loss_mask.sum())) * actions.outputs.shape[-1])
    grad_output += pull * actions.outputs * loss_mask[..., None]
    norm = network.descend(actions.trace, grad_output_for(network.weights, grad_output))
    tensors = network.tensors("policy", name)
    target = update_target(minibatch, tensors, "policy", "target", name)
    metrics = {"policy_grad_norm": norm}
    if due(context):
        metrics |= entropy_metrics(minibatch, group, actions, alive)
    return StageResult({**tensors, **target}, metrics)


def _require(spec: EnvSpec, team: Team, config: DdpgConfig) -> None:
    """Raises `BadRequest` if a learner would not explore, or if there is noise and all actions are discrete."""
    if not config.noisy and any(kind_of(spec, agent).continuous for agent in team.learners):
        raise BadRequest("agents act in numbers, and nothing explores: set noise_start above 0")
    if config.noisy and not any(kind.continuous for kind in spec.classes):
        raise BadRequest("agents choose, and noise is for numbers: set noise_start and noise_end to 0")
    if config.target_noise and not any(kind.continuous for kind in spec.classes):
        raise BadRequest("agents choose, and target_noise is for numbers: set it to 0")
