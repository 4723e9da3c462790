"""Compute the inputs of action-value critics, values after each step, and gradients by own actions.

The inputs of an agent's critic are its `View` (observations or the state), some agents' actions, and the one-hot
identity if the team uses it. Critics read a discrete action as its one-hot and a continuous one as recorded, in [-1,
1]. The actions of a dead agent are all zeros. The hidden state of a recurrent critic follows the recorded actions.
Values of the policy's own action, or of actions after a step, take one step from it and discard the new hidden state.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from marless.functions.algorithms.advantages import next_values
from marless.functions.algorithms.group_inputs import starts, with_identity
from marless.functions.algorithms.off_policy.specs import ReplayConfig, View, kind_of
from marless.functions.algorithms.off_policy.target_networks import NetworkInputs, by_agent
from marless.functions.algorithms.stage import Context
from marless.functions.nn import gumbel
from marless.functions.nn.layers import Array
from marless.functions.nn.networks import Trace, Weights

Actions = Mapping[int, Array]
"""Actions at the steps of a minibatch, by agent ``[T, E, width]``."""


def recorded_calls(context: Context[ReplayConfig], agent: int) -> Array:
    """The agent's recorded actions ``[T, E, width]``, or zeros once it is dead."""
    batch, kind = context.batch, kind_of(context.spec, agent)
    actions, precision = batch.of(batch.actions, agent), batch.state.dtype
    if not kind.continuous:
        actions = gumbel.one_hot(actions.ravel(), kind.actions, precision).reshape(*actions.shape, kind.actions)
    return np.asarray(actions * batch.alive[agent][..., None], precision)


@dataclass(frozen=True)
class CriticInputs:
    """The inputs of the critics of some agents in a minibatch, columns ordered by agent."""

    view: View
    context: Context[ReplayConfig]
    agents: list[int]

    def steps(self, own_actions: Array | None = None) -> NetworkInputs:
        """The steps with the recorded actions. `own_actions` ``[n, T, E, width]`` replaces the actions of each critic's
        own agent."""
        batch = self.context.batch
        acting = {actor for agent in self.agents for actor in self._acting(agent)}
        batch_actions: Actions = {actor: recorded_calls(self.context, actor) for actor in acting}
        agent_columns = [
            batch_actions if own_actions is None else {**batch_actions, agent: own_actions[row]}
            for row, agent in enumerate(self.agents)
        ]
        columns = self._columns([self.view.inputs(batch, agent)[0] for agent in self.agents], agent_columns)
        begins = np.tile(starts(self.context), (1, len(self.agents)))
        return NetworkInputs(columns, columns[:0], begins, self.context.config.burn_in)

    def after_steps(self, actions: Actions) -> Array:
        """The inputs after each step ``[T, n * E, F]``, with these `actions`."""
        pairs = [self.view.inputs(self.context.batch, agent) for agent in self.agents]
        inputs = [next_values(now[None], cut[None], self.context.batch.cut)[0] for now, cut in pairs]
        return self._columns(inputs, [actions] * len(pairs))

    def own_action(self, agent: int) -> slice:
        """The agent's own action in the inputs of its critic."""
        spec, acting = self.context.spec, self._acting(agent)
        before = sum(kind_of(spec, actor).actions for actor in acting[: acting.index(agent)])
        first = self.view.width(spec, agent) + before
        return slice(first, first + kind_of(spec, agent).actions)

    def _acting(self, agent: int) -> list[int]:
        return self.view.agents(self.context.spec, self.context.team, agent)

    def _columns(self, inputs: Sequence[Array], actions: Sequence[Actions]) -> Array:
        columns = []
        for agent, rows, by_actor in zip(self.agents, inputs, actions, strict=True):
            features = np.concatenate([rows, *(by_actor[actor] for actor in self._acting(agent))], axis=-1)
            columns.append(with_identity(self.context, agent, features))
        return np.concatenate(columns, axis=1)


def values_after(weights: Weights, inputs: CriticInputs, steps: NetworkInputs, actions: Actions) -> Array:
    """The critic's outputs after each step ``[n, T, E]``, with these `actions` after it."""
    columns, hidden = inputs.after_steps(actions), _hidden_states(weights, steps)
    rows, first = _independent(columns, None if hidden is None else hidden.hidden)
    return by_agent(weights.forward(rows, first=first).outputs.reshape(columns.shape[:2]), len(inputs.agents))


class OwnActions(NamedTuple):
    """The steps of a minibatch with other actions of the critics' own agents, each from the hidden state `first` of the
    recorded actions. `rows` are inputs of `Weights.forward`, and `shape` is their ``[T, n * E, F]``."""

    inputs: CriticInputs
    rows: Array
    first: Array | None
    shape: tuple[int, ...]

    @classmethod
    def of(cls, weights: Weights, inputs: CriticInputs, steps: NetworkInputs, own_actions: Array) -> Self:
        """With the agents' actions `own_actions` ``[n, T, E, width]``, the others' as recorded."""
        hidden, columns = _hidden_states(weights, steps), inputs.steps(own_actions).steps
        return cls(inputs, *_independent(columns, None if hidden is None else hidden.before), columns.shape)

    def values(self, weights: Weights) -> Array:
        """The critic's values ``[T, n * E]``."""
        return weights.forward(self.rows, first=self.first).outputs.reshape(self.shape[:2])

    def gradient(self, weights: Weights, grad_output: Array) -> Array:
        """d loss / d `own_actions`, from d loss / d the critic's value ``[T, n * E]``."""
        gradient = weights.input_gradient(self.rows, grad_output.reshape(*self.rows.shape[:-1], 1), self.first)
        of_critics = by_agent(gradient.reshape(self.shape), len(self.inputs.agents))
        return np.stack(
            [of_critics[row][..., self.inputs.own_action(agent)] for row, agent in enumerate(self.inputs.agents)]
        )


def _independent(columns: Array, hidden: Array | None) -> tuple[Array, Array | None]:
    """The inputs of independent steps ``[T, n * E, F]``, each from its own hidden state ``[T, n * E, H]``, and the
    states, as `Weights.forward` takes them."""
    rows = columns.reshape(-1, columns.shape[-1])
    return (rows, None) if hidden is None else (rows[None], hidden.reshape(-1, hidden.shape[-1]))


def _hidden_states(weights: Weights, steps: NetworkInputs) -> Trace | None:
    return steps.unroll(weights)[1] if weights.hidden_size else None
