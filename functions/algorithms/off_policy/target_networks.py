"""Networks that learn from minibatches: their inputs, their outputs after each step, and their target networks.

Rows of n agents stand side by side as n * E columns, ordered by agent.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from marless.functions.algorithms.advantages import Flags, next_values
from marless.functions.algorithms.agent_inputs import members, own_observation
from marless.functions.algorithms.engine import weights_of
from marless.functions.algorithms.group_inputs import starts, with_identity
from marless.functions.algorithms.off_policy.specs import ReplayConfig
from marless.functions.algorithms.specification import AlgorithmConfig
from marless.functions.algorithms.stage import Context, within
from marless.functions.keys import group_name
from marless.functions.nn.layers import Array
from marless.functions.nn.networks import Trace, Weights, unroll


class NetworkInputs(NamedTuple):
    """The inputs of a group's networks, columns ordered by agent: `steps` ``[T, n * E, F]``, `after_cuts`
    ``[n * K, F]``, and where episodes begin, `begins` ``[T, n * E]``. The first `burn_in` steps only fill the hidden
    state."""

    steps: Array
    after_cuts: Array
    begins: Flags
    burn_in: int

    def unroll(self, weights: Weights) -> tuple[Array, Trace]:
        """Outputs ``[T, n * E, out]``, and the trace that `Trainable.descend` takes."""
        return unroll(weights, self.steps, self.begins, self.burn_in)


def network_inputs(
    context: Context[ReplayConfig], agents: list[int], steps: Sequence[Array], after_cuts: Sequence[Array]
) -> NetworkInputs:
    """Agents' rows ``[T, E, F]`` and ``[K, F]`` side by side, with the one-hot identity where the team uses it."""
    return NetworkInputs(
        np.concatenate(
            [with_identity(context, agent, rows) for agent, rows in zip(agents, steps, strict=True)], axis=1
        ),
        np.concatenate([with_identity(context, agent, rows) for agent, rows in zip(agents, after_cuts, strict=True)]),
        np.tile(starts(context), (1, len(agents))),
        context.config.burn_in,
    )


def observation_inputs(context: Context[ReplayConfig], group: int) -> NetworkInputs:
    """The observations of the group's agents in the minibatch, zeros where an agent is dead."""
    batch, agents = context.batch, members(context.team, group)
    steps, after_cuts = zip(*(own_observation(batch, agent) for agent in agents), strict=True)
    return network_inputs(context, agents, steps, after_cuts)


def grad_output_for(weights: Weights, grad_output: Array) -> Array:
    """d loss / d outputs ``[T, n * E, out]`` in the shape that `Trainable.descend` takes."""
    return grad_output if weights.hidden_size else rows_of(grad_output)


def next_outputs(
    context: Context[ReplayConfig],
    weights: Weights,
    inputs: NetworkInputs,
    agents: int,
    outputs: Array | None,
    trace: Trace | None,
) -> Array:
    """Outputs for the observations after every step ``[n, T, E, out]``. `outputs` and `trace` are of the steps.

    Both may be None if networks have no hidden state and segments have one step.
    """
    batch = context.batch
    steps, num_envs = batch.ended.shape
    first = None
    if weights.hidden_size and trace is not None:
        # The hidden state at each cut, agent by agent.
        hidden = trace.hidden.reshape(steps, agents, num_envs, -1)
        first = np.concatenate([hidden[batch.cut[:, 0], agent, batch.cut[:, 1]] for agent in range(agents)])
        after = weights.forward(inputs.after_cuts[None], first=first).outputs[0]
    else:
        after = weights.forward(inputs.after_cuts).outputs
    after = after.reshape(agents, -1, after.shape[-1])
    if outputs is None:
        outputs = np.zeros((steps, agents * num_envs, after.shape[-1]), after.dtype)
    return next_values(by_agent(outputs, agents), after, batch.cut)


def group_outputs_after(context: Context[ReplayConfig], part: str, group: int) -> Array:
    """Outputs of the group's network `part` for the observations after every step ``[n, T, E, out]``."""
    agents, weights = members(context.team, group), weights_of(context, f"{part}/{group_name(group)}")
    inputs = observation_inputs(context, group)
    needs_steps = context.config.recurrent or len(context.batch.ended) > 1
    steps = inputs.unroll(weights) if needs_steps else (None, None)
    return next_outputs(context, weights, inputs, len(agents), *steps)


