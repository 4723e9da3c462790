"""The bill of a tenant's month by run, owner and kind, from the ledgers of its runs.

A ledger holds the bill of its run since the run began. A detached run also stores a line for each round. Each item has
the time of its write. So a dollar belongs to the month of the first item that counts it. A driven run stores no lines
in the cloud, so all its dollars belong to the month of its last commit.
"""

from bisect import bisect_left
from calendar import monthrange
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import msgspec

from marless.coordinator.core import budget
from marless.coordinator.drive import study_governor
from marless.coordinator.drive.ledger_items import STATE, LedgerJournal
from marless.coordinator.drive.run_manifest import STUDY
from marless.functions.function_specs import BILLED
from marless.infra.aws.dynamodb import DynamoLedger
from marless.runs.stored_run import Stored
from marless_cloud.cloud_runs import THREADS, CloudRun, CloudRuns

KINDS = (*BILLED, "actions", "requests", "storage", "logs", "transfer")
"""The parts of a bill. Their dollars add up to the bill, see `marless.coordinator.pricing.bill.Bill`."""
# The owner that a study's file has by default.
_NO_OWNER = "me"
_LINES = "line/"


class RunCost(msgspec.Struct, frozen=True, kw_only=True):
    """The dollars of a run in a month by kind, in the order of `KINDS`. `owner` is '' if the run names none."""

    run: str
    owner: str
    kinds: dict[str, Decimal]

    @property
    def dollars(self) -> Decimal:
        """The sum of all kinds."""
        return sum(self.kinds.values(), Decimal(0))


def month_of(text: str) -> tuple[float, float]:
    """Return the begin and the end of a month such as ``2026-11``, in seconds since 1970 (UTC). Raises `ValueError`."""
    begin = datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC)
    return begin.timestamp(), (begin + timedelta(days=monthrange(begin.year, begin.month)[1])).timestamp()


def costs(runs: CloudRuns, month: tuple[float, float]) -> tuple[list[RunCost], dict[str, str]]:
    """Return the costs of the runs that cost something in the month, and the problem of each unreadable run.

    Raises `StorageFault` if AWS refuses a request.
    """
    with ThreadPoolExecutor(THREADS) as pool:
        cloud_runs = list(pool.map(runs.read, runs.names()))
    owners = _Owners(runs)
    all_costs = [_cost(run, run.stored, owners.of(run), month) for run in cloud_runs if run.stored]
    problems = {run.name: run.problem for run in cloud_runs if run.problem}
    return [cost for cost in all_costs if cost.dollars], problems


def by_owner(run_costs: list[RunCost]) -> dict[str, Decimal]:
    """Return the dollars of each owner, the most expensive first."""
    dollars: dict[str, Decimal] = {}
    for cost in run_costs:
        dollars[cost.owner] = dollars.get(cost.owner, Decimal(0)) + cost.dollars
    return dict(sorted(dollars.items(), key=lambda item: -item[1]))


def by_kind(run_costs: list[RunCost]) -> dict[str, Decimal]:
    """Return the dollars of each kind that costs something."""
    sums = {kind: sum((cost.kinds[kind] for cost in run_costs), Decimal(0)) for kind in KINDS}
    return {kind: dollars for kind, dollars in sums.items() if dollars}


class _Owners:
    """The owners that studies name, and of other runs the users who began them."""

    def __init__(self, runs: CloudRuns) -> None:
        self._runs, self._studies = runs, dict[str, Mapping[str, str]]()

    def of(self, run: CloudRun) -> str:
        """Return the owner of a run, '' if it has none."""
        if run.study not in self._studies:
            plan = study_governor.read_plan(self._runs.deployed, run.study.removeprefix(STUDY)) if run.study else None
            self._studies[run.study] = plan.owners if plan else {}
        owner = self._studies[run.study].get(run.name, _NO_OWNER)
        ref = run.stored.identity.deployment_ref if run.stored else None
        return owner if owner != _NO_OWNER else ref.owner if ref else ""


def _cost(run: CloudRun, stored: Stored, owner: str, month: tuple[float, float]) -> RunCost:
    bill = budget.bill_of(stored.plan, stored.state.meter)
    begin, end = (_dollars_before(run.ledger, stored, bill.total, time) for time in month)
    kinds: dict[str, Decimal] = {kind: getattr(bill, kind) for kind in KINDS}
    if end - begin != bill.total:
        # The ledger has no kinds of a part of a bill.
        kinds = {kind: dollars * (end - begin) / bill.total for kind, dollars in kinds.items()}
    return RunCost(run=run.name, owner=owner, kinds=kinds)


def _dollars_before(ledger: DynamoLedger, stored: Stored, total: Decimal, time: float) -> Decimal:
    """Return the dollars of the run that items count which were written before `time`."""
    if _time_of(ledger, STATE) < time:
        return total
    if datetime.fromisoformat(stored.identity.created).timestamp() >= time:
        return Decimal(0)
    names = [name for name in ledger.names() if name.startswith(_LINES)]
    earlier = bisect_left(names, time, key=lambda name: _time_of(ledger, name))
    return Decimal(str(LedgerJournal(ledger).lines_after(0)[earlier - 1].dollars)) if earlier else Decimal(0)


def _time_of(ledger: DynamoLedger, item: str) -> float:
    record = ledger.load(item)
    return record.at if record else 0.0
