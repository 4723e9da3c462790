"""Forecast when runs that wait begin and end. Pure."""

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence

from marless_server.pool.turns import Turn
from marless_server.store.runs import Pace, RunRow


def seconds_left(row: RunRow, paces: Mapping[str, Pace]) -> float:
    """Return the seconds of training that a run needs, at its own pace or the pace of equal settings.

    Infinite if no pace is known.
    """
    pace = paces.get(row.settings)
    round_s = row.seconds / row.round if row.round else pace.seconds if pace else math.inf
    return math.inf if row.rounds is None else max(0, row.rounds - row.round) * round_s


def begins_in_s(turns: Sequence[Turn], running: Iterable[RunRow], paces: Mapping[str, Pace], most: int) -> list[float]:
    """Return the seconds until each run that waits begins, in the order of `turns`. Infinite if they are not known.

    Each run takes the place that is free first, and keeps it at its pace until it ends. Quotas of a day do not count,
    so they and the share of the pool can make a run later.
    """
    free_at = [seconds_left(row, paces) for row in running]
    free_at += [0.0] * (most - len(free_at))
    heapq.heapify(free_at)
    begins = []
    for turn in turns:
        begins.append(free_at[0])
        heapq.heapreplace(free_at, free_at[0] + seconds_left(turn.run, paces))
    return begins
