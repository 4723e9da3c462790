"""Critics that value what agents do, how they learn, and the slope of the values by the actions.

What an agent's critic sees is its `View`: something of the task, then what some agents do, and last the one-hot
identity where the team uses it. A critic with memory remembers what was done; what the policy would do now, or the
target policies after a step, is looked at as one more step that nothing comes after.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from functions.algorithms.advantages import Flags, next_values
from functions.algorithms.base import Context, StageResult
from functions.algorithms.ddpg.actors import kind_of, taken
from functions.algorithms.ddpg.config import DdpgConfig
from functions.algorithms.metrics import ByAgent, due
from functions.algorithms.off_policy.overestimation import overestimation
from functions.algorithms.off_policy.replay import (
    Shown,
    by_agent,
    by_column,
    chased,
    drawn,
    error_for,
    learning_signal,
    scaled,
    unprefixed,
)
from functions.algorithms.off_policy.reward_scale import RewardScale
from functions.algorithms.off_policy.td import one_step, td_loss
from functions.algorithms.rows import members, starts, with_identity
from functions.algorithms.trainable import Trainable
from functions.contract import Team
from functions.data.batch import Batch
from functions.environments.base import EnvSpec
from functions.keys import group_name
from functions.nn import recurrent
from functions.nn.gru import Unrolled
from functions.nn.mlp import Array
from functions.nn.recurrent import Trace, Weights

Actions = Mapping[int, Array]
"""What agents do at the steps of a minibatch, by agent ``[T, E, width]``."""


class View(NamedTuple):
    """What an agent's critic sees: `seen` ``[T, E, width]`` and, after each cut, ``[K, width]``, and what the agents
    `whose` do, the agent itself among them."""

    width: Callable[[EnvSpec, int], int]
    seen: Callable[[Batch, int], tuple[Array, Array]]
    whose: Callable[[EnvSpec, Team, int], list[int]]


class Critics:
    """Critics that see what `view` gives them."""

    def __init__(self, view: View) -> None:
        self._view = view

    def width(self, spec: EnvSpec, team: Team, agent: int) -> int:
        """How much the agent's critic sees, without identity."""
        actions = sum(kind_of(spec, other).actions for other in self._view.whose(spec, team, agent))
        return self._view.width(spec, agent) + actions

    def judge(self, whole: Context[DdpgConfig], group: int, now: Array, after: Actions, played: Actions) -> StageResult:
        """One step of the group's critic and its target, and the slope of its policy's loss by what the policy does.

        `whole` is not a minibatch's context. `now` ``[n, T, E, width]`` is what the policy does at the minibatch's
        steps, `after` what the target policies of all whom the critic sees do after them, and `played` the same of all
        that the round itself played, in its last update.
        """
        told = self._overestimation(whole, group, played) if due(whole) else {}
        context, name, agents = drawn(whole), group_name(group), members(whole.team, group)
        of = partial(learning_signal, agents=agents, team=context.config.reward == "team")
        sight, signal = _Sight(self._view, context, agents), of(context)
        rewards, unit, offset, normaliser = scaled(whole, name, signal, of)
        shown, network = sight.steps(), _trainable(context, name)
        future = _future(context, name, sight, shown, after) + offset
        targets = one_step(rewards, future, signal.terminal, context.config.gamma)
        values, trace = shown.unroll(network.weights)
        taken_values = by_agent(values[..., 0], len(agents)) + offset
        loss = td_loss(taken_values, targets.astype(values.dtype), context.config.huber_delta, alive=signal.learned)
        norm = network.descend(trace, error_for(network.weights, by_column(loss.grad_output)[..., None]))
        made = network.tensors("critic", name)
        moved = chased(context, unprefixed(made, f"critic/{name}"), "critic_target", name)
        slope = sight.slope(network.weights, shown, now, learning_signal(context, agents, team=False).learned)
        if due(whole):
            rows = {"td_loss": loss.rows[signal.learned], "value": unit * taken_values[signal.learned]}
            told |= {"critic_grad_norm": norm, **ByAgent.of(agents, signal.learned).means(rows)}
        return StageResult({**made, **moved, f"normaliser/{name}": normaliser, f"slope/{name}": slope}, told)

    def _overestimation(self, context: Context[DdpgConfig], group: int, after: Actions) -> dict[str, float]:
        name, agents, config = group_name(group), members(context.team, group), context.config
        sight, signal = _Sight(self._view, context, agents), learning_signal(context, agents, config.reward == "team")
        shown = sight.steps()
        values, _ = shown.unroll(recurrent.weights_of(context.tensors, f"critic/{name}"))
        offset = RewardScale.of(context.tensors[f"normaliser/{name}"]).units(config.standardise_rewards).offset
        future = _future(context, name, sight, shown, after) + offset
        taken_values = by_agent(values[..., 0], len(agents)) + offset
        return overestimation(context, f"normaliser/{name}", taken_values, future, signal, agents)


