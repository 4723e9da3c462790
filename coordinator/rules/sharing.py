"""Which agents share networks: modes of sharing, and the networks that a new group starts from.

Untrained agents act the same way, so dynamic sharing begins with one network for each class, and agents get separate
networks when shared training declines. The MARLess paper (SoCC 2025) begins with separate networks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from coordinator.registry import Family, Rule
from functions.contract import SummaryName

Start = Literal["together", "apart"]


class InitialGroups(Protocol):
    """The groups of round 0; each is named after its first member.

    `classes[i]` is the class of agent i; only agents of one class can share. Competing sides have different classes
    (`coordinator.core.sides.classes_by_side`): their returns oppose each other, and so would their gradients in a
    network of both. `start` is how a mode that switches begins.
    """

    def __call__(self, classes: Sequence[int], start: Start) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class SharingMode:
    """Which agents share networks in round 0, and whether that changes later."""

    initial: InitialGroups
    switches: bool = False
    """Whether the reward trend switches sharing on and off."""
    identity: bool = True
    """Whether networks take the agent's one-hot, so that merging and splitting never change a shape."""


Scores = Mapping[int, float]


@dataclass(frozen=True)
class BaseRule:
    """Which member's networks a new group starts from: the one with the highest score."""

    score: Callable[[Scores, Scores], Scores]
    """From mean returns and convexity ratios by agent (empty unless `needs` has 'curvature') to scores by agent."""
    needs: tuple[SummaryName, ...] = ()
    distils: bool = False
    """Whether the group's policy is then distilled from the policies of all members."""


def none(classes: Sequence[int], start: Start = "apart") -> tuple[int, ...]:
    """Every agent has separate networks."""
    return tuple(range(len(classes)))


def all_(classes: Sequence[int], start: Start = "together") -> tuple[int, ...]:
    """All agents of a class share."""
    return tuple(list(classes).index(kind) for kind in classes)


def dynamic(classes: Sequence[int], start: Start) -> tuple[int, ...]:
    """All agents of a class share, or none, by `start`."""
    return all_(classes) if start == "together" else none(classes)


SHARING_MODES: Family[SharingMode] = Family(
    "sharing",
    {
        "none": Rule("separate networks, the default", SharingMode(none, identity=False)),
        "all": Rule("one network per class of equal spaces, the default with a replay buffer", SharingMode(all_)),
        "dynamic": Rule("switched on and off by the trend", SharingMode(dynamic, switches=True)),
    },
    SharingMode,
)

BASES: Family[BaseRule] = Family(
    "base",
    {
        "distil": Rule("one policy distilled from all members", BaseRule(lambda returns, _: returns, distils=True)),
        "return": Rule("the member with the best return", BaseRule(lambda returns, _: returns)),
        "convexity": Rule(
            "the member with the most convex loss", BaseRule(lambda _, convexity: convexity, ("curvature",))
        ),
    },
    BaseRule,
)
