"""How work is spread over invocations. Placement changes what a round costs and how long it takes, never its bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from functions.algorithms import schedule
from functions.algorithms.base import Share, StageSpec
from functions.keys import group_name

Rule = Literal["split", "fused", "packed", "whole"]
Choice = Literal["split", "fused", "packed", "whole", "auto"]


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


LEARNER_PLACEMENTS: dict[Rule, LearnerPlacement] = {"split": split, "fused": fused, "packed": packed, "whole": whole}


def packs(rollouts: int, per_invocation: int) -> list[tuple[int, ...]]:
    """Units 0..units-1 in order, in packs of at most `per_invocation`."""
    return [tuple(range(start, min(start + per_invocation, rollouts))) for start in range(0, rollouts, per_invocation)]
