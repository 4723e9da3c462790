"""The stages around a joint value: utilities go up to where they are mixed, and the joint value's gradient comes down.

A joint value couples all agents of a side in every update. What crosses between their networks is small: the value of
what each agent did and of what it would do next, and the loss's slope by the former. So networks may be in functions of
their own, and the gradient is exactly that of one network that holds them all.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from functions.algorithms.advantages import Flags
from functions.algorithms.base import Context, StageResult, StageSpec
from functions.algorithms.metrics import OWN, ByAgent, due
from functions.algorithms.off_policy.priorities import PART, Draw, Judged
from functions.algorithms.off_policy.replay import drawn, groups_of, side_of
from functions.algorithms.off_policy.td import TdLoss
from functions.algorithms.rows import members
from functions.algorithms.value import utilities as networks
from functions.algorithms.value.utilities import UtilityConfig, trained, utilities
from functions.contract import Team
from functions.environments.base import EnvSpec
from functions.keys import group_name
from functions.nn.mlp import Array

_OWN_PARTS = ("policy", "policy_optimiser", "target", PART)
STAGE_SPECS: Mapping[str, StageSpec] = {
    "utility": StageSpec("utility", (), "group", _OWN_PARTS, ()),
    "policy": StageSpec("policy", ("mix",), "group", _OWN_PARTS, _OWN_PARTS),
}


class Gathered(NamedTuple):
    """What the agents of a side made of the minibatch, ``[n, T, E]``; see `utilities.Utilities`."""

    taken: Array
    future: Array

    def raised(self, offset: float) -> "Gathered":
        """All values higher by `offset`."""
        return Gathered(self.taken + offset, self.future + offset)


def initialise(spec: EnvSpec, team: Team, config: UtilityConfig, seed: int, group: int) -> dict[str, Array]:
    """As `utilities.initialise`; the normaliser is the side's, so that only its first group has one."""
    made = networks.initialise(spec, team, config, seed, group)
    if not leads(spec, team, group):
        del made[f"normaliser/{group_name(group)}"]
    return made


def leads(spec: EnvSpec, team: Team, group: int) -> bool:
    """Whether the group is its side's first, which keeps what a side has once."""
    return group == groups_of(team, side_of(spec, team, group))[0]


def utility(context: Context[UtilityConfig], group: int) -> StageResult:
    """The group's part in the joint value, and in its target."""
    name = group_name(group)
    draw = Draw.of(context, name)
    found = context.memo["utilities", group] = utilities(draw.shown(context), group)
    made = {f"taken/{name}": found.taken, f"future/{name}": found.future, **draw.tensors(name)}
    if due(context):
        own = utilities(context, group)
        made |= {f"taken{OWN}/{name}": own.taken, f"future{OWN}/{name}": own.future}
    return StageResult(made, {})


def policy(context: Context[UtilityConfig], group: int) -> StageResult:
    """One step of the group's network down the joint value's gradient."""
    name = group_name(group)
    judged = Judged.told(context, name)
    context = drawn(context, judged.places if judged else None)
    # Where the stage before ran in this function, too, that is the same forward pass, of the same weights.
    found = context.memo.pop(("utilities", group), None) or utilities(context, group, look_ahead=False)
    tensors, norm = trained(context, group, found, context.tensors[f"slope/{name}"])
    written = judged.written(context, name) if judged else {}
    return StageResult({**tensors, **written}, {"policy_grad_norm": norm})


def mixing_group(context: Context[UtilityConfig], group: int) -> list[int]:
    """The agents on the group's side, ascending, if the group is the side's first; else none."""
    return side_of(context.spec, context.team, group) if leads(context.spec, context.team, group) else []


def gathered(context: Context[UtilityConfig], side: list[int], data: str = "") -> Gathered:
    """What the groups of a side gave, agent by agent; with `OWN` of the round's own data, in its last update."""
    return Gathered(*(_by_agent(context, side, name + data) for name in Gathered._fields))


def shared_out(
    context: Context[UtilityConfig], side: list[int], slopes: Array, judged: Judged | None
) -> dict[str, Array]:
    """The loss's slope by the value of what each agent did ``[n, T, E]``, as every group of the side gets it, and what
    was found of the minibatch."""
    made: dict[str, Array] = {}
    for group in groups_of(context.team, side):
        name, places = group_name(group), [side.index(agent) for agent in members(context.team, group)]
        made |= {f"slope/{name}": slopes[places], **(judged.tensors(name) if judged else {})}
    return made


def joint_figures(loss: TdLoss, joint: Array, learned: Flags) -> dict[str, float]:
    """What a side's mixing tells, all ``[T, E]``; `joint` is in units of reward."""
    return ByAgent.of((), learned).means({"td_loss": loss.rows[learned], "joint_value": joint[learned]})


def _by_agent(context: Context[UtilityConfig], side: list[int], name: str) -> Array:
    found = []
    for agent in side:
        group = context.team.groups[agent]
        found.append(context.tensors[f"{name}/{group_name(group)}"][members(context.team, group).index(agent)])
    return np.stack(found)
