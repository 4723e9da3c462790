"""Which shares of a round's learning may run side by side, in each way of spreading it over functions.

Pure, and told by the specification alone: what the coordinator asks for, and what `conformance` tries out, are the same
shares. A share of later updates, or of stages that need others, is in a later wave than these.
"""

from collections.abc import Callable, Mapping, Sequence

from functions.algorithms.base import StageSpec
from functions.learner.stages import Share

Schedule = list[list[Share]]
Stretch = tuple[StageSpec, ...]


def split(stages: Sequence[StageSpec], groups: Sequence[int], updates: int = 1) -> Schedule:
    """A share for every stage and group, one for a team stage. A stage that is alone goes through all updates."""
    return _in_turn([(stage,) for stage in stages], groups, updates)


def fused(stages: Sequence[StageSpec], groups: Sequence[int], updates: int = 1) -> Schedule:
    """A share for every group, with all stages; where stages couple the groups, one for each stretch between."""
    stretches: list[Stretch] = []
    for stage in stages:
        if not stretches or stage.couples or (stretches[-1][-1].couples and stretches[-1][-1].scope == "team"):
            stretches.append((stage,))
        else:
            stretches[-1] = (*stretches[-1], stage)
    if len(stretches) > 1:
        return _in_turn(stretches, groups, updates)
    return [[Share(_names(stages), (group,), range(updates)) for group in groups]]


def packed(stages: Sequence[StageSpec], groups: Sequence[int], updates: int = 1) -> Schedule:
    """One share."""
    return [[Share(_names(stages), tuple(groups), range(updates))]]


SCHEDULES: Mapping[str, Callable[[Sequence[StageSpec], Sequence[int], int], Schedule]] = {
    "packed": packed,
    "fused": fused,
    "split": split,
}


def _in_turn(stretches: Sequence[Stretch], groups: Sequence[int], updates: int) -> Schedule:
    """Stretches of the graph wait for each other in every update; one alone waits for nobody."""
    if len(stretches) == 1:
        return _waves(stretches, groups, range(updates))
    return [wave for update in range(updates) for wave in _waves(stretches, groups, range(update, update + 1))]


def _waves(stretches: Sequence[Stretch], groups: Sequence[int], updates: range) -> Schedule:
    """The shares of some updates, those that need nothing of each other side by side."""
    depth: dict[str, int] = {}
    waves: Schedule = []
    for stretch in stretches:
        names = _names(stretch)
        needed = {before for stage in stretch for before in stage.after} - {*names}
        level = max((depth[before] + 1 for before in needed), default=0)
        depth |= dict.fromkeys(names, level)
        if level == len(waves):
            waves.append([])
        shares = [tuple(groups)] if stretch[0].scope == "team" else [(group,) for group in groups]
        waves[level] += [Share(names, share, updates) for share in shares]
    return waves


def _names(stages: Sequence[StageSpec]) -> tuple[str, ...]:
    return tuple(stage.name for stage in stages)
