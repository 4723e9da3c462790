"""Which agents share networks: rules from the task's agents to groups, each group named after its first member."""

from collections.abc import Sequence
from typing import Literal, Protocol

Rule = Literal["none", "all"]


class SharingRule(Protocol):
    """`classes[i]` is the class of agent i; only agents of one class can share. Returns the group of every agent."""

    def __call__(self, classes: Sequence[int]) -> tuple[int, ...]: ...


def none(classes: Sequence[int]) -> tuple[int, ...]:
    """Every agent learns alone."""
    return tuple(range(len(classes)))


def all_(classes: Sequence[int]) -> tuple[int, ...]:
    """All agents of a class share."""
    return tuple(list(classes).index(kind) for kind in classes)


SHARING_RULES: dict[Rule, SharingRule] = {"none": none, "all": all_}
