"""QMIX: the value of what a side does together rises with each agent's own value, in a way that the state decides.

Rashid et al., "QMIX: Monotonic Value Function Factorisation for Deep Multi-Agent Reinforcement Learning", 2018. In two
phases: the agents' utilities go up into the mixing network, which learns, and the loss's slopes by them come down.
"""

from collections.abc import Mapping
from functools import partial
from typing import Annotated

import numpy as np
from msgspec import Meta

from functions.algorithms.advantages import next_values
from functions.algorithms.base import AlgorithmSpec, Context, Stage, StageResult, StageSpec, Summary, as_base
from functions.algorithms.metrics import OWN, due
from functions.algorithms.off_policy.overestimation import overestimation
from functions.algorithms.off_policy.priorities import PART, Draw, Judged
from functions.algorithms.off_policy.replay import chased, joint_signal, learning_signal, scaled, side_of, unprefixed
from functions.algorithms.off_policy.reward_scale import RewardScale
from functions.algorithms.off_policy.td import look_ahead, td_loss
from functions.algorithms.trainable import moments, trained_bytes
from functions.algorithms.value import decomposed, utilities
from functions.algorithms.value.decomposed import (
    STAGE_SPECS,
    Gathered,
    gathered,
    joint_figures,
    leads,
    mixing_group,
    policy,
    shared_out,
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
PARTS = (*utilities.PARTS, "mixer", "mixer_optimiser", "mixer_target")


class QmixConfig(UtilityConfig, frozen=True, kw_only=True, tag_field="name", tag="qmix"):
    """Monotonic mixing.

    Slower targets, smaller steps where gradients are large and a loss that turns linear: a mixing network multiplies
    what its agents' networks make of an error, and without them returns of simple_spread rose to -55 and fell again.
    """

    tau: Annotated[float, Meta(gt=0, le=1, description="part of the way targets go in an update (Polyak)")] = 0.003
    max_grad_norm: Annotated[float, Meta(gt=0, description="cap on each network's gradient norm")] = 1.0
    huber_delta: Annotated[float, Meta(gt=0, description="where the loss turns linear; default: 1")] | None = 1.0
    mixing_embed_dim: Annotated[int, Meta(ge=1, description="hidden units of the mixing network")] = 32
    hypernet_embed: Annotated[int, Meta(ge=0, description="hidden units of its hypernetworks; 0: linear ones")] = 64


def initialise(spec: EnvSpec, team: Team, config: QmixConfig, seed: int, group: int) -> dict[str, Array]:
    """The group's network at round 0, and the side's mixing network if it is the side's first group."""
    made, name = decomposed.initialise(spec, team, config, seed, group), group_name(group)
    if not leads(spec, team, group):
        return made
    mixer = _mixer(spec, team, config, group)
    flat = mixer.initialise(generator(seed, "initialise", "mixer", group))
    return {
        **made,
        **mixer.to_tensors(flat, f"mixer/{name}"),
        **mixer.to_tensors(flat.copy(), f"mixer_target/{name}"),
        **moments(f"mixer_optimiser/{name}", mixer.parameters),
    }


def part_bytes(spec: EnvSpec, team: Team, config: QmixConfig, group: int) -> dict[str, int]:
    """As `utilities.part_bytes`, and of the side's mixing network if the group is the side's first."""
    own = utilities.part_bytes(spec, team, config, group)
    if not leads(spec, team, group):
        return own
    mixer = trained_bytes("mixer", _mixer(spec, team, config, group).parameters)
    return {**own, **mixer, "mixer_target": mixer["mixer"]}


def _mixer(spec: EnvSpec, team: Team, config: QmixConfig, group: int) -> Mixer:
    width = spec.state_size or sum(kind.observation_size * len(kind.agents) for kind in spec.classes)
    return Mixer(len(side_of(spec, team, group)), width, config.mixing_embed_dim, config.hypernet_embed)


def mix(context: Context[QmixConfig], group: int) -> StageResult:
    """One step of the side's mixing network, and the loss's slopes by its agents' utilities before that step."""
    side = mixing_group(context, group)
    if not side:
        return StageResult({}, {})
    told = _overestimation(context, side, group) if due(context) else {}
    name, config, whole = group_name(group), context.config, context
    draw = Draw.told(context, name)
    context = draw.shown(context)
    batch, living, found = context.batch, context.batch.alive[side], gathered(context, side)
    signal = joint_signal(context, side)
    units = scaled(whole, name, signal, partial(joint_signal, side=side))
    future = _future(context, name, found, side) + units.offset
    targets = look_ahead(units.rewards, signal.terminal, batch.ended, config.gamma, config.n_step).targets(future)
    mixer, flat = mixer_of(context.tensors, f"mixer/{name}")
    joint, mixed = mixer.forward(flat, _rows(batch.state), _columns(found.taken), _columns(living))
    joint = joint.reshape(targets.shape) + units.offset
    loss = td_loss(joint, targets.astype(joint.dtype), config.huber_delta, draw.weighing(joint), signal.learned)
    gradient, slopes = mixer.backward(flat, mixed, loss.grad_output.ravel())
    made, norm = _stepped(context, name, mixer, flat, gradient)
    if due(whole):
        told |= {"mixer_grad_norm": norm, **joint_figures(loss, units.unit * joint, signal.learned)}
    judged = Judged.by(draw, config, loss.difference, signal.learned)
    down = shared_out(context, side, slopes.T.reshape(living.shape), judged)
    return StageResult({**made, **down, f"normaliser/{name}": units.normaliser}, told)


def _overestimation(context: Context[QmixConfig], side: list[int], group: int) -> dict[str, float]:
    batch, name, found = context.batch, group_name(group), gathered(context, side, OWN)
    mixer, flat = mixer_of(context.tensors, f"mixer/{name}")
    joint, _ = mixer.forward(flat, _rows(batch.state), _columns(found.taken), _columns(batch.alive[side]))
    offset = RewardScale.of(context.tensors[f"normaliser/{name}"]).units(context.config.standardise_rewards).offset
    joint, future = joint.reshape(batch.ended.shape) + offset, _future(context, name, found, side) + offset
    return overestimation(context, f"normaliser/{name}", joint, future, joint_signal(context, side))


def _future(context: Context[QmixConfig], name: str, found: Gathered, side: list[int]) -> Array:
    """What the target network gives for what the agents would do after every step ``[T, E]``, those left by then."""
    batch = context.batch
    left = batch.alive[side] & ~learning_signal(context, side, team=False).terminal
    mixer, flat = mixer_of(context.tensors, f"mixer_target/{name}")
    state = next_values(batch.state[None], batch.cut_state[None], batch.cut)[0]
    joint, _ = mixer.forward(flat, _rows(state), _columns(found.future), _columns(left))
    return joint.reshape(batch.ended.shape)


def _stepped(
    context: Context[QmixConfig], name: str, mixer: Mixer, flat: Array, gradient: Array
) -> tuple[dict[str, Array], float]:
    """The mixing network, its moments and its target after a step, and the gradient's norm."""
    config, prefix = context.config, f"mixer_optimiser/{name}"
    first, second = (np.array(context.tensors[f"{prefix}/{moment}"]) for moment in ("first", "second"))
    steps = int(context.tensors[f"{prefix}/steps"][0])
    optimiser = Adam(flat, first, second, steps, config.lr, config.adam_eps, config.max_grad_norm)
    norm = optimiser.step(gradient)
    online = mixer.to_tensors(flat, f"mixer/{name}")
    kept = {"first": first, "second": second, "steps": np.array([optimiser.steps], np.int64)}
    return {
        **online,
        **{f"{prefix}/{moment}": array for moment, array in kept.items()},
        **chased(context, unprefixed(online, f"mixer/{name}"), "mixer_target", name),
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
