"""The price of a run on one rented machine."""

import pytest

from marless.coordinator.pricing.prices import load_prices
from marless.estimation.rented_machine import rented_machine


def test_a_short_run_pays_a_minute_and_a_long_one_its_boot_too():
    machine = rented_machine(load_prices("us-east-1"), workers=2)

    assert machine.busy_dollars(3600) == pytest.approx(0.0765)
    assert machine.dollars(5) == pytest.approx(0.0765 * 60 / 3600)
    assert machine.dollars(3560) == pytest.approx(0.0765)


def test_workers_pay_for_a_virtual_processor_each():
    machine = rented_machine(load_prices("us-east-1"), workers=3)

    assert machine.vcpus == 4
    assert machine.busy_dollars(3600) == pytest.approx(0.153)
