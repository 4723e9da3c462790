"""``python -m benchmarks service``: a day in a lab on a server, against three ways without one.

The first way is a first-come queue. Each run then has the whole machine. The second is a command for each submission
at once. The third are static partitions, each with one worker and the queue of some owners.
"""

import math
import sys
from collections.abc import Iterator, Sequence

from benchmarks.comparisons.conditions import Measuring
from benchmarks.pool import workloads
from benchmarks.service.trace import LENGTH_S, settings, stored
from benchmarks.service.ways import Job, Outcome, by_commands, by_server
from benchmarks.table import HEADER, Row
from marless.reports.text import markdown_table

# The bars of a trace that waits. The first two are mean time and busy share against the first-come queue. The others
# are time and memory against a command for each submission.
_MEAN, _BUSY, _TIME, _MEMORY = 0.15, 4.3, 1.0, 0.3
_UNFAIR = 0.05
QUICK_S = 20.0


def table(is_record: bool) -> str:
    """Replay the day, or its first seconds, and return the table as markdown."""
    measuring, length_s = Measuring(), LENGTH_S if is_record else QUICK_S
    slots = workloads.waiting().slots
    rows = [*_rows("waiting", _jobs(length_s, is_mixed=False), slots, True)]
    rows += _rows("mixed", _jobs(length_s, is_mixed=True), slots, False)
    return f"{markdown_table(HEADER, [row.cells() for row in rows])}\n\n{measuring.conditions().sentence()}"


def _jobs(length_s: float, is_mixed: bool) -> list[Job]:
    return [
        Job(arrival.at_s, arrival.owner, settings(arrival, number, is_mixed))
        for number, arrival in enumerate(stored(), 1)
        if arrival.at_s < length_s
    ]


def _rows(name: str, jobs: Sequence[Job], slots: int, waits: bool) -> Iterator[Row]:
    """Return the rows of a trace: the server, and its numbers against each other way."""
    ours = by_server(jobs, slots)
    _tell(name, "the server", ours)
    ways = {
        "first come, first served": by_commands(jobs, [0] * len(jobs), "--workers", str(slots)),
        "a command for each submission": by_commands(jobs, range(len(jobs))),
        "static partitions": by_commands(jobs, [job.owner % slots for job in jobs], "--workers", "1"),
    }
    yield Row(f"{name}: runs", [len(jobs)], ",.0f")
    unfair = ours.unfair_s / ours.length_s
    yield Row(f"{name}: part of the time with an owner below the fair share", [unfair], ".3f", most=_UNFAIR)
    for way, theirs in ways.items():
        _tell(name, way, theirs)
        first, each = way.startswith("first"), way.startswith("a command")
        most = (_MEAN if first else _TIME if each else None) if waits else 1.0
        yield _row(f"{name}: mean time to the result", _mean(ours), _mean(theirs), way, "s", most=most)
        most = None if waits else 1.0
        yield _row(f"{name}: 95th percentile of this time", _percentile(ours), _percentile(theirs), way, "s", most=most)
        # All ways serve the same tasks, so the share of busy slots follows from the time until the last result.
        busy, other = (ours.served_s / (slots * outcome.length_s) for outcome in (ours, theirs))
        yield _row(
            f"{name}: busy share of slots", busy, other, way, "", ".3f", least=_BUSY if waits and first else None
        )
        most = (_MEMORY if each else None) if waits else 1.0
        yield _row(f"{name}: peak memory", ours.peak_mib, theirs.peak_mib, way, "MiB PSS", ",.0f", most=most)
        equal = sum(ours.weights[number] == theirs.weights[number] for number in range(len(jobs)))
        yield Row(f"{name}: runs with the same weights", [equal], ",.0f", against=way, least=len(jobs))


def _row(
    name: str,
    ours: float,
    theirs: float,
    way: str,
    unit: str,
    form: str = ".1f",
    least: float | None = None,
    most: float | None = None,
) -> Row:
    return Row(name, [ours], form, unit, [ours / theirs], way, least, most)


def _mean(outcome: Outcome) -> float:
    return sum(outcome.seconds.values()) / len(outcome.seconds)


def _percentile(outcome: Outcome) -> float:
    return sorted(outcome.seconds.values())[math.ceil(0.95 * len(outcome.seconds)) - 1]


def _tell(name: str, way: str, outcome: Outcome) -> None:
    line = f"        {name}, {way}: mean {_mean(outcome):.1f} s, last {outcome.length_s:.0f} s"
    print(line, file=sys.stderr, flush=True)
