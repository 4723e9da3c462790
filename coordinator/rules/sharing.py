"""Which agents share networks: modes of sharing, and the networks that a new group starts from.

Untrained agents act the same way, so dynamic sharing begins with one network for each class, and agents get separate
networks when shared training declines. The MARLess paper (SoCC 2025) begins with separate networks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from marless.coordinator.rule_families import Family, Rule
from marless.functions.messages.learner import SummaryName

Start = Literal["together", "apart"]


class InitialGroups(Protocol):
    """The groups of round 0; each is named after its first member.

    `classes[i]` is the class of agent i; only agents of one class can share. Competing sides have different classes
    (`marless.coordinator.core.sides.classes_by_side`): their returns oppose each other, and so would their gradients in
    a network of both. `start` is how a mode that switches begins.
    """

    def __call__(self, classes: Sequence[int], start: Start) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class SharingMode:
    """Which agents share networks in round 0, and whether that changes later."""

    initial: InitialGroups
    switches: bool = False
    """Whether the reward trend switches sharing on and off."""
    never_switches_off: bool = False
    """Whether sharing that was switched on is never switched off by the trend."""
    roles: bool = False
    """Whether members of a group part when their rewards show different roles (`marless.coordinator.rules.roles`)."""
    random_groups: bool = False
    """Whether members are assigned to the groups of a split at random: a control."""
    identity: bool = True
    """Whether networks take the agent's one-hot, so that merging and splitting never change a shape."""
    groups_from_config: bool = False
    """Whether the groups are those of `sharing.groups`; `initial` is then what holds for agents that it omits."""


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


def by_name(agents: Sequence[str], named_groups: Sequence[Sequence[str]]) -> tuple[int, ...]:
    """The groups of the `named_groups` agents, all of which are among `agents`; every other agent is on its own."""
    groups = list(range(len(agents)))
    for names in named_groups:
        members = [agents.index(name) for name in names]
        for member in members:
            groups[member] = min(members)
    return tuple(groups)


def invalid_groups(agents: Sequence[str], classes: Sequence[int], groups: Sequence[Sequence[str]]) -> str:
    """Why agents cannot share as `groups`, `classes` as in `InitialGroups`; '' when they can."""
    for names in groups:
        for name in names:
            if name not in agents:
                return f"there is no agent {name}; there are {', '.join(agents)}"
            if classes[agents.index(name)] != classes[agents.index(names[0])]:
                return (
                    f"{names[0]} and {name} cannot share a network: they are on different sides, or what they see or do"
                    " has other sizes; put them into different groups"
                )
    return ""


SHARING_MODES: Family[SharingMode] = Family(
    "sharing",
    {
        "none": Rule("separate networks, the default", SharingMode(none, identity=False)),
        "all": Rule("one network per class of equal spaces, the default with a replay buffer", SharingMode(all_)),
        "groups": Rule("the groups of sharing.groups, fixed", SharingMode(none, groups_from_config=True)),
        "dynamic": Rule("switched on and off by the trend", SharingMode(dynamic, switches=True)),
        "lasting": Rule(
            "switched on by the trend, and never off", SharingMode(dynamic, switches=True, never_switches_off=True)
        ),
        "roles": Rule(
            "switched on by the trend, and members separate when their rewards show different roles",
            SharingMode(dynamic, switches=True, never_switches_off=True, roles=True),
        ),
        "shuffled:roles": Rule(
            "the control of roles: at the same time, but with members drawn by lot",
            SharingMode(dynamic, switches=True, never_switches_off=True, roles=True, random_groups=True),
        ),
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
