"""marless cloud bill: prints the dollars of a month by owner, kind and run."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal

from marless.backends import registry
from marless.cli import arguments as common
from marless.coordinator.errors import FINISHED, UNFINISHED
from marless.output import note, say, say_json, say_text
from marless.reports.text import counted, money, table

EXAMPLES = """examples:
  marless cloud bill                         this month, so far
  marless cloud bill --month 2026-11 --tenant team-b --json

Removed runs are not in it. Idle resources of the deployment are not, either."""
_NOBODY = "-"


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--month", type=_month, metavar="YYYY-MM", help="month in UTC (default: this month)")
    common.json(parser)
    common.remote_backend(parser)


def run(options: Namespace) -> int:
    """Print the tables. Return 1 if a run cannot be read, because the sums then lack its dollars."""
    from marless_cloud.cloud_runs import CloudRuns
    from marless_cloud.monthly_bill import by_kind, by_owner, costs, month_of

    month: str = options.month or datetime.now(UTC).strftime("%Y-%m")
    runs = CloudRuns(registry.remote(options.backend), options.tenant, options.region)
    run_costs, problems = costs(runs, month_of(month))
    if options.json:
        for cost in run_costs:
            amounts = {kind: float(dollars) for kind, dollars in cost.kinds.items() if dollars}
            say_json({"run": cost.run, "owner": cost.owner, "dollars": float(cost.dollars), "kinds": amounts})
    elif run_costs:
        for title, sums in (("owner", by_owner(run_costs)), ("kind", by_kind(run_costs))):
            _show((title, "dollars"), ((name or _NOBODY, dollars) for name, dollars in sums.items()))
        names = {cost.run: cost.owner or _NOBODY for cost in run_costs}
        _show(("run", "dollars", "owner"), ((cost.run, cost.dollars) for cost in run_costs), names)
        total = sum((cost.dollars for cost in run_costs), Decimal(0))
        say(f"{money(float(total))} for {counted(len(run_costs), 'run')} of tenant {options.tenant} in {month}")
    else:
        say(f"no run of tenant {options.tenant} cost anything in {month}")
    for name, problem in problems.items():
        note(f"{name} is missing in the bill: {problem}")
    return UNFINISHED if problems else FINISHED


def _show(
    header: tuple[str, ...], amounts: Iterable[tuple[str, Decimal]], owners: dict[str, str] | None = None
) -> None:
    rows = [(name, money(float(dollars)), *([owners[name]] if owners else [])) for name, dollars in amounts]
    say_text(table(header, rows))
    say("")


def _month(text: str) -> str:
    from marless_cloud.monthly_bill import month_of

    try:
        month_of(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} is not a month such as 2026-11") from error
    return text
