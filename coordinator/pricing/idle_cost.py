"""The cost of a deployment in a month without training."""

from typing import NamedTuple

from marless.coordinator.pricing.bill import LOG_BYTES, Line, line
from marless.coordinator.pricing.prices import Architecture, Prices

# A sweep every minute of thirty days.
SWEEPS = 30 * 24 * 60
_GB = 2**30


class IdleStack(NamedTuple):
    """The resources of a deployment. Bytes: `image` of container images, `table` and `objects` that runs left, `logs`
    of runs. A sweep takes the coordinator `sweep_ms` at `coordinator_mb`. `dashboards` are billed beyond the account's
    free ones, as if it had no others. An alarm is billed by its metrics."""

    coordinator_mb: int
    alarm_metrics: int
    dashboards: int
    image: int
    sweep_ms: int = 50
    table: int = 0
    objects: int = 0
    logs: int = 0


def idle_month(prices: Prices, deployment: IdleStack, architecture: Architecture = "arm") -> tuple[Line, ...]:
    """Return the lines of a month of thirty days, at list prices without free tier. `bill.total` adds them up.

    The sweep looks for detached runs every minute: an invocation of the coordinator, a read of an empty list, a log
    (AWS Lambda pricing, Amazon DynamoDB pricing, Amazon CloudWatch pricing). The events of scheduled rules are free
    (Amazon EventBridge pricing). Other services are billed by the month. They are alarms, dashboards and logs (Amazon
    CloudWatch pricing), the table with point-in-time recovery (Amazon DynamoDB pricing), objects (Amazon S3 pricing)
    and images (Amazon ECR pricing). An event in a queue, a role, a schedule and an alias cost nothing.
    """
    watch, table = prices.cloudwatch, prices.dynamodb
    million, mb_ms = 1_000_000, SWEEPS * deployment.sweep_ms * deployment.coordinator_mb
    dashboards = max(0, deployment.dashboards - watch.dashboards_free)
    return (
        line("sweep requests", SWEEPS, 1, "request", prices.lambda_.requests_per_million, million),
        line("sweep compute", mb_ms, 1024 * 1000, "GB-s", prices.gb_second(architecture), 1),
        line("sweep reads", SWEEPS, 1, "unit", table.read_units_per_million, million),
        line("sweep logs", SWEEPS * LOG_BYTES, _GB, "GB", watch.logs_gb, 1),
        line("alarms", deployment.alarm_metrics, 1, "metric", watch.alarm_month, 1),
        line("dashboards", dashboards, 1, "dashboard", watch.dashboard_month, 1),
        line("images", deployment.image, _GB, "GB-month", prices.ecr.gb_month, 1),
        line("objects", deployment.objects, _GB, "GB-month", prices.s3.standard.gb_month, 1),
        line("table", deployment.table, _GB, "GB-month", table.gb_month, 1),
        line("table recovery", deployment.table, _GB, "GB-month", table.recovery_gb_month, 1),
        line("logs kept", deployment.logs + SWEEPS * LOG_BYTES, _GB, "GB-month", watch.logs_gb_month, 1),
    )
