"""Whether the description of an env task contradicts itself."""

from functions.environments.base import AgentClass, EnvSpec
from functions.setting_limits import LARGEST_FLOAT32

_WRONG_AGENTS = "agents are not one or more different names"
_WRONG_CLASSES = "classes do not hold every agent once, in ascending order, under different names"
_WRONG_SIZES = "observation sizes, action counts and the horizon are not positive, or the state size is negative"
_WRONG_KIND = "class '{name}' is not of one kind: one choice, several choices, or numbers"
_WRONG_BRANCHES = "the choices of class '{name}' are not positive, or actions is not their sum"
_WRONG_BOUNDS = "the bounds of class '{name}' are not finite in float32, not in order, or not one pair per action"
_WRONG_SIDES = "sides is neither empty nor one of the numbers 0, 1, ... per agent, every one of them used"
_TURNS = "agents take turns, but masks do not say whose turn it is"
_ONE_SIDE = "all agents are on one side, which an empty sides says"


def fault_of(spec: EnvSpec) -> str:
    """What is wrong with the description; '' when nothing is."""
    if not spec.agents or len({*spec.agents}) < len(spec.agents):
        return _WRONG_AGENTS
    members = sorted(i for kind in spec.classes for i in kind.agents)
    ascending = all(kind.agents and list(kind.agents) == sorted(kind.agents) for kind in spec.classes)
    unique = len({kind.name for kind in spec.classes}) == len(spec.classes)
    if not (members == list(range(len(spec.agents))) and ascending and unique):
        return _WRONG_CLASSES
    sizes = [size for kind in spec.classes for size in (kind.observation_size, kind.actions)]
    if min(*sizes, spec.horizon) < 1 or spec.state_size < 0:
        return _WRONG_SIZES
    if spec.turns and not spec.masked:
        return _TURNS
    faults = (*map(_fault_of_class, spec.classes), _fault_of_sides(spec))
    return next(filter(None, faults), "")


def _fault_of_class(kind: AgentClass) -> str:
    """A class has one choice, several, or continuous actions between finite bounds."""
    if kind.branches and (kind.low or kind.high):
        return _WRONG_KIND.format(name=kind.name)
    if kind.branches and (min(kind.branches) < 1 or sum(kind.branches) != kind.actions):
        return _WRONG_BRANCHES.format(name=kind.name)
    if not (kind.low or kind.high):
        return ""
    finite = all(abs(bound) <= LARGEST_FLOAT32 for bound in (*kind.low, *kind.high))
    low_below_high = all(low <= high for low, high in zip(kind.low, kind.high, strict=False))
    right = finite and low_below_high and len(kind.low) == len(kind.high) == kind.actions
    return "" if right else _WRONG_BOUNDS.format(name=kind.name)


def _fault_of_sides(spec: EnvSpec) -> str:
    if not spec.sides:
        return ""
    if len(spec.sides) != len(spec.agents) or {*spec.sides} != {*range(max(spec.sides) + 1)}:
        return _WRONG_SIDES
    return "" if max(spec.sides) > 0 else _ONE_SIDE
