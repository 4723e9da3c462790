"""Dollars a day and a month that all detached runs of a tenant share.

One item of the tenant's ledger holds the limits, and for each run its bill and the bill that it may reach. A turn
writes the run's whole bill, so a repeated turn counts nothing twice. Days and months are those of UTC.
"""

from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from typing import NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from marless.functions.encoding import JsonDecoder, own_format, to_json
from marless.functions.errors import StaleVersion
from marless.functions.messages.message import Record

ITEM = "budget"
PERIODS = {"day": 10, "month": 7}
"""The length of each period's prefix of a date such as ``2026-11-30``."""
# How often a turn tries to write the item, which turns of other runs also write.
_TRIES = 20


class RunShare(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A run's bill in dollars: now, when its last day and month began, and `most`, which it may reach.

    `day` is the date of its last turn. A run that ended is not `is_live`. Both its bills then have the most that its
    attempts without a report may have cost.
    """

    day: str
    starts: dict[str, Decimal]
    bill: Decimal
    most: Decimal
    is_live: bool = True


class TenantBudget(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The limit of each period in dollars, and the shares of the runs that had turns this month."""

    format_version: int | msgspec.UnsetType = msgspec.field(default_factory=own_format)
    limits: dict[str, Decimal] = {}
    shares: dict[str, RunShare] = {}

    def spent(self, period: str, day: str, without: str = "", settled: bool = False) -> Decimal:
        """The dollars that all runs but `without` may reach in the period of that day.

        With `settled`, the runs count with their bills. A live run that has had no turn in the period yet holds the
        dollars of its attempts in flight.
        """
        dollars = Decimal(0)
        for run, share in self.shares.items():
            is_new = not _in(period, share, day)
            if run != without and (share.is_live or not is_new):
                dollars += (share.bill if settled else share.most) - (share.bill if is_new else share.starts[period])
        return dollars


class Allowance(NamedTuple):
    """The bill in dollars that a run may reach, and the reason. It `grows` when other runs end their turns."""

    dollars: Decimal
    reason: str
    grows: bool


class BudgetItems(Protocol):
    """The ledger that has the item."""

    def load(self, item: str) -> Record | None:
        """See `Ledger.load`."""

    def commit(self, item: str, body: bytes, version: int) -> int:
        """See `Ledger.commit`."""


_DECODER = JsonDecoder(TenantBudget)


def enter(ledger: BudgetItems, run: str, bill: Callable[[], Decimal], day: str) -> Allowance | None:
    """The allowance of a run at the begin of its turn, None without a budget.

    `bill` is asked for the bill of a run without a share. Raises `StaleVersion` if turns of other runs are quicker
    again and again.
    """
    if (record := ledger.load(ITEM)) is None or not _DECODER.decode(record.body, "the budget").limits:
        return None
    budget = change(ledger, lambda budget: with_turn(budget, run, bill, day))
    _, grows, period = _grant(budget, run, budget.shares[run], day)
    reason = (
        f"the tenant's budget of ${budget.limits[period]} a {period} is used up; resume the run in the next {period}"
        " (UTC), or raise the budget with `marless cloud budget`"
    )
    return Allowance(budget.shares[run].most, reason, grows)


def change(ledger: BudgetItems, step: Callable[[TenantBudget], TenantBudget]) -> TenantBudget:
    """The budget after the step, which is written if it differs; an empty one if there is none.

    Raises `StaleVersion` if other writers are quicker again and again.
    """
    for _ in range(_TRIES):
        record = ledger.load(ITEM)
        before = _DECODER.decode(record.body, "the budget") if record else TenantBudget()
        if (after := step(before)) == before:
            return before
        with suppress(StaleVersion):
            ledger.commit(ITEM, to_json(after), record.version if record else 0)
            return after
    raise StaleVersion(f"{ITEM} was written by other turns {_TRIES} times")


def with_turn(budget: TenantBudget, run: str, bill: Callable[[], Decimal], day: str) -> TenantBudget:
    """The budget at the begin of a turn. The run's share may grow."""
    before = budget.shares.get(run)
    now = before.bill if before else bill()
    starts = {name: before.starts[name] if before and _in(name, before, day) else now for name in PERIODS}
    share = RunShare(day=day, starts=starts, bill=now, most=before.most if before else now)
    dollars, _, _ = _grant(budget, run, share, day)
    return _with(budget, run, replace(share, most=max(share.most, dollars)))


def with_bill(budget: TenantBudget, run: str, bill: Decimal, most: Decimal, is_live: bool) -> TenantBudget:
    """The budget at the end of a turn, after which attempts in flight may raise the run's bill to `most`.

    A later turn may have written a higher bill already.
    """
    share = budget.shares.get(run)
    if share is None or bill < share.bill or not budget.limits:
        return budget
    share = replace(share, bill=bill if is_live else most, most=most, is_live=is_live)
    dollars, _, _ = _grant(budget, run, share, share.day)
    return _with(budget, run, replace(share, most=max(most, dollars)) if is_live else share)


def without_turns(budget: TenantBudget, run: str) -> TenantBudget:
    """The budget after a run that failed for good. Its attempts in flight may still cost their most."""
    share = budget.shares.get(run)
    return _with(budget, run, replace(share, bill=share.most, is_live=False)) if share else budget


def _grant(budget: TenantBudget, run: str, share: RunShare, day: str) -> tuple[Decimal, bool, str]:
    """The bill that the run may reach, whether others hold a part of its share, and the period with the least left.

    Live runs divide the rest of a period equally. A run gets no dollars that others hold.
    """
    live = 1 + sum(share_.is_live for name, share_ in budget.shares.items() if name != run)
    grants = []
    for period, limit in budget.limits.items():
        rest = limit - (share.bill - share.starts[period])
        fair = (rest - budget.spent(period, day, run, settled=True)) / live
        free = rest - budget.spent(period, day, run)
        grants.append((share.bill + max(Decimal(0), min(fair, free)), free < fair, period))
    return min(grants)


def _in(period: str, share: RunShare, day: str) -> bool:
    length = PERIODS[period]
    return share.day[:length] == day[:length]


def _with(budget: TenantBudget, run: str, share: RunShare) -> TenantBudget:
    shares = {name: old for name, old in budget.shares.items() if old.is_live or _in("month", old, share.day)}
    return replace(budget, shares={**shares, run: share})
