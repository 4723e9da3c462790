"""Contents and cost of a deployment, printed before and after it is created."""

from collections.abc import Mapping, Sequence

from marless.cloud.accounts import Caller
from marless.coordinator.pricing.bill import Line, total
from marless.coordinator.pricing.idle_cost import IdleStack, idle_month
from marless.coordinator.pricing.prices import load_prices, priced_as
from marless.functions.resources.settings import Resource
from marless.infra.deployment import IMAGE_SUFFIX, ROLES, Change, Deployment, template
from marless.infra.deployment.resource_functions import PARAMETER, of_parameter
from marless.infra.packaging.torch_users import TorchUsers
from marless.program import program_name
from marless.reports.text import money, table

# A learner's image with torch for the CPU, compressed: an assumption.
_IMAGE_BYTES = 500 << 20
_USUAL_MB = 1769
# The concurrency quota of a new account is far below this (Lambda developer guide, "Lambda quotas").
_MANY = 100


def before(
    who: Caller,
    region: str,
    stack: str,
    deployment: Deployment | None,
    parameters: Mapping[str, str],
    free: int,
    torch: TorchUsers,
) -> str:
    """Return lines about the resources to create or update, their place, and their idle cost per month."""
    resources = of_parameter(parameters.get(PARAMETER, ""))
    there = deployment.resources if deployment else {}
    prices = load_prices(priced_as(region))
    month = idle_month(prices, standing_of(parameters, image=bool(torch.names)))
    rows = [
        ("account", f"{who.account}, {region}, as {who.arn.rpartition(':')[2]}"),
        ("stack", f"{stack}, {'exists: functions are updated, runs and their data stay' if deployment else 'new'}"),
        ("resources", "a bucket, a table, a queue, 4 functions with roles and logs, a schedule, 8 alarms, a dashboard"),
        ("outside it", f"a bucket of packages{', a container repository' if torch.names else ''}"),
        ("learner", _learner(deployment, torch)),
        *((name, _resource_text(resource)) for name, resource in resources.items()),
        *((name, "removed; runs in progress that ask it cannot go on") for name in there if name not in resources),
        ("concurrency", f"{free:,} functions at once in this account{_few(free)}"),
        (
            "idle cost",
            f"{money(float(total(month)))} per month at list prices of {prices.region}, without the free tier;"
            f" training is extra ({program_name()} estimate)",
        ),
    ]
    costs = table(("", "", ""), _lines(month)).splitlines()[1:]
    return "\n".join([*(f"{label:<11} {text}" for label, text in rows), *(" " * 12 + cost for cost in costs)])


def after(deployment: Deployment) -> str:
    """What was deployed."""
    functions = [
        (
            role,
            f"version {deployment.functions[role].rpartition(':')[2]}, {deployment.memory_mb[role]:,} MB,"
            f" {deployment.timeout_s[role]} s",
        )
        for role in ROLES
    ]
    rows = [
        ("stack", f"{deployment.stack} in {deployment.region}"),
        ("bucket", deployment.bucket),
        ("table", deployment.table),
        *functions,
    ]
    rows += [(name, _resource_text(resource)) for name, resource in deployment.resources.items()]
    return "\n".join(f"{label:<12} {text}" for label, text in rows)


def _resource_text(resource: Resource) -> str:
    return (
        f"{resource.serve or resource.http}, {resource.slots:,} at once, {resource.memory_mb:,} MB,"
        f" {resource.timeout_s:g} s"
    )


def _few(free: int) -> str:
    if free >= _MANY:
        return ""
    return "; new accounts have a low quota: raise it under Service Quotas, AWS Lambda, Concurrent executions"


def _learner(deployment: Deployment | None, torch: TorchUsers) -> str:
    packaging = (
        f"a container image, because {torch.reason}" if torch.names else "a zip archive, as no plug-in needs torch"
    )
    deployed_image = deployment is not None and deployment.functions["learner"].split(":")[-2].endswith(IMAGE_SUFFIX)
    if deployment is None or deployed_image == bool(torch.names):
        return packaging
    old_packaging = "an image" if deployed_image else "a zip archive"
    return f"{packaging}; runs in progress cannot go on, because their learner, {old_packaging}, is removed"


def _lines(month: Sequence[Line]) -> list[tuple[str, str, str]]:
    return [
        (line.name, money(float(line.dollars)), f"{line.quantity:,.{3 if line.quantity < 1 else 0}f} {line.unit}")
        for line in month
        if line.dollars
    ]


def standing_of(parameters: Mapping[str, str], image: bool = False) -> IdleStack:
    """The resources of a deployment with these template parameters that are billed by the month.

    `image`: whether the learner is a container image.
    """
    return IdleStack(
        coordinator_mb=int(parameters.get("CoordinatorMemory", _USUAL_MB)),
        # An alarm is paid for by the metrics it looks at (Amazon CloudWatch pricing, "alarm metric").
        alarm_metrics=template.text().count("MetricName: "),
        dashboards=1,
        image=_IMAGE_BYTES if image else 0,
    )


def changes(planned_changes: Sequence[Change]) -> str:
    """The resources that a deployment would change, and which of them it would replace."""
    if not planned_changes:
        return "nothing would change"
    words = {"True": "replaced", "Conditional": "perhaps replaced"}
    rows = [
        (change.action.lower(), change.logical, change.type, words.get(change.replacement, ""))
        for change in planned_changes
    ]
    return table(("change", "resource", "type", ""), rows)
