"""The actions of attempts on lanes: one for every slot of a resource."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from marless.coordinator.drive.attempt_record import AttemptRecord


@dataclass(frozen=True)
class CallBar:
    """An action on its lane, from 0: in seconds, as its attempt's record counts them."""

    resource: str
    lane: int
    asked_at: float
    begun_at: float
    ended_at: float
    record: AttemptRecord
    """The attempt that asked."""


def call_bars(records: Iterable[AttemptRecord]) -> dict[str, list[CallBar]]:
    """Return the actions by resource, in the order of names, sorted by their starts.

    A lane is the slot that served the action. Where the platform does not tell slots apart, actions that it served side
    by side are on the first lane that is free.
    """
    bars: dict[str, list[CallBar]] = {}
    for record in records:
        since = record.ended_at - record.duration_ms / 1000
        for each in record.actions:
            asked_at, begun_at, ended_at = (since + ms / 1000 for ms in (each.asked_ms, each.begun_ms, each.ended_ms))
            bar = CallBar(each.resource, each.slot, asked_at, begun_at, ended_at, record)
            bars.setdefault(each.resource, []).append(bar)
    sorted_bars = {name: sorted(each, key=lambda bar: bar.begun_at) for name, each in sorted(bars.items())}
    return {name: _spread(each) if _overlap(each) else each for name, each in sorted_bars.items()}


def waiting_spans(record: AttemptRecord) -> list[tuple[float, float]]:
    """Return the times when the attempt waited for answers, without overlaps: concurrent calls count once."""
    since = record.ended_at - record.duration_ms / 1000
    spans: list[tuple[float, float]] = []
    for asked_ms, ended_ms in sorted((each.asked_ms, each.ended_ms) for each in record.actions):
        begin, end = since + asked_ms / 1000, since + ended_ms / 1000
        if spans and begin <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(end, spans[-1][1])
        else:
            spans.append((begin, end))
    return spans


def lanes_of(bars: Mapping[str, Sequence[CallBar]]) -> dict[str, int]:
    """Return the number of lanes of each resource."""
    return {name: 1 + max(bar.lane for bar in each) for name, each in bars.items()}


# Attempts are reported a little after they have ended, so their actions are drawn too late by different times.
_TOLERANCE = 0.2


def _overlap(bars: Sequence[CallBar]) -> bool:
    by_lane: dict[int, list[CallBar]] = {}
    for bar in bars:
        by_lane.setdefault(bar.lane, []).append(bar)
    neighbours = [pair for each in by_lane.values() for pair in pairwise(each)]
    twice_s = sum(max(0.0, min(one.ended_at, other.ended_at) - other.begun_at) for one, other in neighbours)
    return twice_s > _TOLERANCE * sum(bar.ended_at - bar.begun_at for bar in bars)


def _spread(bars: Sequence[CallBar]) -> list[CallBar]:
    free: list[float] = []
    spread = []
    for bar in bars:
        lane = next((lane for lane, until in enumerate(free) if until <= bar.begun_at), len(free))
        free[lane : lane + 1] = [bar.ended_at]
        spread.append(replace(bar, lane=lane))
    return spread
