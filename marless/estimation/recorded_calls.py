"""The calls of recorded tasks to resources: their times, and how long the resources worked."""

from collections.abc import Sequence
from dataclasses import dataclass

from marless.functions.messages.usage import CallTime


@dataclass(frozen=True)
class RecordedAsk:
    """Questions to one resource that a task asked in parallel, after it computed for `compute_ms` since the answers
    before. `work_ms` is the resource's time for each."""

    resource: str
    compute_ms: float
    work_ms: tuple[float, ...]


def asks_of(actions: Sequence[CallTime]) -> tuple[RecordedAsk, ...]:
    """A task's actions, put together as they were asked."""
    asks: list[RecordedAsk] = []
    answered_ms = 0.0
    for together in _side_by_side(actions):
        first = together[0]
        work_ms = tuple(each.ended_ms - each.begun_ms for each in together)
        asks.append(RecordedAsk(first.resource, max(0.0, first.asked_ms - answered_ms), work_ms))
        answered_ms = max(each.ended_ms for each in together)
    return tuple(asks)


def blocked_ms(actions: Sequence[CallTime]) -> float:
    """The time in milliseconds that the task waited for answers."""
    return sum(max(each.ended_ms for each in together) - together[0].asked_ms for together in _side_by_side(actions))


def _side_by_side(actions: Sequence[CallTime]) -> list[list[CallTime]]:
    batches: list[list[CallTime]] = []
    for each in actions:
        if batches and (batches[-1][0].resource, batches[-1][0].asked_ms) == (each.resource, each.asked_ms):
            batches[-1].append(each)
        else:
            batches.append([each])
    return batches
