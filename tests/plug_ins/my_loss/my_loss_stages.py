"""The stages of simple policy optimization: those of PPO, and a policy whose loss is written in torch."""

import torch

from marless.algorithms import (
    BadRequest,
    CriticView,
    Ppo,
    StageResult,
    Trainable,
    group_name,
    minibatches,
    observations,
    pooling,
    torch_loss,
    training_samples,
    updated_statistics,
)

# A critic sees what its agent sees: at every step, and after each cut.
VIEW = CriticView(
    width=lambda spec, agent: spec.classes[spec.class_of[agent]].observation_size,
    inputs=lambda batch, agent: (batch.of(batch.observations, agent), batch.of(batch.cut_observations, agent)),
)
PPO = Ppo(VIEW)


def initialise(spec, team, config, seed, group):
    """PPO's networks, for agents that make one choice."""
    kind = spec.classes[spec.class_of[team.groups.index(group)]]
    if kind.continuous or kind.branches:
        raise BadRequest("spo is for agents that make one choice")
    return PPO.initialise(spec, team, config, seed, group)


def policy(context, group):
    """Trains the policy on the advantages of the stage `postprocess`."""
    batch, name, config = context.batch, group_name(group), context.config
    rows_of = pooling(context, group)

    def known(of):
        return torch.tensor(rows_of(lambda agent: batch.of(of, agent)))

    actions, old, advantage = known(batch.actions), known(batch.log_probability), context.tensors[f"advantage/{name}"]
    advantage = torch.tensor(advantage)
    legal = known(batch.masks) if context.spec.masked else None

    def loss(outputs, log_std, rows):
        if legal is not None:
            outputs = outputs.masked_fill(~legal[rows], -1e9)
        log_p = torch.log_softmax(outputs, dim=1)
        chosen = log_p.gather(1, actions[rows, None].long())[:, 0]
        ratio, gain = torch.exp(chosen - old[rows]), advantage[rows]
        surrogate = ratio * gain - gain.abs() / (2 * config.clip_coef) * (ratio - 1) ** 2
        entropy = -(log_p.exp() * log_p).sum(dim=1)
        return -(surrogate + config.ent_coef * entropy).mean()

    network = Trainable.load(context, "policy", name)
    samples = training_samples(
        context, group, network.weights, lambda agent: observations(context, agent), config.data_chunk_length
    )
    steps = network.learn(minibatches(samples, context, "policy", group), torch_loss(loss))
    seen = updated_statistics(context, "policy", group)  # with algorithm.normalise_observations
    return StageResult(network.tensors("policy", name) | seen, {"policy_loss": steps[-1].loss.value})


STAGES = {**PPO.stages, "policy": policy}