@dataclass(frozen=True)
class _Sight:
    """What the critics of some agents are shown of a minibatch, columns ordered by agent."""

    view: View
    context: Context[DdpgConfig]
    agents: list[int]

    def steps(self, own: Array | None = None) -> Shown:
        """The steps, with what was done; with `own` ``[n, T, E, width]`` each agent does that in its critic's eyes."""
        batch = self.context.batch
        seen_by = {other for agent in self.agents for other in self._whose(agent)}
        done: Actions = {other: taken(self.context, other) for other in seen_by}
        each = [done if own is None else {**done, agent: own[index]} for index, agent in enumerate(self.agents)]
        columns = self._columns([self.view.seen(batch, agent)[0] for agent in self.agents], each)
        begins = np.tile(starts(self.context), (1, len(self.agents)))
        return Shown(columns, columns[:0], begins, self.context.config.burn_in)

    def beyond(self, after: Actions) -> Array:
        """What comes after each step ``[T, n * E, F]``, with what is done then."""
        pairs = [self.view.seen(self.context.batch, agent) for agent in self.agents]
        seen = [next_values(now[None], cut[None], self.context.batch.cut)[0] for now, cut in pairs]
        return self._columns(seen, [after] * len(pairs))

    def slope(self, weights: Weights, shown: Shown, own: Array, learned: Flags) -> Array:
        """d(-mean Q_i) / d `own` ``[n, T, E, width]``, others doing what they did; the mean is over rows `learned`."""
        remembered, columns = _remembered(weights, shown), self.steps(own).now
        _, trace = _branched(weights, columns, None if remembered is None else remembered.before)
        error = by_column(learned)[..., None] * trace.outputs.dtype.type(-1 / max(1, int(learned.sum())))
        reached = recurrent.backward_to_inputs(weights, trace, error.reshape(trace.outputs.shape))
        by_whom = by_agent(reached.reshape(columns.shape), len(self.agents))
        found = [by_whom[index][..., self._place(agent)] for index, agent in enumerate(self.agents)]
        return np.stack(found)

    def _place(self, agent: int) -> slice:
        """Where the agent's own action stands in what its critic is shown."""
        spec, whose = self.context.spec, self._whose(agent)
        before = sum(kind_of(spec, other).actions for other in whose[: whose.index(agent)])
        first = self.view.width(spec, agent) + before
        return slice(first, first + kind_of(spec, agent).actions)

    def _whose(self, agent: int) -> list[int]:
        return self.view.whose(self.context.spec, self.context.team, agent)

    def _columns(self, seen: Sequence[Array], actions: Sequence[Actions]) -> Array:
        columns = []
        for agent, rows, acts in zip(self.agents, seen, actions, strict=True):
            whole = np.concatenate([rows, *(acts[other] for other in self._whose(agent))], axis=-1)
            columns.append(with_identity(self.context, agent, whole))
        return np.concatenate(columns, axis=1)


def _trainable(context: Context[DdpgConfig], name: str) -> Trainable:
    """The group's critic, which steps at a rate of its own."""
    return Trainable.load(context, "critic", name, context.config.critic_lr)


def _future(context: Context[DdpgConfig], name: str, sight: _Sight, shown: Shown, after: Actions) -> Array:
    """The target critic's values after each step ``[n, T, E]``."""
    target = recurrent.weights_of(context.tensors, f"critic_target/{name}")
    remembered = _remembered(target, shown)
    values, _ = _branched(target, sight.beyond(after), None if remembered is None else remembered.hidden)
    return by_agent(values, len(sight.agents))


def _branched(weights: Weights, columns: Array, memory: Array | None) -> tuple[Array, Trace]:
    """Values ``[T, n * E]`` of steps that are each looked at alone, with the `memory` ``[T, n * E, H]`` before them."""
    rows = columns.reshape(-1, columns.shape[-1])
    if memory is None:
        trace = recurrent.forward(weights, rows)
    else:
        trace = recurrent.forward(weights, rows[None], first=memory.reshape(-1, memory.shape[-1]))
    return trace.outputs.reshape(columns.shape[:2]), trace


def _remembered(weights: Weights, shown: Shown) -> Unrolled | None:
    """What a critic remembers before and after each step, where it has a memory."""
    return shown.unroll(weights)[1].unrolled if weights.cell is not None else None
