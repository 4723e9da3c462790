"""Check that an env task's description is consistent, and fits the evaluations' env task and the same policies."""

from collections.abc import Callable

import msgspec

from marless.functions.environments.base import AgentClass, EnvironmentFault, EnvSpec, EnvTask, Unsupported
from marless.functions.errors import BadRequest
from marless.functions.setting_limits import LARGEST_FLOAT32

# The setting that changes the env task of evaluations.
_OPTIONS = "evaluation.options"
_WRONG_AGENTS = "agents are not one or more different names"
_WRONG_CLASSES = "classes do not hold every agent once, in ascending order, under different names"
_WRONG_SIZES = "observation sizes, action counts and the horizon are not positive, or the state size is negative"
_WRONG_KIND = "class '{name}' is not of one kind: one choice, several choices, or numbers"
_WRONG_NAMES = "the entities of class '{name}': first_action and the entities behind it must end at the {count} actions"
_WRONG_BRANCHES = "the choices of class '{name}' are not positive, or actions is not their sum"
_WRONG_BOUNDS = "the bounds of class '{name}' are not finite in float32, not in order, or not one pair per action"
_WRONG_SIDES = "sides is neither empty nor one of the numbers 0, 1, ... per agent, every one of them used"
_TURNS = "agents take turns, but masks do not say whose turn it is"
_ONE_SIDE = "all agents are on one side, which an empty sides says"


def fault_of(spec: EnvSpec) -> str:
    """Return the fault of the description, or '' without one."""
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
    return next(filter(None, (*map(_fault_of_class, spec.classes), _fault_of_sides(spec))), "")


def _fault_of_class(kind: AgentClass) -> str:
    """A class has one choice, several, or continuous actions between finite bounds, and sound entities."""
    if kind.entities is not None and (fault := kind.entities.fault(kind.observation_size)):
        return f"the entities of class '{kind.name}': {fault}"
    block, is_choice = kind.entities and kind.entities.named_block, not (kind.branches or kind.low)
    if block and not (is_choice and kind.actions - len(block.columns) == max(block.first_action or 0, 0)):
        return _WRONG_NAMES.format(name=kind.name, count=kind.actions)
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


def require_playable(evaluated: EnvTask | None, spec: EnvSpec, describe: Callable[[EnvTask], EnvSpec]) -> None:
    """Describes the env task of evaluations, if it is another. Raises `BadRequest` if policies for `spec` cannot play
    it, and errors of `describe`. Messages name ``evaluation.options``."""
    if evaluated is None:
        return
    try:
        problem = _difference(spec, describe(evaluated))
    except (BadRequest, EnvironmentFault, Unsupported) as error:
        text = str(error).replace("task.options", _OPTIONS)
        raise type(error)(text if _OPTIONS in text else f"{_OPTIONS}: {text}") from error
    if problem:
        raise BadRequest(f"{_OPTIONS}: {problem}; policies could not play both, so set it in task.options")


def _difference(spec: EnvSpec, evaluated: EnvSpec) -> str:
    """Return the difference of evaluations in agents and spaces, or ''. Horizons may differ, and so may global states,
    which only critics see."""
    if evaluated.agents != spec.agents:
        return f"agents are {', '.join(evaluated.agents)}, and in training {', '.join(spec.agents)}"
    for agent, name in enumerate(spec.agents):
        kind, trained = (spec_of_both.classes[spec_of_both.class_of[agent]] for spec_of_both in (evaluated, spec))
        if (sizes := _sizes(kind)) != _sizes(trained):
            return f"{name} has {sizes}, and in training {_sizes(trained)}"
    same = {"horizon": spec.horizon, "state_size": spec.state_size}
    is_same = msgspec.structs.replace(evaluated, **same) == spec
    return "" if is_same else "sides, turns or the form of observations and actions are others than in training"


def _sizes(kind: AgentClass) -> str:
    return f"observations of {kind.observation_size} numbers and {kind.actions} actions"
