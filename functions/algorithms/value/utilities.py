"""Networks that value every action of an agent, and how they are trained: what IQL, VDN and QMIX have in common.

`policy` is the network that agents act with, the action of the highest value, and `target` its slower copy.
"""

from typing import Annotated, NamedTuple

import numpy as np
from msgspec import Meta

from functions.algorithms.base import Context
from functions.algorithms.off_policy import priorities
from functions.algorithms.off_policy.replay import (
    Count,
    ReplayConfig,
    Shown,
    by_agent,
    by_column,
    chased,
    error_for,
    following,
    legal_next,
    shown,
    unprefixed,
)
from functions.algorithms.off_policy.reward_scale import RewardScale
from functions.algorithms.off_policy.td import at_actions, chosen, double_q
from functions.algorithms.rows import members, own_observation
from functions.algorithms.trainable import Trainable, moments, trained_bytes
from functions.contract import BadRequest, Behaviour, Team
from functions.environments.base import EnvSpec
from functions.keys import group_name
from functions.nn import recurrent
from functions.nn.mlp import Array
from functions.nn.recurrent import Network, Trace
from functions.randomness import generator

PARTS = ("policy", "policy_optimiser", "target", "normaliser", priorities.PART)
# What to do about several choices, which only the PPO family takes.
ONE_CHOICE = "use ippo or mappo, or with PettingZoo and RWARE task.options.joint_actions=true"


class UtilityConfig(ReplayConfig, frozen=True, kw_only=True):
    """The settings of value methods; their networks have ReLU layers, with which IQL and QMIX learned faster here."""

    hidden: Annotated[tuple[Count, ...], Meta(min_length=1, description="widths of the hidden layers")] = (128, 128)
    epsilon_start: Annotated[float, Meta(ge=0, le=1, description="chance of a random action at the beginning")] = 1.0
    epsilon_end: Annotated[float, Meta(ge=0, le=1, description="chance of a random action in the end")] = 0.05
    epsilon_steps: Annotated[int, Meta(ge=1, description="environment steps from the one to the other")] = 50_000
    double: Annotated[bool, Meta(description="the online network picks the next action that the target values")] = True
    n_step: Annotated[
        int, Meta(ge=1, description="steps that a target looks ahead, at most a stretch less burn_in")
    ] = 1
    priority: Annotated[
        float,
        Meta(ge=0, le=1, description="exponent of TD errors in the chance to be replayed (alpha of PER); 0: all alike"),
    ] = 0.0
    priority_beta: Annotated[
        float,
        Meta(ge=0, le=1, description="exponent that corrects for priorities (beta of PER), at first; in the end 1"),
    ] = 0.4
    priority_steps: Annotated[int, Meta(ge=1, description="environment steps until that exponent is 1")] = 640_000

    @property
    def length(self) -> int | None:
        """As for all, but that targets which look ahead see all of a unit."""
        return self.sequence_length or (None if self.n_step > 1 else super().length)

    def __post_init__(self) -> None:
        """Raises `ValueError` for targets that look beyond a stretch, too."""
        super().__post_init__()
        if self.length is not None and self.n_step > self.length - self.burn_in:
            burnt = f", {self.burn_in} of them burn-in" if self.burn_in else ""
            raise ValueError(
                f"n_step is {self.n_step}, and a sequence has {self.length} steps{burnt}; set a longer"
                " sequence_length or a lower algorithm.n_step"
            )

    @property
    def idle_parts(self) -> tuple[str, ...]:
        return () if self.priority else (priorities.PART,)

    def beta(self, env_steps: int) -> float:
        """The exponent of importance weights once so many environment steps were seen, rising in a straight line."""
        return self.priority_beta + min(1.0, env_steps / self.priority_steps) * (1 - self.priority_beta)

    def behaviour(self, env_steps: int) -> Behaviour:
        """ε-greedy, ε falling in a straight line."""
        share = min(1.0, env_steps / self.epsilon_steps)
        return Behaviour(kind="epsilon", amount=self.epsilon_start + share * (self.epsilon_end - self.epsilon_start))


