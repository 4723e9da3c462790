"""Action-value critics: their inputs, their training, and the gradient of their values with respect to the actions.

The inputs of an agent's critic are its `View`: observations or the state, then the actions of some agents, and last the
one-hot identity where the team uses it. The hidden state of a recurrent critic follows the recorded actions; the
policy's own action, or the target policies' actions after a step, are one step from it, whose hidden state is
discarded.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from functions.algorithms.advantages import Flags, next_values
from functions.algorithms.base import Context, StageResult
from functions.algorithms.ddpg.actors import kind_of, recorded_actions
from functions.algorithms.ddpg.config import DdpgConfig
from functions.algorithms.engine import weights_of
from functions.algorithms.metrics import ByAgent, due
from functions.algorithms.off_policy.networks import (
    NetworkInputs,
    by_agent,
    by_column,
    grad_output_for,
    update_target,
)
from functions.algorithms.off_policy.overestimation import overestimation
from functions.algorithms.off_policy.replay import learning_signal, with_minibatch
from functions.algorithms.off_policy.reward_scale import scale_rewards, value_scale
from functions.algorithms.off_policy.td import one_step, td_loss
from functions.algorithms.rows import critic_shape, members, starts, with_identity
from functions.algorithms.trainable import Trainable
from functions.contract import Team
from functions.data.batch import Batch
from functions.environments.base import EnvSpec
from functions.keys import group_name
from functions.nn.mlp import Array
from functions.nn.networks import Trace, Weights

Actions = Mapping[int, Array]
"""Actions at the steps of a minibatch, by agent ``[T, E, width]``."""


class View(NamedTuple):
    """The inputs of an agent's critic: `inputs` ``[T, E, width]`` and, after each cut, ``[K, width]``, and the actions
    of `agents`, the agent itself among them."""

    width: Callable[[EnvSpec, int], int]
    inputs: Callable[[Batch, int], tuple[Array, Array]]
    agents: Callable[[EnvSpec, Team, int], list[int]]


class Critics:
    """Critics whose inputs are those of `view`."""

    def __init__(self, view: View) -> None:
        self._view = view

    def width(self, spec: EnvSpec, team: Team, agent: int) -> int:
        """The width of the inputs of the agent's critic, without identity."""
        actions = sum(kind_of(spec, other).actions for other in self._view.agents(spec, team, agent))
        return self._view.width(spec, agent) + actions

    def shape(self, spec: EnvSpec, agent: int) -> tuple[int, ...]:
        """See `rows.critic_shape`."""
        return critic_shape(spec, agent, self._view.width(spec, agent))

    def train_step(
        self, context: Context[DdpgConfig], group: int, now: Array, after: Actions, played: Actions
    ) -> StageResult:
        """One step of the group's critic and its target, and d policy loss / d policy's actions.

        `context` is not a minibatch's. `now` ``[n, T, E, width]`` are the policy's actions at the minibatch's steps,
        `after` the target policies' actions after these steps, and `played` the same for all of the round's own steps,
        in its last update.
        """
        metrics = self._overestimation(context, group, played) if due(context) else {}
        minibatch, name, agents = with_minibatch(context), group_name(group), members(context.team, group)
        config = context.config
        signal_of = partial(learning_signal, agents=agents, team=config.reward == "team")
        inputs, signal = _CriticInputs(self._view, minibatch, agents), signal_of(minibatch)
        rewards, scale, offset, normaliser = scale_rewards(context, name, signal, signal_of)
        steps, network = inputs.steps(), Trainable.load(minibatch, "critic", name, config.critic_lr)
        future = _future(minibatch, name, inputs, steps, after) + offset
        targets = one_step(rewards, future, signal.terminal, config.gamma)
        values, trace = steps.unroll(network.weights)
        taken = by_agent(values[..., 0], len(agents)) + offset
        loss = td_loss(taken, targets.astype(values.dtype), config.huber_delta, alive=signal.learned)
        norm = network.descend(trace, grad_output_for(network.weights, by_column(loss.grad_output)[..., None]))
        tensors = network.tensors("critic", name)
        target = update_target(minibatch, tensors, "critic", "critic_target", name)
        alive = learning_signal(minibatch, agents, team=False).learned
        gradient = inputs.action_gradient(network.weights, steps, now, alive)
        if due(context):
            rows = {"td_loss": loss.rows[signal.learned], "value": scale * taken[signal.learned]}
            metrics |= {"critic_grad_norm": norm, **ByAgent.of(agents, signal.learned).means(rows)}
        tensors |= {**target, f"normaliser/{name}": normaliser, f"gradient/{name}": gradient}
        return StageResult(tensors, metrics)

    def _overestimation(self, context: Context[DdpgConfig], group: int, after: Actions) -> dict[str, float]:
        name, agents, config = group_name(group), members(context.team, group), context.config
        inputs = _CriticInputs(self._view, context, agents)
        signal, steps = learning_signal(context, agents, config.reward == "team"), inputs.steps()
        values, _ = steps.unroll(weights_of(context, f"critic/{name}"))
        offset = value_scale(context, name).offset
        future = _future(context, name, inputs, steps, after) + offset
        taken = by_agent(values[..., 0], len(agents)) + offset
        return overestimation(context, name, taken, future, signal, agents)


