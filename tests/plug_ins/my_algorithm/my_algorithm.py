"""Independent REINFORCE with a baseline (Williams, 1992): one step of every network a round, for agents that choose."""

from typing import Annotated

import numpy as np
from msgspec import Meta

from marless.algorithms import (
    AlgorithmConfig,
    AlgorithmSpec,
    BadRequest,
    Network,
    StageResult,
    StageSpec,
    Trainable,
    distribution,
    gae,
    generator,
    group_name,
    mask_logits,
    members,
    moments,
    observations,
    pooling,
    recurrent,
)


class ReinforceConfig(AlgorithmConfig, frozen=True, kw_only=True, tag_field="name", tag="reinforce"):
    """What a user can set."""

    lr: Annotated[float, Meta(gt=0, description="Adam's step")] = 0.01
    gamma: Annotated[float, Meta(ge=0, le=1, description="discount per environment step")] = 0.95
    hidden: Annotated[tuple[int, ...], Meta(description="widths of the hidden layers")] = (32,)
    max_grad_norm: Annotated[float, Meta(gt=0, description="cap on each network's gradient norm")] = 10.0
    adam_eps: Annotated[float, Meta(gt=0, description="Adam's denominator guard")] = 1e-5


def initialise(spec, team, config, seed, group):
    """What a group begins with: a policy, a baseline, and what Adam remembers of each."""
    kind = _kind(spec, team, group)
    if kind.continuous or kind.branches:
        raise BadRequest("reinforce is for agents that make one choice")
    width = kind.observation_size + (len(spec.agents) if team.identity else 0)
    name, rng = group_name(group), generator(seed, "initialise", group)
    made = {}
    for part, outputs, gain in (("policy", kind.actions, 0.01), ("baseline", 1, 1.0)):
        network = Network((width, *config.hidden, outputs))
        made |= recurrent.to_tensors(network, recurrent.initialise(network, rng, gain), f"{part}/{name}")
        made |= moments(f"{part}_optimiser/{name}", network.parameters)
    return made


def baseline(context, group):
    """By how much each return was better than expected, for the policy; and a step of the expectation."""
    batch, agents, name = context.batch, members(context.team, group), group_name(group)
    nothing = np.zeros_like(batch.rewards[agents])
    gamma, over = context.config.gamma, batch.terminated[agents]
    returns = gae(batch.rewards[agents], nothing, nothing, over, batch.ended, gamma, 1.0)[batch.alive[agents]]
    network = Trainable.load(context, "baseline", name)
    seen = network.weights.forward(_rows(context, group))
    error = seen.outputs[:, 0] - returns
    network.descend(seen, error[:, None] / len(error))
    advantage = -error / (error.std() + 1e-6)
    metrics = {"value_loss": float((error**2).mean() / 2)}
    return StageResult({**network.tensors("baseline", name), f"advantage/{name}": advantage}, metrics)


def policy(context, group):
    """A step of the policy towards what was better than expected."""
    batch, name, pooled = context.batch, group_name(group), pooling(context, group)
    kind = _kind(context.spec, context.team, group)
    actions = pooled(lambda agent: batch.of(batch.actions, agent))
    legal = None
    if context.spec.masked:
        legal = pooled(lambda agent: batch.of(batch.masks, agent))
    head = distribution(kind)
    network = Trainable.load(context, "policy", name)
    seen = network.weights.forward(_rows(context, group))
    outputs = mask_logits(seen.outputs, legal)
    slope, _ = head.log_probability_gradient(outputs, None, actions)
    advantage = context.tensors[f"advantage/{name}"]
    norm = network.descend(seen, -slope * advantage[:, None] / len(advantage))
    metrics = {"entropy": float(head.entropy(outputs, None).mean()), "policy_grad_norm": norm}
    return StageResult(network.tensors("policy", name), metrics)


def _kind(spec, team, group):
    """The spaces of a group's agents."""
    return spec.classes[spec.class_of[members(team, group)[0]]]


def _rows(context, group):
    """What the group's living agents saw ``[B, F]``, agent by agent."""
    return pooling(context, group)(lambda agent: observations(context, agent))


_BASELINE, _POLICY = ("baseline", "baseline_optimiser"), ("policy", "policy_optimiser")

STAGES = {"baseline": baseline, "policy": policy}
SPEC = AlgorithmSpec(
    name="reinforce",
    config=ReinforceConfig,
    stages=(
        StageSpec("baseline", after=(), scope="group", reads=_BASELINE, writes=_BASELINE),
        StageSpec("policy", after=("baseline",), scope="group", reads=_POLICY, writes=_POLICY),
    ),
    parts=(*_POLICY, *_BASELINE),
    implementation=__name__,
)
