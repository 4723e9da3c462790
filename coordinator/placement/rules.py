"""How work is spread over invocations. Placement changes what a round costs and how long it takes, never its bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from coordinator.pricing.prices import Prices, StorageClass
from coordinator.registry import Family, Rule
from functions.algorithms import schedule
from functions.algorithms.base import Share, StageSpec
from functions.keys import group_name


@dataclass(frozen=True)
class Work:
    """The share of one learner invocation: some stages for some groups, in `updates` updates from `first` on.

    `publish`: later works of the same update need its tensors.
    """

    name: str
    stages: tuple[str, ...]
    groups: tuple[int, ...]
    publish: bool = False
    first: int = 0
    updates: int = 1


class LearnerPlacement(Protocol):
    """Waves of works: every work of a wave may run at once, after the wave before.

    `updates` is how often the stages run in the round, one time after the other.
    """

    def __call__(self, stages: Sequence[StageSpec], groups: Sequence[int], updates: int = 1) -> list[list[Work]]: ...


def split(stages: Sequence[StageSpec], groups: Sequence[int], updates: int = 1) -> list[list[Work]]:
    """One invocation per stage and group, the decomposition of the MARLess paper (Fig. 5); one for a team stage.

    A stage that is alone goes through all updates at once; several wait for each other in every one.
    """
    return _works(schedule.split(stages, groups, updates), stages, updates)


def fused(stages: Sequence[StageSpec], groups: Sequence[int], updates: int = 1) -> list[list[Work]]:
    """One invocation per group, all its stages inside; where stages couple the groups, one for each stretch between."""
    return _works(schedule.fused(stages, groups, updates), stages, updates)


def packed(stages: Sequence[StageSpec], groups: Sequence[int], updates: int = 1) -> list[list[Work]]:
    """One invocation for everything."""
    return [[Work("learn/all", tuple(stage.name for stage in stages), tuple(groups), updates=updates)]]


def whole(stages: Sequence[StageSpec], groups: Sequence[int], updates: int = 1) -> list[list[Work]]:
    """No learner invocations: what samples learns."""
    return []


def _works(shares: schedule.Schedule, stages: Sequence[StageSpec], updates: int) -> list[list[Work]]:
    """The shares as works."""
    return [[_work(share, stages, updates) for share in wave] for wave in shares]


def _work(share: Share, stages: Sequence[StageSpec], updates: int) -> Work:
    """Named by what it does not do all of: updates, stages, groups."""
    own = [stage for stage in stages if stage.name in share.stages]
    later = {before for stage in stages if stage not in own for before in stage.after}
    parts = ["learn"]
    if len(share.updates) < updates:
        parts.append(f"{share.updates.start:05d}")
    everything = len(own) == len(stages)
    if not everything:
        parts.append("+".join(share.stages))
    if everything or own[0].scope == "group":
        parts.append(group_name(share.groups[0]))
    return Work(
        "/".join(parts),
        tuple(share.stages),
        tuple(share.groups),
        not later.isdisjoint(share.stages),
        share.updates.start,
        len(share.updates),
    )


@dataclass(frozen=True)
class PlacementRule:
    """How a round's learning is spread over invocations; calling it gives the learners' schedule."""

    schedule: LearnerPlacement
    one_function: bool = False
    """Rounds are sampled and learned in one function; there are no learner invocations."""
    planned: bool = False
    """The planner picks one of `LEARNER_PLACEMENTS` before every round."""

    def __call__(self, stages: Sequence[StageSpec], groups: Sequence[int], updates: int = 1) -> list[list[Work]]:
        return self.schedule(stages, groups, updates)


PLACEMENTS: Family[PlacementRule] = Family(
    "placement",
    {
        "split": Rule("a learner per stage and group", PlacementRule(split)),
        "fused": Rule("a learner per group", PlacementRule(fused)),
        "packed": Rule("one learner for all, the default where learners meet in every update", PlacementRule(packed)),
        "whole": Rule("rounds in one function", PlacementRule(whole, one_function=True)),
        "auto": Rule("the cheapest, worked out before every round", PlacementRule(packed, planned=True)),
    },
    PlacementRule,
)
# What the planner chooses from.
LEARNER_PLACEMENTS: dict[str, PlacementRule] = {
    name: PLACEMENTS[name] for name in PLACEMENTS.built_in if not PLACEMENTS[name].planned
}
# The rules that others are compared with or fall back on.
WHOLE, PACKED = "whole", "packed"


def list_overhead(prices: Prices, agents: int, stages: Sequence[StageSpec], storage: StorageClass) -> float:
    """What a round costs beside its units, in the price of one unit.

    Counted are requests at list prices in the paper's decomposition (`placement.split`, every agent a group of its
    own), wherever the round really runs and however long it takes: a weight must not depend on placement or on a clock.
    A unit is an invocation, a PUT of its trajectory and a GET of it by every learner function. A round is, beside that,
    an invocation of every learner function and a PUT of every object these store: the learner's state, policies where
    the stage trains them, tensors where a later stage reads them.
    """
    s3 = {"standard": prices.s3.standard, "express": prices.s3.express}[storage]
    put, get = Fraction(s3.put_per_thousand) / 1000, Fraction(s3.get_per_thousand) / 1000
    request = Fraction(prices.lambda_.requests_per_million) / 1_000_000
    works = [work for wave in split(stages, range(agents)) for work in wave]
    trains = {stage.name for stage in stages if "policy" in stage.writes}
    stored = sum(1 + work.publish + (not trains.isdisjoint(work.stages)) for work in works)
    return float((len(works) * request + stored * put) / (request + put + len(works) * get))


def packs(rollouts: int, per_invocation: int) -> list[tuple[int, ...]]:
    """Units 0..units-1 in order, in packs of at most `per_invocation`."""
    return [tuple(range(start, min(start + per_invocation, rollouts))) for start in range(0, rollouts, per_invocation)]
