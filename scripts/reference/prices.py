"""docs/reference/prices.md: the price list, and worked examples of the bill."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from marless.cloud.deploy_messages import standing_of
from marless.coordinator.placement.coordination_cost import STANDARD, detached, reports
from marless.coordinator.pricing.bill import LOG_BYTES, Line, Meter, bill, total
from marless.coordinator.pricing.idle_cost import idle_month
from marless.coordinator.pricing.prices import load_prices
from marless.functions.messages.usage import Usage
from scripts.reference import markdown

# A coordinator's usual memory in MB, and the usual size of a run's state in bytes.
_MB, _STATE = 1769, 6000
_FULL_SET = 64


def page() -> str:
    """The whole page."""
    prices = load_prices()
    parts = [
        f"List prices of `{prices.region}`, without free tier, volume tiers or savings plans, as of {prices.date}. "
        "Each has its source beside it in `coordinator/pricing/prices/`. [Cost](../explanation/cost.md) says what "
        "counts.",
        "## Price list",
        markdown.table(("price", "dollars"), _flat(msgspec.to_builtins(prices))),
        "## A round, line by line",
        "A round of 16 actors (1,850 ms each) and three learners (2,400 ms each) at 1,769 MB, detached, all of them "
        "warm. An actor reads two objects and writes one; a learner reads 18 and writes two.",
        _lines(bill(example(), prices).lines, 8),
        "The learners: 3 * 2,400 ms * 1,769 MB / 1,024 in GB-s. The headers of the 19 replies are 19 of the reads. "
        "The writes are 12 for two commits of a 6 KB item, 16 + 3 completion reports, and 1 for the round's line of "
        "metrics.",
        "## What detached mode adds",
        markdown.table(("for each", "what", "dollars or seconds"), _detached()),
        "## A deployment at rest",
        "Thirty days in which nobody trains, with eight alarms on 18 metrics, one dashboard and a coordinator "
        "of 1,769 MB.",
        _lines(idle_month(prices, standing_of({})), 4),
    ]
    return markdown.page("Prices", "`coordinator/pricing`", parts)


def example() -> Meter:
    """The round of the worked example."""
    meter = Meter()
    for function, number, ms, usage in (
        ("actor", 16, 1850, Usage(puts=1, gets=2)),
        ("learner", 3, 2400, Usage(puts=2, gets=18)),
    ):
        for _ in range(number):
            meter = meter.add_invocation(function, _MB, ms, 0, usage).add_log(LOG_BYTES)
        # One turn of the coordinator per wave: a commit, and reads of manifest, lease, state and topmost set.
        meter = meter.add_invocation("coordinator", _MB, 105, 0, Usage()).add_log(LOG_BYTES).add_commit(_STATE)
        for size in (4000, 0, _STATE, 0):
            meter = meter.add_load(size)
        meter += reports(number)
    return meter.add_commit(1000)


def _detached() -> list[tuple[str, str, str]]:
    prices, coordination_cost, full = load_prices(), detached(STANDARD, _STATE, _MB), reports(_FULL_SET)
    assert coordination_cost.turn is not None
    write, get = (
        bill(meter, prices).total / _FULL_SET for meter in (Meter(write_units=full.write_units), Meter(gets=_FULL_SET))
    )
    turn = f"a turn of the coordinator at {_MB:,} MB and a state of 6 KB: a request, compute, three reads"
    return [
        ("wave of invocations", turn, f"${bill(coordination_cost.turn, prices).total:.7f}"),
        ("work item", f"a completion report: {full.write_units} write units for {_FULL_SET} of them", f"${write:.7f}"),
        ("work item", "the header of its reply", f"${get:.7f}"),
        (
            "finished round",
            "its line of metrics: a write unit, four with an evaluation, the last one twice",
            f"${bill(coordination_cost.line, prices).total:f}",
        ),
        ("wave, detached", "seconds beside its work items", f"{STANDARD.detached_wave_s:.2f} s"),
        ("wave, driven from outside", "seconds beside its work items", f"{STANDARD.attended_wave_s:.2f} s"),
        ("object read, object written", "waiting inside a function", f"{STANDARD.get} ms, {STANDARD.put} ms"),
    ]


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif name not in ("date", "region"):
            yield markdown.code(f"{prefix}{name}"), str(value)


def _lines(lines: Iterable[Line], digits: int) -> str:
    lines = tuple(lines)
    rows = [
        (line.name, f"{float(line.quantity):,.6g} {line.unit}", f"${float(line.dollars):.{digits}f}")
        for line in lines
        if line.dollars
    ]
    rows.append(("**total**", "", f"**${float(total(lines)):.{digits}f}**"))
    return markdown.table(("line", "quantity", "dollars"), rows)
