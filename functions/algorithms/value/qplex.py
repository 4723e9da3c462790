"""QPLEX: a side's joint action value is any function with a best joint action of the agents' best actions.

Wang et al., "QPLEX: Duplex Dueling Multi-Agent Q-Learning", 2021. QMIX represents only joint values that increase with
every utility. Here the joint value also depends on the joint action, through agents' advantages.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np

from marless.functions.algorithms.advantages import Flags
from marless.functions.algorithms.agent_inputs import members
from marless.functions.algorithms.engine import engine_of
from marless.functions.algorithms.off_policy.replay_minibatch import learning_signal
from marless.functions.algorithms.off_policy.target_networks import by_agent
from marless.functions.algorithms.stage import Context, Stage
from marless.functions.algorithms.value import decomposition_stages
from marless.functions.algorithms.value.decomposition_stages import policy, sent_by, utility
from marless.functions.algorithms.value.duelling_mixer import DuellingMixer, duelling_mixer_of
from marless.functions.algorithms.value.joint_values import MixedValue, columns
from marless.functions.algorithms.value.specs import QplexConfig, UtilityConfig, choices
from marless.functions.algorithms.value.utilities import Utilities
from marless.functions.nn.gumbel import one_hot
from marless.functions.nn.layers import Array
from marless.functions.nn.losses import mask_logits


class _Qplex(MixedValue[QplexConfig]):
    def load(self, context: Context[QplexConfig], prefix: str) -> tuple[DuellingMixer, Array]:
        return duelling_mixer_of(context.tensors, prefix, engine_of(context.config))

    def extra_inputs(self, context: Context[QplexConfig], side: list[int], data: str) -> tuple[Array, ...]:
        batch = context.batch
        actions = np.stack([batch.of(batch.actions, agent) for agent in side])
        return columns(sent_by(context, side, f"advantage{data}")), _one_hots(context, side, actions, batch.alive[side])

    def following(self, context: Context[QplexConfig], side: list[int], data: str) -> tuple[Array, ...]:
        alive = context.batch.alive[side] & ~learning_signal(context, side, team=False).terminal
        actions = sent_by(context, side, f"next_action{data}")
        return columns(sent_by(context, side, f"next_advantage{data}")), _one_hots(context, side, actions, alive)


def _duelling(context: Context[UtilityConfig], group: int, utilities: Utilities) -> dict[str, Array]:
    """The utilities, and their distances below the best actions' utilities. See `decomposition_stages.Sent`."""
    batch, agents, after = context.batch, members(context.team, group), utilities.after
    assert after is not None  # which only the stage `policy` leaves out
    legal = None if batch.masks is None else np.stack([batch.of(batch.masks, agent) for agent in agents])
    best = mask_logits(by_agent(utilities.values, len(agents)), legal).max(axis=-1)
    return {
        **decomposition_stages.values(context, group, utilities),
        "advantage": utilities.q_taken - best,
        "next_advantage": utilities.future - after.best,
        "next_action": after.actions,
    }


def _one_hots(context: Context[QplexConfig], side: list[int], actions: Array, alive: Flags) -> Array:
    """The joint action ``[B, sum of agents' actions]`` of `actions` ``[n, T, E]``, with zeros for dead agents."""
    precision, wide = context.batch.state.dtype, choices(context.spec, side)
    parts = [
        one_hot(agent_actions.astype(np.int64).ravel(), width, precision) * living.reshape(-1, 1)
        for agent_actions, width, living in zip(actions, wide, alive, strict=True)
    ]
    return np.concatenate(parts, axis=1)


_QPLEX = _Qplex(DuellingMixer.of)
initialise = _QPLEX.initialise
STAGES: Mapping[str, Stage] = {"utility": partial(utility, message_of=_duelling), "mix": _QPLEX.mix, "policy": policy}
