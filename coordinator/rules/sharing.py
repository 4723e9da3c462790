"""The groups of agents that share networks: modes of sharing, and the networks that a new group starts from.

Untrained agents act the same way, so dynamic sharing begins with one network for each class, and agents get separate
networks when shared training declines. The MARLess paper (SoCC 2025) begins with separate networks.

A sequential test decides whether to keep a shared team: it must return no less than the unshared one, up to a margin.
The MARLess paper shares as soon as the trend declines and sees the effect on the returns afterwards. Here both teams
first play the same start states, in batches that end as soon as the test decides.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from marless.coordinator.rules.student_t import t_quantile
from marless.functions.messages.learner import SummaryName
from marless.functions.plug_in_registry import Family, Rule

Start = Literal["together", "apart"]


InitialGroups = Callable[[Sequence[int], Start], tuple[int, ...]]
"""The groups of round 0, by ``initial(classes, start)``. The first member gives a group its name.

`classes[i]` is the class of agent i; only agents of one class can share. Competing sides have different classes
(`marless.coordinator.core.sides.classes_by_side`): their returns oppose each other, and so would their gradients in a
network of both. `start` is how a mode that switches begins.
"""


@dataclass(frozen=True)
class SharingMode:
    """The groups of agents that share networks in round 0, and their later changes."""

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
    """A rule for the networks that a new group starts from: it takes the member with the highest score."""

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
    """Return the groups of the `named_groups` agents, all of them among `agents`. Every other agent is alone."""
    groups = list(range(len(agents)))
    for names in named_groups:
        members = [agents.index(name) for name in names]
        for member in members:
            groups[member] = min(members)
    return tuple(groups)


def invalid_groups(agents: Sequence[str], classes: Sequence[int], groups: Sequence[Sequence[str]]) -> str:
    """Return the reason why agents cannot share as `groups`, or ''. `InitialGroups` explains `classes`."""
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


Verdict = Literal["commit", "roll back", "more"]


def schedule(most: int, looks: int) -> tuple[int, ...]:
    """The total number of episodes at each look: doubling, `most` at the last.

    Shorter than `looks` when `most` is too small for growing totals of at least two: pass its length to `judge`.
    ValueError when `most` is below 2 or `looks` below 1.
    """
    if most < 2 or looks < 1:
        raise ValueError(f"a trial needs at least 2 episodes and 1 look, not {most} and {looks}")
    totals = (math.ceil(most / 2**halvings) for halvings in range(looks))
    return tuple(sorted({total for total in totals if total >= 2}))


def judge(differences: NDArray[np.float64], margin: float, error: float, look: int, looks: int) -> Verdict:
    """The verdict on paired episodes ``[n]``, shared minus unshared return, at `look` (from 1) of `looks`.

    `commit` if the lower confidence bound of the mean difference is above -margin. `roll back` if the upper bound is
    below it. Otherwise `more`, and `roll back` at the last look: not proven. Bounds are Student's.

    If the true mean is -margin or worse, the probability to commit at any look is at most `error`. If it is better, the
    same holds for a roll back before the last look. Each look spends a share of `error`: the share of its new episodes
    in a doubling schedule (1/8, 1/8, 1/4, 1/2 for four looks). This is the alpha-spending function alpha * t of Lan &
    DeMets ("Discrete sequential boundaries for clinical trials", 1983). Bonferroni's inequality adds up the shares. It
    needs no joint distribution of the looks and costs some power. Like in any t test the mean must be near normal. With
    exponential differences and a long tail downwards, an error of 0.05 became 0.06 for 200 to 1600 episodes and 0.09
    for 25 to 200.

    Fewer than two episodes decide nothing. Equal differences have no deviation. ValueError for a look outside of 1 to
    `looks` and an error outside of (0, 0.5).
    """
    if not (1 <= look <= looks and 0 < error < 0.5):
        raise ValueError(f"no look {look} of {looks} with error {error}")
    without_bound: Verdict = "more" if look < looks else "roll back"
    if len(differences) < 2:
        return without_bound
    mean, deviation = _moments(differences)
    probability = 1 - error * _error_share(look, looks)
    half = t_quantile(probability, len(differences) - 1) * deviation / math.sqrt(len(differences))
    if mean - half > -margin:
        return "commit"
    return "roll back" if mean + half < -margin else without_bound


def _error_share(look: int, looks: int) -> float:
    """Return the share of the error that a look spends. The shares of all looks add up to one."""
    return 2.0 ** (max(look, 2) - 1 - looks) if looks > 1 else 1.0


def _moments(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return mean and sample standard deviation, the same bits in any order, and exact for equal values."""
    # Exact sums do not depend on the order, and differences from the minimum are zero for equal values.
    numbers = [float(value) for value in values]
    least = min(numbers)
    mean = least + math.fsum(number - least for number in numbers) / len(numbers)
    squares = math.fsum((number - mean) ** 2 for number in numbers)
    return mean, math.sqrt(squares / (len(numbers) - 1))
