"""Deterministic policy gradients: critics that value actions, and policies that go up the critics' slope.

What IDDPG and MADDPG share beside their critics, which stand in `critics.py`. Silver et al., "Deterministic Policy
Gradient Algorithms", 2014; replay and target networks after Lillicrap et al., "Continuous control with deep
reinforcement learning", 2016; choices by the Gumbel-softmax as in Lowe et al., 2017.
"""

from functions.algorithms.base import Context, StageResult
from functions.algorithms.ddpg.actors import acted, entropy, kind_of
from functions.algorithms.ddpg.config import DdpgConfig
from functions.algorithms.ddpg.critics import Critics
from functions.algorithms.metrics import due
from functions.algorithms.off_policy.replay import (
    by_column,
    chased,
    drawn,
    error_for,
    learning_signal,
    unprefixed,
)
from functions.algorithms.off_policy.reward_scale import RewardScale
from functions.algorithms.rows import members
from functions.algorithms.trainable import Trainable, moments, trained_bytes
from functions.contract import BadRequest, Team
from functions.environments.base import EnvSpec
from functions.keys import group_name
from functions.nn import recurrent
from functions.nn.mlp import Array
from functions.nn.recurrent import Network
from functions.randomness import generator

POLICY_PARTS = ("policy", "policy_optimiser", "target")
CRITIC_PARTS = ("critic", "critic_optimiser", "critic_target", "normaliser")
PARTS = (*POLICY_PARTS, *CRITIC_PARTS)


def initialise(
    critics: Critics, spec: EnvSpec, team: Team, config: DdpgConfig, seed: int, group: int
) -> dict[str, Array]:
    """A group's networks, their targets, empty moments and normaliser; raises `BadRequest` for other actions."""
    _require(spec, team, config)
    name, rng = group_name(group), generator(seed, "initialise", group)
    actor, critic = _networks(critics, spec, team, config, group)
    made: dict[str, Array] = {f"normaliser/{name}": RewardScale().tensor}
    # Policies begin where every choice is as likely as the others, and numbers are in the middle.
    for network, gain, part, target in ((actor, 0.01, "policy", "target"), (critic, 1.0, "critic", "critic_target")):
        flat = recurrent.initialise(network, rng, gain)
        made |= recurrent.to_tensors(network, flat, f"{part}/{name}")
        made |= recurrent.to_tensors(network, flat.copy(), f"{target}/{name}")
        made |= moments(f"{part}_optimiser/{name}", network.parameters)
    return made


def part_bytes(critics: Critics, spec: EnvSpec, team: Team, config: DdpgConfig, group: int) -> dict[str, int]:
    """Of a group's networks, their targets and moments; raises `BadRequest` for several choices at once."""
    actor, critic = _networks(critics, spec, team, config, group)
    found = trained_bytes("policy", actor.parameters) | trained_bytes("critic", critic.parameters)
    return {**found, "target": found["policy"], "critic_target": found["critic"]}


def _networks(critics: Critics, spec: EnvSpec, team: Team, config: DdpgConfig, group: int) -> tuple[Network, Network]:
    """The group's policy and critic."""
    agent, identity = members(team, group)[0], len(spec.agents) if team.identity else 0
    kind = kind_of(spec, agent)
    actor = Network((kind.observation_size + identity, *config.hidden, kind.actions), config.recurrent)
    return actor, Network((critics.width(spec, team, agent) + identity, *config.hidden, 1), config.recurrent)


def policy(context: Context[DdpgConfig], group: int) -> StageResult:
    """One step of the group's policy up its critic's slope, and of its target after it."""
    whole, context, name = context, drawn(context), group_name(group)
    network, config = Trainable.load(context, "policy", name), context.config
    found = acted(context, group, network.weights)
    counted = learning_signal(context, members(context.team, group), team=False).learned
    learned = by_column(counted)
    error = found.backward(by_column(context.tensors[f"slope/{name}"]))
    # The mean over rows and outputs, each of which pulls towards 0.
    pull = 2 * config.regularisation / (max(1, int(learned.sum())) * found.outputs.shape[-1])
    error += pull * found.outputs * learned[..., None]
    norm = network.descend(found.trace, error_for(network.weights, error))
    made = network.tensors("policy", name)
    moved = chased(context, unprefixed(made, f"policy/{name}"), "target", name)
    told = {"policy_grad_norm": norm, **(entropy(context, group, found, counted) if due(whole) else {})}
    return StageResult({**made, **moved}, told)


def _require(spec: EnvSpec, team: Team, config: DdpgConfig) -> None:
    """Raises `BadRequest` where not all who learn can explore, or where nobody gives numbers to add noise to."""
    if not config.noisy and any(kind_of(spec, agent).continuous for agent in team.learners):
        raise BadRequest("agents act in numbers, and nothing explores: set noise_start above 0")
    if config.noisy and not any(kind.continuous for kind in spec.classes):
        raise BadRequest("agents choose, and noise is for numbers: set noise_start and noise_end to 0")