def legal_next(context: Context[AlgorithmConfig], agents: list[int]) -> Flags | None:
    """The legal actions after each step ``[n, T, E, actions]``, of agents of one class, or None if all are legal.

    A dead agent's recorded action is action 0, so only action 0 is legal for it.
    """
    batch, alive = context.batch, alive_next(context, agents)
    if batch.masks is None or batch.cut_masks is None:
        if alive.all():
            return None
        actions = next(kind.actions for kind in context.spec.classes if agents[0] in kind.agents)
        legal = np.ones((*alive.shape, actions), np.bool_)
    else:
        masks = np.stack([batch.of(batch.masks, agent) for agent in agents])
        after = np.stack([batch.of(batch.cut_masks, agent) for agent in agents])
        legal = np.ones_like(masks)
        legal[:, :-1] = masks[:, 1:]
        legal[:, batch.cut[:, 0], batch.cut[:, 1]] = after
    legal[~alive] = np.arange(legal.shape[-1]) == 0
    return legal


def legal_rows(context: Context[ReplayConfig], group: int) -> Flags | None:
    """A group's legal actions ``[T * n * E, actions]``, in the order of columns. None if all are legal."""
    batch = context.batch
    if batch.masks is None:
        return None
    return rows_of(by_column(np.stack([batch.of(batch.masks, agent) for agent in members(context.team, group)])))


def alive_next(context: Context[AlgorithmConfig], agents: list[int]) -> Flags:
    """The flags of living agents after each step ``[n, T, E]``."""
    return np.asarray(context.batch.alive[agents] & ~context.batch.terminated[agents])


def rows_of(columns: Array) -> Array:
    """``[..., width]`` as ``[rows, width]``."""
    return columns.reshape(-1, columns.shape[-1])


def by_agent(columns: Array, agents: int) -> Array:
    """``[T, n * E, ...]`` as ``[n, T, E, ...]``."""
    steps, wide = columns.shape[:2]
    return columns.reshape(steps, agents, wide // agents, *columns.shape[2:]).swapaxes(0, 1)


def by_column(rows: Array) -> Array:
    """``[n, T, E, ...]`` as ``[T, n * E, ...]``."""
    agents, steps, num_envs = rows.shape[:3]
    return rows.swapaxes(0, 1).reshape(steps, agents * num_envs, *rows.shape[3:])


def update_target(
    context: Context[ReplayConfig], tensors: dict[str, Array], part: str, target_part: str, name: str
) -> dict[str, Array]:
    """The target network `<target_part>/<name>` after this update. The online network is `<part>/<name>` of `tensors`.

    Targets are computed with older weights, so that a step does not move its own target.
    """
    config = context.config
    online, target = within(tensors, f"{part}/{name}"), within(context.tensors, f"{target_part}/{name}")
    if config.target_update_interval is None:
        new = soft_update(online, target, config.tau)
    else:
        updates = (context.round - context.age) * config.updates_per_round + context.update + 1
        new = hard_update(online, target, updates, config.target_update_interval)
    return {f"{target_part}/{name}/{key}": array.astype(target[key].dtype, copy=False) for key, array in new.items()}


def hard_update(
    online: Mapping[str, Array], target: Mapping[str, Array], updates: int, interval: int
) -> dict[str, Array]:
    """The target after `updates` updates since the start: a copy of `online` every `interval` (Mnih et al., 2015).

    Raises `ValueError` when the names differ or `interval` is below 1.
    """
    _require_same(online, target)
    if interval < 1:
        raise ValueError(f"a target is copied every 1 or more updates, not every {interval}")
    return dict(target) if updates % interval else {name: tensor.copy() for name, tensor in online.items()}


def soft_update(online: Mapping[str, Array], target: Mapping[str, Array], tau: float) -> dict[str, Array]:
    """``(1 - tau) target + tau online``, the Polyak update of DDPG (Lillicrap et al., 2016).

    With tau 1 this is `online` to the bit. Raises `ValueError` when the names differ or `tau` is not within 0 to 1.
    """
    _require_same(online, target)
    if not 0 <= tau <= 1:
        raise ValueError(f"the rate of a soft update is from 0 to 1, not {tau}")
    # A network's shape and graph are bytes, copied from the online network.
    weights = {name for name, tensor in online.items() if tensor.dtype.kind == "f"}
    return {
        name: (1 - tau) * target[name] + tau * tensor if name in weights else tensor for name, tensor in online.items()
    }


def _require_same(online: Mapping[str, Array], target: Mapping[str, Array]) -> None:
    if online.keys() != target.keys():
        odd = ", ".join(sorted(online.keys() ^ target.keys()))
        raise ValueError(f"the online and the target network do not have the same tensors: {odd}")