@dataclass(frozen=True)
class _CriticInputs:
    """The inputs of the critics of some agents in a minibatch, columns ordered by agent."""

    view: View
    context: Context[DdpgConfig]
    agents: list[int]

    def steps(self, own: Array | None = None) -> NetworkInputs:
        """The steps with the recorded actions; `own` ``[n, T, E, width]`` replaces those of each critic's own agent."""
        batch = self.context.batch
        acting = {other for agent in self.agents for other in self._acting(agent)}
        recorded: Actions = {other: recorded_actions(self.context, other) for other in acting}
        each = [recorded if own is None else {**recorded, agent: own[row]} for row, agent in enumerate(self.agents)]
        columns = self._columns([self.view.inputs(batch, agent)[0] for agent in self.agents], each)
        begins = np.tile(starts(self.context), (1, len(self.agents)))
        return NetworkInputs(columns, columns[:0], begins, self.context.config.burn_in)

    def after_steps(self, actions: Actions) -> Array:
        """The inputs after each step ``[T, n * E, F]``, with these `actions`."""
        pairs = [self.view.inputs(self.context.batch, agent) for agent in self.agents]
        inputs = [next_values(now[None], cut[None], self.context.batch.cut)[0] for now, cut in pairs]
        return self._columns(inputs, [actions] * len(pairs))

    def action_gradient(self, weights: Weights, steps: NetworkInputs, own: Array, learned: Flags) -> Array:
        """d(-mean Q_i) / d `own` ``[n, T, E, width]``, the others' actions as recorded; the mean is over rows
        `learned`."""
        hidden, columns = _hidden_states(weights, steps), self.steps(own).steps
        rows, first = _independent(columns, None if hidden is None else hidden.before)
        grad_output = by_column(learned)[..., None] * weights.dtype.type(-1 / max(1, int(learned.sum())))
        gradient = weights.input_gradient(rows, grad_output.reshape(*rows.shape[:-1], 1), first)
        of_critics = by_agent(gradient.reshape(columns.shape), len(self.agents))
        return np.stack([of_critics[row][..., self._own_action(agent)] for row, agent in enumerate(self.agents)])

    def _own_action(self, agent: int) -> slice:
        """The agent's own action in the inputs of its critic."""
        spec, acting = self.context.spec, self._acting(agent)
        before = sum(kind_of(spec, other).actions for other in acting[: acting.index(agent)])
        first = self.view.width(spec, agent) + before
        return slice(first, first + kind_of(spec, agent).actions)

    def _acting(self, agent: int) -> list[int]:
        return self.view.agents(self.context.spec, self.context.team, agent)

    def _columns(self, inputs: Sequence[Array], actions: Sequence[Actions]) -> Array:
        columns = []
        for agent, rows, by_actor in zip(self.agents, inputs, actions, strict=True):
            joined = np.concatenate([rows, *(by_actor[other] for other in self._acting(agent))], axis=-1)
            columns.append(with_identity(self.context, agent, joined))
        return np.concatenate(columns, axis=1)


def _future(
    context: Context[DdpgConfig], name: str, inputs: _CriticInputs, steps: NetworkInputs, after: Actions
) -> Array:
    """The target critic's values after each step ``[n, T, E]``."""
    target, columns = weights_of(context, f"critic_target/{name}"), inputs.after_steps(after)
    hidden = _hidden_states(target, steps)
    rows, first = _independent(columns, None if hidden is None else hidden.hidden)
    return by_agent(target.forward(rows, first=first).outputs.reshape(columns.shape[:2]), len(inputs.agents))


def _independent(columns: Array, hidden: Array | None) -> tuple[Array, Array | None]:
    """The inputs of independent steps ``[T, n * E, F]``, each from its own hidden state ``[T, n * E, H]``, and the
    states, as `Weights.forward` takes them."""
    rows = columns.reshape(-1, columns.shape[-1])
    return (rows, None) if hidden is None else (rows[None], hidden.reshape(-1, hidden.shape[-1]))


def _hidden_states(weights: Weights, steps: NetworkInputs) -> Trace | None:
    """A pass over the steps, with the hidden states of a recurrent critic; else None."""
    return steps.unroll(weights)[1] if weights.hidden_size else None
