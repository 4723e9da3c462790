"""The cost of an idle deployment."""

from decimal import Decimal

from marless.coordinator.pricing.bill import total
from marless.coordinator.pricing.idle_cost import SWEEPS, IdleStack, idle_month
from marless.coordinator.pricing.prices import load_prices

PRICES = load_prices()


def month(**fields):
    deployment = IdleStack(**{"coordinator_mb": 1024, "alarm_metrics": 0, "dashboards": 0, "image": 0, **fields})
    return {line.name: line.dollars for line in idle_month(PRICES, deployment)}


def test_a_month_of_sweeps_is_as_by_hand():
    # 30 x 24 x 60 minutes. 20 ms at 1 GB: 864 GB-s. A read unit each. A KB of log each is 43,200 / 2^20 GB.
    assert SWEEPS == 43_200
    found = month(sweep_ms=20)
    assert found["sweep requests"] == Decimal("0.00864")
    assert found["sweep compute"] == 864 * Decimal("0.0000133334")
    assert found["sweep reads"] == Decimal("0.0054")
    assert found["sweep logs"] == Decimal(43_200) / 2**20 / 2
    assert found["logs kept"] == Decimal(43_200) / 2**20 * Decimal("0.03")
    # That is the total without other resources: less than five cents.
    assert total(idle_month(PRICES, IdleStack(1024, 0, 0, 0, sweep_ms=20))) == sum(found.values()) < Decimal("0.05")


def test_what_stands_is_paid_by_the_month():
    gb = 2**30
    found = month(alarm_metrics=4, dashboards=5, image=3 * gb // 2, table=gb, objects=10 * gb)
    # $0.10 a metric of an alarm, $3 a dashboard after three, $0.10 a GB of images, $0.25 and $0.20 a GB of the table,
    # $0.023 a GB of objects.
    assert found["alarms"] == Decimal("0.4")
    assert found["dashboards"] == Decimal("6")
    assert found["images"] == Decimal("0.15")
    assert (found["table"], found["table recovery"]) == (Decimal("0.25"), Decimal("0.2"))
    assert found["objects"] == Decimal("0.23")
    assert month(dashboards=1)["dashboards"] == 0


def test_more_memory_for_the_coordinator_costs_more_sweeps():
    assert month(coordinator_mb=2048)["sweep compute"] == 2 * month(coordinator_mb=1024)["sweep compute"]
