"""QMIX: a side's joint action value increases monotonically with its agents' utilities, as a function of the state.

Rashid et al., "QMIX: Monotonic Value Function Factorisation for Deep Multi-Agent Reinforcement Learning", 2018. An
update has two phases: the mixing network trains on the agents' utilities, then their networks on its gradients.
"""

from collections.abc import Mapping
from typing import Annotated

import numpy as np
from msgspec import Meta

from functions.algorithms.advantages import next_values
from functions.algorithms.base import AlgorithmSpec, Context, Stage, StageResult, StageSpec, Summary, as_base
from functions.algorithms.metrics import OWN, due
from functions.algorithms.off_policy.networks import update_target
from functions.algorithms.off_policy.overestimation import overestimation
from functions.algorithms.off_policy.priorities import PART
from functions.algorithms.off_policy.replay import joint_signal, learning_signal, side_of
from functions.algorithms.off_policy.reward_scale import value_scale
from functions.algorithms.off_policy.td import multi_step_returns
from functions.algorithms.rows import members, state_width
from functions.algorithms.trainable import moments, trained_bytes
from functions.algorithms.value import decomposed
from functions.algorithms.value import utilities as utility_networks
from functions.algorithms.value.decomposed import (
    STAGE_SPECS,
    Mixing,
    SideUtilities,
    leads_side,
    mixed_agents,
    policy,
    utility,
)
from functions.algorithms.value.mixer import Mixer, mixer_of
from functions.algorithms.value.utilities import UtilityConfig
from functions.contract import SummaryName, Team
from functions.environments.base import EnvSpec
from functions.keys import group_name
from functions.nn.adam import Adam
from functions.nn.mlp import Array
from functions.randomness import generator

_MIXING = ("mixer", "mixer_optimiser", "mixer_target", "normaliser")
PARTS = (*utility_networks.PARTS, "mixer", "mixer_optimiser", "mixer_target")


class QmixConfig(UtilityConfig, frozen=True, kw_only=True, tag_field="name", tag="qmix"):
    """Monotonic mixing.

    Targets are slower, gradients are clipped at a lower norm and the loss is Huber's, because a mixing network
    multiplies the effect of an error on its agents' networks: without these settings returns of simple_spread rose to
    -55 and fell again.
    """

    tau: Annotated[float, Meta(gt=0, le=1, description="part of the way targets go in an update (Polyak)")] = 0.003
    max_grad_norm: Annotated[float, Meta(gt=0, description="cap on each network's gradient norm")] = 1.0
    huber_delta: Annotated[float, Meta(gt=0, description="where the loss turns linear; default: 1")] | None = 1.0
    mixing_embed_dim: Annotated[int, Meta(ge=1, description="hidden units of the mixing network")] = 32
    hypernet_embed: Annotated[int, Meta(ge=0, description="hidden units of its hypernetworks; 0: linear ones")] = 64


def initialise(spec: EnvSpec, team: Team, config: QmixConfig, seed: int, group: int) -> dict[str, Array]:
    """The group's network at round 0, and the side's mixing network if it is the side's first group."""
    tensors, name = decomposed.initialise(spec, team, config, seed, group), group_name(group)
    if not leads_side(spec, team, group):
        return tensors
    mixer = _mixer(spec, team, config, group)
    flat = mixer.initialise(generator(seed, "initialise", "mixer", group))
    return {
        **tensors,
        **mixer.to_tensors(flat, f"mixer/{name}"),
        **mixer.to_tensors(flat.copy(), f"mixer_target/{name}"),
        **moments(f"mixer_optimiser/{name}", mixer.parameters),
    }


def part_bytes(spec: EnvSpec, team: Team, config: QmixConfig, group: int) -> dict[str, int]:
    """As `utilities.part_bytes`, and of the side's mixing network if the group is the side's first."""
    own = utility_networks.part_bytes(spec, team, config, group)
    if not leads_side(spec, team, group):
        return own
    mixer = trained_bytes("mixer", _mixer(spec, team, config, group).parameters)
    return {**own, **mixer, "mixer_target": mixer["mixer"]}


def _mixer(spec: EnvSpec, team: Team, config: QmixConfig, group: int) -> Mixer:
    width = state_width(spec, members(team, group)[0])
    return Mixer(len(side_of(spec, team, group)), width, config.mixing_embed_dim, config.hypernet_embed)


