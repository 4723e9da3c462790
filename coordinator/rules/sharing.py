"""Which agents share networks at round 0; each group is named after its first member.

Agents that have learned nothing act alike, so dynamic sharing begins with one network for each class, and agents get
networks of their own once training together declines. The MARLess paper (SoCC 2025) begins apart.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

Rule = Literal["none", "all", "dynamic"]
Start = Literal["together", "apart"]
Base = Literal["distil", "return", "convexity"]


class SharingRule(Protocol):
    """`classes[i]` is the class of agent i; only agents of one class can share. Returns the group of every agent.

    Where some compete, a class for every side: `coordinator.core.sides.classes_by_side`. What helps one side harms
    another, so a network of both would be pulled both ways.
    """

    def __call__(self, classes: Sequence[int]) -> tuple[int, ...]: ...


def none(classes: Sequence[int]) -> tuple[int, ...]:
    """Every agent learns alone."""
    return tuple(range(len(classes)))


def all_(classes: Sequence[int]) -> tuple[int, ...]:
    """All agents of a class share."""
    return tuple(list(classes).index(kind) for kind in classes)


_RULES: dict[Rule | Start, SharingRule] = {"none": none, "all": all_, "apart": none, "together": all_}


def initial(rule: Rule, start: Start, classes: Sequence[int]) -> tuple[int, ...]:
    """The groups of round 0; `start` is how dynamic sharing begins, `classes` as for a `SharingRule`."""
    return _RULES[start if rule == "dynamic" else rule](classes)
