"""What the policies of a group do at the steps of a minibatch, as critics see it and as a gradient passes through it.

Critics see a choice as its one-hot and numbers as they are recorded, each of [-1, 1]. The gradient at a choice is that
of the straight-through Gumbel-softmax, whose noise is drawn at the address (seed, round, "gumbel", update, group):
every stage of an update sees the same choices. What was or will be done by an agent that is gone is zero everywhere.
"""

from typing import NamedTuple

import numpy as np

from functions.algorithms.advantages import Flags
from functions.algorithms.base import Context
from functions.algorithms.ddpg.config import DdpgConfig
from functions.algorithms.metrics import ByAgent
from functions.algorithms.off_policy.replay import by_agent, by_column, following, legal_next, living_next
from functions.algorithms.rows import members
from functions.algorithms.value.utilities import ONE_CHOICE, seen_by
from functions.contract import BadRequest
from functions.environments.base import AgentClass, EnvSpec
from functions.keys import group_name
from functions.nn import gumbel, recurrent
from functions.nn.continuous import Deterministic
from functions.nn.discrete import OneChoice
from functions.nn.gumbel import Relaxed
from functions.nn.heads import head_of
from functions.nn.losses import mask_logits
from functions.nn.mlp import Array
from functions.nn.recurrent import Trace, Weights
from functions.randomness import generator


def kind_of(spec: EnvSpec, agent: int) -> AgentClass:
    """The agent's class; raises `BadRequest` where the agent makes several choices at once."""
    kind = next(kind for kind in spec.classes if agent in kind.agents)
    if kind.branches:
        raise BadRequest(
            f"{spec.agents[agent]} makes several choices at once; the algorithm takes one, or numbers: {ONE_CHOICE}"
        )
    return kind


class Acted(NamedTuple):
    """Columns ordered by agent: `actions` ``[T, n * E, width]``, the network's `outputs` in the same shape, and its
    `trace`. `through` is what makes actions of outputs; of choices it has a row for each column of each step."""

    actions: Array
    outputs: Array
    trace: Trace
    through: Deterministic | Relaxed

    def backward(self, slope: Array) -> Array:
        """d loss / d outputs, given d loss / d actions, both ``[T, n * E, width]``."""
        if isinstance(self.through, Deterministic):
            return self.through.greedy_gradient(self.actions, slope)
        return self.through.backward(_rows(slope)).reshape(slope.shape)


def acted(context: Context[DdpgConfig], group: int, weights: Weights) -> Acted:
    """What the policy of these weights does at the minibatch's steps."""
    agents, head = members(context.team, group), _deterministic(context, group)
    outputs, trace = seen_by(context, group).unroll(weights)
    if head is not None:
        return Acted(head.greedy(outputs), outputs, trace, head)
    rng = generator(context.seed, context.round, "gumbel", context.update, group)
    noise = gumbel.noise(rng.random(_rows(outputs).shape, dtype=np.float32)).astype(outputs.dtype)
    relaxed = gumbel.relax(_rows(outputs), noise, context.config.temperature, _legal(context, agents))
    return Acted(relaxed.hard.reshape(outputs.shape), outputs, trace, relaxed)


def entropy(context: Context[DdpgConfig], group: int, found: Acted, counted: Flags) -> dict[str, float]:
    """How even the choices of the group and of each agent are, in nats, over rows `counted` ``[n, T, E]``; nothing of
    agents that act in numbers."""
    if isinstance(found.through, Deterministic):
        return {}
    agents, width = members(context.team, group), found.outputs.shape[-1]
    logits = mask_logits(_rows(found.outputs), _legal(context, agents))
    rows = by_agent(OneChoice(width).entropy(logits, None).reshape(found.outputs.shape[:2]), len(agents))
    return ByAgent.of(agents, counted).means({"entropy": rows[counted]})


def _legal(context: Context[DdpgConfig], agents: list[int]) -> Flags | None:
    """What each could choose ``[T * n * E, actions]``, ordered as outputs are; None for all."""
    batch = context.batch
    if batch.masks is None:
        return None
    return _rows(by_column(np.stack([batch.of(batch.masks, agent) for agent in agents])))


def acting_next(context: Context[DdpgConfig], group: int) -> Array:
    """What the group's target policy does after every step ``[n, T, E, width]``; of choices the likeliest."""
    agents, head = members(context.team, group), _deterministic(context, group)
    weights, seen = recurrent.weights_of(context.tensors, f"target/{group_name(group)}"), seen_by(context, group)
    several = context.config.recurrent or len(context.batch.ended) > 1
    outputs, trace = seen.unroll(weights) if several else (None, None)
    next_outputs = following(context, weights, seen, len(agents), outputs, trace)
    if head is not None:
        found = head.greedy(next_outputs)
    else:
        legal = legal_next(context, agents)
        found = gumbel.greedy(_rows(next_outputs), None if legal is None else _rows(legal)).reshape(next_outputs.shape)
    return found * living_next(context, agents)[..., None]


def acting_now(context: Context[DdpgConfig], group: int) -> Array:
    """What the group's policy does at every step ``[n, T, E, width]``."""
    agents = members(context.team, group)
    weights = recurrent.weights_of(context.tensors, f"policy/{group_name(group)}")
    return by_agent(acted(context, group, weights).actions, len(agents)) * context.batch.alive[agents][..., None]


def taken(context: Context[DdpgConfig], agent: int) -> Array:
    """What the agent did ``[T, E, width]``, as it is remembered; zeros once it is gone."""
    batch, kind = context.batch, kind_of(context.spec, agent)
    recorded, precision = batch.of(batch.actions, agent), batch.state.dtype
    if not kind.continuous:
        recorded = gumbel.one_hot(recorded.ravel(), kind.actions, precision).reshape(*recorded.shape, kind.actions)
    return np.asarray(recorded * batch.alive[agent][..., None], precision)


def _deterministic(context: Context[DdpgConfig], group: int) -> Deterministic | None:
    """The head of a group whose agents act in numbers."""
    head = head_of(kind_of(context.spec, members(context.team, group)[0]), own=False)
    return head if isinstance(head, Deterministic) else None


def _rows(array: Array) -> Array:
    return array.reshape(-1, array.shape[-1])