def mix(context: Context[QmixConfig], group: int) -> StageResult:
    """One step of the side's mixing network, and the loss's gradient at its agents' utilities before that step."""
    side = mixed_agents(context, group)
    if not side:
        return StageResult({}, {})
    metrics = _overestimation(context, side, group) if due(context) else {}
    mixing, config, name = Mixing.load(context, group, side), context.config, group_name(group)
    minibatch, signal, rewards = mixing.context, mixing.signal, mixing.rewards
    batch, alive = minibatch.batch, minibatch.batch.alive[side]
    future = _future(minibatch, name, mixing.utilities, side) + rewards.offset
    multi_step = multi_step_returns(rewards.rewards, signal.terminal, batch.ended, config)
    targets = multi_step.targets(future)
    mixer, flat = mixer_of(minibatch.tensors, f"mixer/{name}")
    joint, trace = mixer.forward(flat, _rows(batch.state), _columns(mixing.utilities.taken), _columns(alive))
    joint = joint.reshape(targets.shape) + rewards.offset
    loss = mixing.loss(joint, targets)
    gradient, by_utilities = mixer.backward(flat, trace, loss.grad_output.ravel())
    tensors, norm = _train_step(minibatch, name, mixer, flat, gradient)
    if due(context):
        metrics |= {"mixer_grad_norm": norm, **mixing.metrics(loss, joint)}
    tensors |= mixing.group_tensors(loss, by_utilities.T.reshape(alive.shape))
    return StageResult({**tensors, f"normaliser/{name}": rewards.normaliser}, metrics)


def _overestimation(context: Context[QmixConfig], side: list[int], group: int) -> dict[str, float]:
    batch, name, utilities = context.batch, group_name(group), SideUtilities.load(context, side, OWN)
    mixer, flat = mixer_of(context.tensors, f"mixer/{name}")
    joint, _ = mixer.forward(flat, _rows(batch.state), _columns(utilities.taken), _columns(batch.alive[side]))
    offset = value_scale(context, name).offset
    joint, future = joint.reshape(batch.ended.shape) + offset, _future(context, name, utilities, side) + offset
    return overestimation(context, name, joint, future, joint_signal(context, side))


def _future(context: Context[QmixConfig], name: str, utilities: SideUtilities, side: list[int]) -> Array:
    """The target network's joint value ``[T, E]`` of the next actions of the agents that are still alive."""
    batch = context.batch
    alive_next = batch.alive[side] & ~learning_signal(context, side, team=False).terminal
    mixer, flat = mixer_of(context.tensors, f"mixer_target/{name}")
    state = next_values(batch.state[None], batch.cut_state[None], batch.cut)[0]
    joint, _ = mixer.forward(flat, _rows(state), _columns(utilities.future), _columns(alive_next))
    return joint.reshape(batch.ended.shape)


def _train_step(
    context: Context[QmixConfig], name: str, mixer: Mixer, flat: Array, gradient: Array
) -> tuple[dict[str, Array], float]:
    """The mixing network, its moments and its target after a step, and the gradient's norm."""
    config, prefix = context.config, f"mixer_optimiser/{name}"
    first, second = (np.array(context.tensors[f"{prefix}/{moment}"]) for moment in ("first", "second"))
    steps = int(context.tensors[f"{prefix}/steps"][0])
    optimiser = Adam(flat, first, second, steps, config.lr, config.adam_eps, config.max_grad_norm)
    norm = optimiser.step(gradient)
    online = mixer.to_tensors(flat, f"mixer/{name}")
    state = {"first": first, "second": second, "steps": np.array([optimiser.steps], np.int64)}
    return {
        **online,
        **{f"{prefix}/{moment}": array for moment, array in state.items()},
        **update_target(context, online, "mixer", "mixer_target", name),
    }, norm


def _rows(state: Array) -> Array:
    return state.reshape(-1, state.shape[-1])


def _columns(by_agent: Array) -> Array:
    """``[n, T, E]`` as ``[T * E, n]``."""
    return by_agent.reshape(len(by_agent), -1).T


STAGES: Mapping[str, Stage] = {"utility": utility, "mix": mix, "policy": policy}
SUMMARIES: Mapping[SummaryName, Summary] = {}
merge = as_base
SPEC = AlgorithmSpec(
    "qmix",
    QmixConfig,
    (
        STAGE_SPECS["utility"],
        StageSpec("mix", ("utility",), "team", _MIXING, _MIXING, couples=True),
        STAGE_SPECS["policy"],
    ),
    PARTS,
    __name__,
    resizable_parts=(PART,),
    part_bytes=part_bytes,
)
