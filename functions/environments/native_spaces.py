"""The environment's own observations and actions of a class of agents. They follow its spaces, or the numbers of its
description if observations are network inputs."""

import math

from marless.functions.environments.base import AgentClass, EnvSpec
from marless.functions.environments.spaces import space_types
from marless.functions.environments.spaces.actions import ActionCodec
from marless.functions.environments.spaces.agent import AgentCodec
from marless.functions.environments.spec_check import fault_of

# Of an agent's action that is one choice, or the number of several.
_MOST_COMPONENTS = 1024


def spaces_of(kind: AgentClass, last_action: bool, masked: bool) -> space_types.AgentSpaces:
    """The spaces of a class. `last_action` is whether the class's observations end with the last action, which the
    environment's do not. `masked` is whether the env task masks actions."""
    if kind.spaces is not None:
        return kind.spaces
    size = kind.observation_size - last_action * kind.actions
    whole = len(kind.observation_shape) > 1 and math.prod(kind.observation_shape) == size
    observation = space_types.VectorSpace(kind.observation_shape if whole else (size,))
    return space_types.AgentSpaces(observation, _action_space(kind), masked=masked and not kind.continuous)


def codec_of(kind: AgentClass, name: str, last_action: bool, masked: bool) -> AgentCodec:
    """The codec of agent `name` of a class."""
    return AgentCodec(name, spaces_of(kind, last_action, masked).plain())


def require_fitting(spec: EnvSpec, last_action: bool) -> None:
    """Raises `ValueError` for a description with parts that contradict each other."""
    if fault := fault_of(spec):
        raise ValueError(fault)
    if spec.keys and tuple(map(str, spec.keys)) != spec.agents:
        raise ValueError("the keys of agents are not their names")
    for kind in spec.classes:
        if kind.spaces is not None:
            _require_fitting(kind, kind.spaces, last_action)


def _require_fitting(kind: AgentClass, spaces: space_types.AgentSpaces, last_action: bool) -> None:
    space_types.require_sound(spaces)
    # Before arrays of the file's sizes are made.
    most = max(len(kind.branches), len(kind.low), _MOST_COMPONENTS)
    right = (
        isinstance(spaces.action, space_types.DiscreteSpace) or math.prod(getattr(spaces.action, "shape", ())) <= most
    )
    right = (
        right and space_types.observed_size(spaces.observation) + last_action * kind.actions == kind.observation_size
    )
    if right:
        action = ActionCodec(spaces.plain()["action"], spaces.joint)
        shape_of_kind = (kind.actions, kind.branches, kind.low, kind.high)
        right = shape_of_kind == (action.actions, action.branches, action.low, action.high)
    if not right:
        raise ValueError(f"the spaces of class '{kind.name}' are not those of its networks")


def _action_space(kind: AgentClass) -> space_types.Space:
    if kind.continuous:
        return space_types.BoxSpace((kind.actions,), "float32", kind.low, kind.high)
    if kind.branches:
        return space_types.MultiDiscreteSpace((len(kind.branches),), "int64", kind.branches, (kind.first_action,))
    return space_types.DiscreteSpace(kind.actions, kind.first_action)
