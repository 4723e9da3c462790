"""How work is spread over invocations. Placement changes what a round costs and how long it takes, never its bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from functions.algorithms.base import StageSpec
from functions.keys import group_name

Rule = Literal["split", "fused", "packed", "whole"]
Choice = Literal["split", "fused", "packed", "whole", "auto"]


@dataclass(frozen=True)
class Work:
    """The share of one learner invocation: some stages for some groups. `publish`: later works need its tensors."""

    name: str
    stages: tuple[str, ...]
    groups: tuple[int, ...]
    publish: bool = False


class LearnerPlacement(Protocol):
    """Waves of works: every work of a wave may run at once, after the wave before."""

    def __call__(self, stages: Sequence[StageSpec], groups: Sequence[int]) -> list[list[Work]]: ...


def split(stages: Sequence[StageSpec], groups: Sequence[int]) -> list[list[Work]]:
    """One invocation per stage and group, the decomposition of the MARLess paper (Fig. 5); one for a team stage."""
    depth: dict[str, int] = {}
    waves: list[list[Work]] = []
    for stage in stages:
        depth[stage.name] = max((depth[before] + 1 for before in stage.after), default=0)
        if depth[stage.name] == len(waves):
            waves.append([])
        publish = any(stage.name in later.after for later in stages)
        shares = [tuple(groups)] if stage.scope == "team" else [(group,) for group in groups]
        for share in shares:
            name = f"learn/{stage.name}" + ("" if stage.scope == "team" else f"/{group_name(share[0])}")
            waves[depth[stage.name]].append(Work(name, (stage.name,), share, publish))
    return waves


def fused(stages: Sequence[StageSpec], groups: Sequence[int]) -> list[list[Work]]:
    """One invocation per group, all its stages inside."""
    names = tuple(stage.name for stage in stages)
    return [[Work(f"learn/{group_name(group)}", names, (group,)) for group in groups]]


def packed(stages: Sequence[StageSpec], groups: Sequence[int]) -> list[list[Work]]:
    """One invocation for everything."""
    return [[Work("learn/all", tuple(stage.name for stage in stages), tuple(groups))]]


def whole(stages: Sequence[StageSpec], groups: Sequence[int]) -> list[list[Work]]:
    """No learner invocations: what samples learns."""
    return []


LEARNER_PLACEMENTS: dict[Rule, LearnerPlacement] = {"split": split, "fused": fused, "packed": packed, "whole": whole}


def packs(units: int, per_invocation: int) -> list[tuple[int, ...]]:
    """Units 0..units-1 in order, in packs of at most `per_invocation`."""
    return [tuple(range(start, min(start + per_invocation, units))) for start in range(0, units, per_invocation)]
