"""The resource calls of a run as a table: counts and dollars of its bill, completion times of its rounds."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from marless.coordinator.core.state import RoundLine
from marless.coordinator.pricing.bill import Bill, Meter, call_line
from marless.reports.text import money, seconds

HEADER = ("resource", "actions", "hits", "billed", "dollars", "mean", "p99")
NOTE = (
    "actions: asked and paid, for the seconds that are billed; hits: questions whose kept answer was paid for before; "
    "mean and p99: of the action completion time, from the question to the answer, p99 in the round where it was "
    "longest"
)


class CallTotals(msgspec.Struct, frozen=True, kw_only=True):
    """The actions of one resource in a whole run."""

    count: int
    """Actions that were asked and are paid."""
    hits: int
    """Questions whose kept answer was paid for before."""
    seconds: float
    """How long the resource worked at the actions, as billed."""
    dollars: float
    """What this costs, without the fee for requests."""


def totals(meter: Meter, bill: Bill) -> dict[str, CallTotals]:
    """By resource, from a run's meter and its bill."""
    dollars = {line.name: float(line.dollars) for line in bill.lines}
    return {
        name: CallTotals(
            count=charge.count, hits=charge.hits, seconds=charge.billed_ms / 1000, dollars=dollars[call_line(name)]
        )
        for name, charge in sorted(meter.actions.items())
    }


def rows(by_resource: Mapping[str, CallTotals], lines: Sequence[RoundLine]) -> list[tuple[str, ...]]:
    """Return the rows below `HEADER`. `lines` are the run's rounds."""
    return [
        (
            name,
            f"{total.count:,}",
            f"{total.hits:,}",
            seconds(total.seconds),
            money(total.dollars),
            _milliseconds(mean_ms(name, lines)),
            _milliseconds(max(_p99s(name, lines), default=None)),
        )
        for name, total in by_resource.items()
    ]


def mean_ms(name: str, lines: Iterable[RoundLine]) -> float | None:
    """Return the mean completion time of a resource's actions over rounds in milliseconds, or None."""
    of_rounds = [actions for line in lines if (actions := line.actions.get(name)) and actions.timed]
    timed = sum(each.timed for each in of_rounds)
    return sum((each.mean_ms or 0.0) * each.timed for each in of_rounds) / timed if timed else None


def _p99s(name: str, lines: Iterable[RoundLine]) -> Iterable[float]:
    return (p99 for line in lines if (each := line.actions.get(name)) and (p99 := each.p99_ms) is not None)


def _milliseconds(value: float | None) -> str:
    if value is None:
        return "-"
    return seconds(value / 1000) if value >= 10_000 else f"{value:,.0f} ms" if value >= 100 else f"{value:.1f} ms"
