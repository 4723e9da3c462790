"""`marless plan`: the cheapest placement within limits, and the price of a rented machine."""

import pytest

from marless.coordinator.errors import UserError
from marless.coordinator.placement.placement_rules import RoundPlacement
from marless.coordinator.pricing.prices import load_prices
from marless.estimation.rented_machine import rented_machine
from marless.estimation.run_plan import PlacementOffer, choose


def offer(rule, seconds, dollars):
    placed = RoundPlacement(rule=rule, rollouts_per_invocation=1, checkpoint_every=9, memory_mb={})
    return PlacementOffer(placed, {"functions.actor.memory_mb": 512}, 1, seconds, dollars)


SLOW, MIDDLE, FAST = offer("whole", 120.0, 0.01), offer("packed", 60.0, 0.03), offer("fused", 30.0, 0.1)
OFFERS = [FAST, offer("split", 70.0, 0.2), offer("balanced", 30.0, 0.11), SLOW, MIDDLE]
TRAIN = ["deploy with: marless cloud deploy --actor-memory 512", "train with: functions.actor.memory_mb=512"]


@pytest.mark.parametrize(
    ("deadline_s", "dollars", "expected", "sentences"),
    [
        (120.0, 0.01, SLOW, ["no limit binds: no placement is cheaper", "$0.020 more would save 1:00"]),
        (119.0, None, MIDDLE, ["the deadline binds: 1:00 more would save $0.020", "$0.070 more would save 30.0 s"]),
        (45.0, 1.0, FAST, ["the deadline binds: 30.0 s more would save $0.070"]),
    ],
)
def test_the_cheapest_within_the_limits_is_chosen(deadline_s, dollars, expected, sentences):
    plan = choose(OFFERS, deadline_s, dollars)
    assert (plan.offers, plan.choice, plan.sentences) == ([SLOW, MIDDLE, FAST], expected, [*sentences, *TRAIN])
    without_deadline, without_cap = choose(OFFERS, None, dollars), choose(OFFERS, deadline_s, None)
    assert (without_deadline.choice != expected, without_cap.choice) == ("deadline" in sentences[0], expected)


@pytest.mark.parametrize(("deadline_s", "dollars"), [(20.0, None), (None, 0.001), (60.0, 0.02)])
def test_limits_beyond_all_placements_are_refused_with_choices(deadline_s, dollars):
    with pytest.raises(UserError, match=r"possible are \$0.010 in 2:00, \$0.030 in 1:00, \$0.10 in 30.0 s$"):
        choose(OFFERS, deadline_s, dollars)


def test_short_run_pays_minute_and_long_run_boot():
    machine = rented_machine(load_prices("us-east-1"), workers=2)

    assert machine.busy_dollars(3600) == pytest.approx(0.0765)
    assert machine.dollars(5) == pytest.approx(0.0765 * 60 / 3600)
    assert machine.dollars(3560) == pytest.approx(0.0765)


def test_workers_pay_for_a_virtual_processor_each():
    machine = rented_machine(load_prices("us-east-1"), workers=3)

    assert machine.vcpus == 4
    assert machine.busy_dollars(3600) == pytest.approx(0.153)
