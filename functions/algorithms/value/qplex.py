"""QPLEX: a side's joint action value is any function whose best joint action is made of its agents' best actions.

Wang et al., "QPLEX: Duplex Dueling Multi-Agent Q-Learning", 2021. QMIX represents only joint values that increase with
every utility; here the joint value also depends on the joint action, through agents' advantages.
"""

from collections.abc import Mapping
from functools import partial
from typing import Annotated

import numpy as np
from msgspec import Meta

from functions.algorithms.advantages import Flags
from functions.algorithms.off_policy.networks import by_agent
from functions.algorithms.off_policy.priorities import PART
from functions.algorithms.off_policy.replay import learning_signal, side_of
from functions.algorithms.rows import members, state_width
from functions.algorithms.specification import AlgorithmSpec
from functions.algorithms.stage import Context, Stage, Summary, as_base
from functions.algorithms.value import decomposed, mixed
from functions.algorithms.value.decomposed import policy, sent_by, utility
from functions.algorithms.value.duelling_mixer import DuellingMixer, duelling_mixer_of
from functions.algorithms.value.mixed import MixedConfig, MixedValue, columns
from functions.algorithms.value.utilities import Utilities, UtilityConfig
from functions.bounds import MOST_LAYERS
from functions.contract import SummaryName, Team
from functions.environments.base import EnvSpec
from functions.nn.gumbel import one_hot
from functions.nn.losses import mask_logits
from functions.nn.mlp import Array


class QplexConfig(MixedConfig, frozen=True, kw_only=True, tag_field="name", tag="qplex"):
    """Duplex dueling."""

    mixing_heads: Annotated[int, Meta(ge=1, le=MOST_LAYERS, description="attention heads of the mixing network")] = 4


class _Qplex(MixedValue[QplexConfig]):
    def network(self, spec: EnvSpec, team: Team, config: QplexConfig, group: int) -> DuellingMixer:
        side, width = side_of(spec, team, group), state_width(spec, members(team, group)[0])
        return DuellingMixer(len(side), width, sum(_choices(spec, side)), config.mixing_heads, config.hypernet_embed)

    def load(self, context: Context[QplexConfig], prefix: str) -> tuple[DuellingMixer, Array]:
        return duelling_mixer_of(context.tensors, prefix)

    def taken(self, context: Context[QplexConfig], side: list[int], data: str) -> tuple[Array, ...]:
        batch = context.batch
        actions = np.stack([batch.of(batch.actions, agent) for agent in side])
        advantages = sent_by(context, side, f"advantage{data}")
        return columns(advantages), _one_hots(context, side, actions, batch.alive[side])

    def following(self, context: Context[QplexConfig], side: list[int], data: str) -> tuple[Array, ...]:
        alive = context.batch.alive[side] & ~learning_signal(context, side, team=False).terminal
        actions = sent_by(context, side, f"next_action{data}")
        advantages = sent_by(context, side, f"next_advantage{data}")
        return columns(advantages), _one_hots(context, side, actions, alive)


def _duelling(context: Context[UtilityConfig], group: int, utilities: Utilities) -> dict[str, Array]:
    """The utilities, and by how much they are below those of the best actions; see `decomposed.Sent`."""
    batch, agents, after = context.batch, members(context.team, group), utilities.after
    assert after is not None  # which only the stage `policy` leaves out
    legal = None if batch.masks is None else np.stack([batch.of(batch.masks, agent) for agent in agents])
    best = mask_logits(by_agent(utilities.values, len(agents)), legal).max(axis=-1)
    return {
        **decomposed.values(context, group, utilities),
        "advantage": utilities.taken - best,
        "next_advantage": utilities.future - after.best,
        "next_action": after.actions,
    }


def _choices(spec: EnvSpec, agents: list[int]) -> list[int]:
    return [next(kind.actions for kind in spec.classes if agent in kind.agents) for agent in agents]


def _one_hots(context: Context[QplexConfig], side: list[int], actions: Array, alive: Flags) -> Array:
    """The joint action ``[B, sum of agents' actions]`` of `actions` ``[n, T, E]``; zeros for dead agents."""
    precision, wide = context.batch.state.dtype, _choices(context.spec, side)
    parts = [
        one_hot(own.astype(np.int64).ravel(), width, precision) * living.reshape(-1, 1)
        for own, width, living in zip(actions, wide, alive, strict=True)
    ]
    return np.concatenate(parts, axis=1)


_QPLEX = _Qplex()
initialise = _QPLEX.initialise
STAGES: Mapping[str, Stage] = {"utility": partial(utility, sent=_duelling), "mix": _QPLEX.mix, "policy": policy}
SUMMARIES: Mapping[SummaryName, Summary] = {}
merge = as_base
SPEC = AlgorithmSpec(
    "qplex", QplexConfig, mixed.STAGES, mixed.PARTS, __name__, resizable_parts=(PART,), part_bytes=_QPLEX.part_bytes
)
