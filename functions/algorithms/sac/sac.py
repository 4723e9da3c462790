"""Soft actor-critic: stochastic policies that earn reward and entropy.

The common part of ISAC and MASAC. Their critics are in `critics.py`. Haarnoja et al., "Soft Actor-Critic Algorithms and
Applications", 2018. Only the exact entropy of discrete actions follows Christodoulou, "Soft Actor-Critic for Discrete
Action Settings", 2019. Here a critic reads the one-hot of an action, and a target takes one sampled action. The
policy's gradient passes a straight-through Gumbel-softmax sample (Lowe et al., "Multi-Agent Actor-Critic for Mixed
Cooperative-Competitive Environments", 2017). There a critic has an output per action, and both are exact expectations.
"""

import numpy as np

from marless.functions.algorithms.agent_inputs import members, observation_shape
from marless.functions.algorithms.metrics import ByAgent, due
from marless.functions.algorithms.new_networks import NetworkPart, new_network
from marless.functions.algorithms.off_policy.critics import new_critics
from marless.functions.algorithms.off_policy.replay_minibatch import learning_signal, with_minibatch
from marless.functions.algorithms.off_policy.reward_scale import RewardScale
from marless.functions.algorithms.off_policy.specs import View, actor_and_critic
from marless.functions.algorithms.off_policy.target_networks import by_agent, by_column, grad_output_for, legal_rows
from marless.functions.algorithms.sac.policy_actions import group_kind, policy_samples
from marless.functions.algorithms.sac.specs import SacConfig
from marless.functions.algorithms.sac.temperature import new_temperature, temperature, temperature_step
from marless.functions.algorithms.stage import Context, StageResult
from marless.functions.algorithms.trainable import Trainable
from marless.functions.environments.base import EnvSpec
from marless.functions.keys import group_name
from marless.functions.messages.team import Team
from marless.functions.nn.layers import Array
from marless.functions.randomness import generator


def initialise(view: View, spec: EnvSpec, team: Team, config: SacConfig, seed: int, group: int) -> dict[str, Array]:
    """A group's networks, their targets, zero moments, normaliser and temperature. Raises `BadRequest` for several
    choices at once."""
    name, rng = group_name(group), generator(seed, "initialise", group)
    actor, critic = actor_and_critic(view, spec, team, config, group, stochastic=True)
    agent = members(team, group)[0]
    # Initially discrete actions are almost equally probable, and continuous ones have a standard deviation near 1.
    policy = NetworkPart("policy", observation_shape(spec, agent), 0.01, acts=True)
    tensors = new_network(config, policy, actor, group, rng)
    tensors |= new_critics(config, view.shape(spec, agent), critic, group, rng)
    return tensors | {f"normaliser/{name}": RewardScale().tensor} | new_temperature(config, name)


def policy(context: Context[SacConfig], group: int) -> StageResult:
    """One gradient step of the group's policy on its critics' values and its entropy, and one of the temperature."""
    minibatch, name, agents = with_minibatch(context), group_name(group), members(context.team, group)
    network = Trainable.load(minibatch, "policy", name)
    samples, trace = policy_samples(minibatch, group, network.weights)
    alive = learning_signal(minibatch, agents, team=False).loss_mask
    loss_mask, gradient = by_column(alive), by_column(context.tensors[f"gradient/{name}"])
    weight = -temperature(context, name) / max(1, int(alive.sum()))
    grad_entropy = loss_mask.ravel() * samples.entropy.dtype.type(weight)
    grad_output = samples.backward(gradient.reshape(-1, gradient.shape[-1]), grad_entropy)
    norm = network.descend(trace, grad_output_for(network.weights, grad_output.reshape(*loss_mask.shape, -1)))
    excess = samples.entropy - _target_entropy(minibatch, group)
    tensors = network.tensors("policy", name) | temperature_step(context, name, excess[loss_mask.ravel()])
    metrics = {"policy_grad_norm": norm, "temperature": temperature(context, name)}
    if due(context):
        entropy = by_agent(samples.entropy.reshape(loss_mask.shape), len(agents))
        metrics |= ByAgent.of(agents, alive).means({"entropy": entropy[alive]})
    return StageResult(tensors, metrics)


def _target_entropy(context: Context[SacConfig], group: int) -> Array:
    """The target of the entropy in each row, in the order of columns ``[T * n * E]``, or of all ``[1]``."""
    kind, config, legal = group_kind(context, group), context.config, legal_rows(context, group)
    if kind.continuous:
        return np.full(1, config.entropy_per_number * kind.actions)
    counts = np.full(1, kind.actions) if legal is None else legal.sum(axis=-1)
    return np.asarray(config.entropy_share * np.log(np.maximum(counts, 1)))
