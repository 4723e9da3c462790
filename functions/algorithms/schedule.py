"""Schedules of a round's learning for each placement rule. The shares of a phase may run in parallel.

They are pure functions of the specification, so the coordinator requests the same shares that `marless.testing` tests.
A share runs in a later phase than the updates and the stages that it depends on.
"""

from collections.abc import Callable, Mapping, Sequence

from marless.functions.algorithms.specification import Share, StageSpec

Schedule = list[list[Share]]
Segment = tuple[StageSpec, ...]


def split(stages: Sequence[StageSpec], groups: Sequence[int], updates: int = 1) -> Schedule:
    """A share for every stage and group, or one for a team stage. A single stage runs all updates in one share."""
    return _in_turn([(stage,) for stage in stages], groups, updates)


def fused_schedule(stages: Sequence[StageSpec], groups: Sequence[int], updates: int = 1) -> Schedule:
    """A share of all stages for every group. Stages that couple groups split it into segments."""
    segments: list[Segment] = []
    for stage in stages:
        if not segments or stage.couples or (segments[-1][-1].couples and segments[-1][-1].scope == "team"):
            segments.append((stage,))
        else:
            segments[-1] = (*segments[-1], stage)
    if len(segments) > 1:
        return _in_turn(segments, groups, updates)
    return [[Share(_names(stages), (group,), range(updates)) for group in groups]]


def packed_schedule(stages: Sequence[StageSpec], groups: Sequence[int], updates: int = 1) -> Schedule:
    """One share."""
    return [[Share(_names(stages), tuple(groups), range(updates))]]


SCHEDULES: Mapping[str, Callable[[Sequence[StageSpec], Sequence[int], int], Schedule]] = {
    "packed": packed_schedule,
    "fused": fused_schedule,
    "split": split,
}


def _in_turn(segments: Sequence[Segment], groups: Sequence[int], updates: int) -> Schedule:
    """Segments of the graph wait for each other in every update. A single segment does not wait."""
    if len(segments) == 1:
        return _phases(segments, groups, range(updates))
    return [phase for update in range(updates) for phase in _phases(segments, groups, range(update, update + 1))]


def _phases(segments: Sequence[Segment], groups: Sequence[int], updates: range) -> Schedule:
    depth: dict[str, int] = {}
    schedule: Schedule = []
    for segment in segments:
        names = _names(segment)
        dependencies = {before for stage in segment for before in stage.after} - {*names}
        level = max((depth[before] + 1 for before in dependencies), default=0)
        depth |= dict.fromkeys(names, level)
        if level == len(schedule):
            schedule.append([])
        shares = [tuple(groups)] if segment[0].scope == "team" else [(group,) for group in groups]
        schedule[level] += [Share(names, share, updates) for share in shares]
    return schedule


def _names(stages: Sequence[StageSpec]) -> tuple[str, ...]:
    return tuple(stage.name for stage in stages)