def initialise(spec: EnvSpec, team: Team, config: UtilityConfig, seed: int, group: int) -> dict[str, Array]:
    """Network, target, empty moments and normaliser of a group at round 0; raises `BadRequest` for other actions."""
    name, network = group_name(group), _network(spec, team, config, group)
    flat = recurrent.initialise(network, generator(seed, "initialise", group), output_gain=1.0)
    return {
        **recurrent.to_tensors(network, flat, f"policy/{name}"),
        **recurrent.to_tensors(network, flat.copy(), f"target/{name}"),
        **moments(f"policy_optimiser/{name}", network.parameters),
        f"normaliser/{name}": RewardScale().tensor,
        **priorities.initial(config, name),
    }


def part_bytes(spec: EnvSpec, team: Team, config: UtilityConfig, group: int) -> dict[str, int]:
    """Of the network, its target and its moments; raises `BadRequest` for other actions."""
    found = trained_bytes("policy", _network(spec, team, config, group).parameters)
    return {**found, "target": found["policy"]}


def _network(spec: EnvSpec, team: Team, config: UtilityConfig, group: int) -> Network:
    agent = members(team, group)[0]
    kind = next(kind for kind in spec.classes if agent in kind.agents)
    if kind.continuous or kind.branches:
        what, advice = ("several choices at once", ONE_CHOICE)
        if kind.continuous:
            what, advice = "numbers", "use ippo, mappo, iddpg or maddpg"
        raise BadRequest(f"{spec.agents[agent]} acts in {what}; the algorithm values single choices only: {advice}")
    sizes = (kind.observation_size + (len(spec.agents) if team.identity else 0), *config.hidden, kind.actions)
    return Network(sizes, config.recurrent, rectified=True)


class Utilities(NamedTuple):
    """Of a group's n agents in a minibatch, ``[n, T, E]``: the value of what each did, and the target network's value
    of what each would do next; `values` ``[T, n * E, actions]`` and `trace` are what training goes on from."""

    taken: Array
    future: Array
    values: Array
    trace: Trace
    network: Trainable


def seen_by(context: Context[ReplayConfig], group: int) -> Shown:
    """The observations of the group's agents in the minibatch, zeros where they are not there."""
    batch, agents = context.batch, members(context.team, group)
    now, after = zip(*(own_observation(batch, agent) for agent in agents), strict=True)
    return shown(context, agents, now, after)


def utilities(context: Context[UtilityConfig], group: int, look_ahead: bool = True) -> Utilities:
    """What the group's networks make of the minibatch; without `look_ahead` nothing of what is to come."""
    agents = members(context.team, group)
    network, seen = Trainable.load(context, "policy", group_name(group)), seen_by(context, group)
    values, trace = seen.unroll(network.weights)
    taken = chosen(by_agent(values, len(agents)), _actions(context, agents))
    future = _future(context, group, seen, network, values, trace) if look_ahead else taken
    return Utilities(taken, future, values, trace, network)


def trained(
    context: Context[UtilityConfig], group: int, found: Utilities, error: Array
) -> tuple[dict[str, Array], float]:
    """The group's tensors after one step down the gradient, and its norm; `error` is d loss / d taken ``[n, T, E]``."""
    name, network = group_name(group), found.network
    actions = by_column(_actions(context, members(context.team, group)))
    wide = at_actions(by_column(error).astype(found.values.dtype), actions, found.values.shape[-1])
    norm = network.descend(found.trace, error_for(network.weights, wide))
    made = network.tensors("policy", name)
    return {**made, **chased(context, unprefixed(made, f"policy/{name}"), "target", name)}, norm


def _actions(context: Context[UtilityConfig], agents: list[int]) -> Array:
    """What each did ``[n, T, E]``; once it is gone the first action, of which alone there is a value then."""
    batch = context.batch
    return np.stack([batch.of(batch.actions, agent) for agent in agents]).astype(np.int64)


def _future(
    context: Context[UtilityConfig], group: int, seen: Shown, network: Trainable, values: Array, trace: Trace
) -> Array:
    """The target network's value ``[n, T, E]`` of the legal action that is best after each step, as the online network
    sees it with `double`."""
    agents, several = members(context.team, group), context.config.recurrent or len(context.batch.ended) > 1
    target = recurrent.weights_of(context.tensors, f"target/{group_name(group)}")
    aim, aim_trace = seen.unroll(target) if several else (None, None)
    valued = following(context, target, seen, len(agents), aim, aim_trace)
    liked = valued
    if context.config.double:
        own = (values, trace) if several else (None, None)
        liked = following(context, network.weights, seen, len(agents), *own)
    return double_q(liked, valued, legal_next(context, agents))
