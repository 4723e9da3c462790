"""marless cloud budget: shows and sets the dollars a day and a month that a tenant's detached runs share."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation

from msgspec.structs import replace

from marless.backends import registry
from marless.cli import arguments as common
from marless.coordinator.errors import FINISHED
from marless.output import say, say_text
from marless.reports.text import money, table

EXAMPLES = """examples:
  marless cloud budget                      the limits, and the dollars of each run
  marless cloud budget --day 5 --month 60
  marless cloud budget --day none --tenant team-b  removes the limit of a day

A detached run that the budget stops keeps its state. Resume it on the next day, or after you raise the budget."""
_NONE = "none"


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    for period in ("day", "month"):
        text = f"dollars that detached runs may cost in a {period} (UTC), or {_NONE}"
        parser.add_argument(f"--{period}", type=_dollars, metavar="DOLLARS", help=text)
    common.remote_backend(parser)


def run(options: Namespace) -> int:
    """Set the limits that the user gave, and print the budget."""
    from marless.cloud.deployments import require_deployment
    from marless.coordinator.governor.tenant_budget import TenantBudget, change
    from marless.infra.aws.detached_ports import Deployed
    from marless.infra.aws.function_settings import Settings

    backend = registry.remote(options.backend)
    cloud = backend.cloud(options.region)
    deployment = require_deployment(backend, cloud, options.tenant, options.region)
    new_limits = {name: dollars for name in ("day", "month") if (dollars := getattr(options, name)) is not None}

    def _with_limits(budget: TenantBudget) -> TenantBudget:
        limits = {name: dollars for name, dollars in {**budget.limits, **new_limits}.items() if dollars}
        return replace(budget, limits=limits)

    ledger = Deployed(Settings(deployment.bucket, deployment.table, deployment.tenant), cloud).budget
    budget = change(ledger, _with_limits)
    if not budget.limits:
        say(f"tenant {options.tenant} has no budget; set one with: marless cloud budget --day 5 --month 60")
        return FINISHED
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    rows = [
        (name, *(money(float(amount)) for amount in (limit, budget.spent(name, today, settled=True))))
        for name, limit in budget.limits.items()
    ]
    say_text(table(("period", "limit", "spent"), rows))
    shares = [
        (name, "running" if share.is_live else "ended", money(float(share.bill)), money(float(share.most)))
        for name, share in sorted(budget.shares.items())
    ]
    if shares:
        say("")
        say_text(table(("run", "status", "bill", "at most"), shares))
    return FINISHED


def _dollars(text: str) -> Decimal:
    if text == _NONE:
        return Decimal(0)
    try:
        dollars = Decimal(text)
    except InvalidOperation as error:
        raise ArgumentTypeError(f"{text!r} is no number of dollars, such as 5 or 0.50, and not {_NONE}") from error
    if not dollars.is_finite() or dollars <= 0:
        raise ArgumentTypeError(f"{text!r} is not above 0. To remove the limit, give {_NONE}")
    return dollars
