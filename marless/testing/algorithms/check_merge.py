"""Checks that a merge of two agents' networks gives a valid state."""

from marless.functions.algorithms.specification import AlgorithmConfig
from marless.functions.algorithms.stage import Context, Implementation
from marless.functions.keys import group_name
from marless.functions.messages.team import Team
from marless.testing.algorithms.tools import digest, hint, require, stage_inputs

_DISTIL_STEPS = 2


def check_merge(code: Implementation, context: Context[AlgorithmConfig]) -> None:
    """Merge the first two agents of a class, which learned separately with identities. Raises `AssertionError`.

    It is skipped unless some class has two agents.
    """
    kind = next((kind for kind in context.spec.classes if len(kind.agents) > 1), None)
    if kind is None:
        return
    group, other = kind.agents[:2]
    target = Team(groups=tuple(group if agent == other else agent for agent in context.team.groups), identity=True)
    for base in (group, other):
        for steps in (0, _DISTIL_STEPS):
            with hint(f"merge of agents {group} and {other}, base {base}, distil_steps {steps}"):
                _check(code, context, target, group, base, steps)


def _check(
    code: Implementation, context: Context[AlgorithmConfig], target: Team, group: int, base: int, steps: int
) -> None:
    before = digest(stage_inputs(context))
    result, again = (code.merge(context, target, group, base, steps) for _ in range(2))
    require(digest(stage_inputs(context)) == before, "it changes what it was given")
    require(digest(result.tensors) == digest(again.tensors), "another call gives other bytes")
    for name, array in result.tensors.items():
        old = context.tensors.get(_name_in_base(name, group, base))
        require(old is not None, f"it gives {name}, which is no tensor of {group_name(group)}")
        assert old is not None
        same = (array.dtype, array.shape) == (old.dtype, old.shape)
        require(same, f"{name} was {old.dtype} {old.shape} and is {array.dtype} {array.shape}")


def _name_in_base(name: str, group: int, base: int) -> str:
    part, _, rest = name.partition(f"/{group_name(group)}")
    return f"{part}/{group_name(base)}{rest}" if name != part else ""
