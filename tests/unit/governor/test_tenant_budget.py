"""Runs share their tenant's dollars a day and a month. No order of turns passes a limit, and weights stay the same."""

import dataclasses
import random
from decimal import Decimal

import pytest
from simulated import MemoryLedger, World, make_plan

from marless.coordinator.core import budget
from marless.coordinator.core.decide import Wait, decide
from marless.coordinator.core.state import State
from marless.coordinator.governor import tenant_budget as shared
from marless.functions.errors import StaleVersion

NONE, DAY, NEXT = Decimal(0), "2026-11-29", "2026-11-30"


def limited(**limits):
    return shared.TenantBudget(limits={name: Decimal(dollars) for name, dollars in limits.items()})


def begin(purse, run, day=DAY, bill=NONE):
    return shared.with_turn(purse, run, lambda: bill, day)


def end(purse, run, bill, most=None, is_live=True):
    return shared.with_bill(purse, run, Decimal(bill), Decimal(bill if most is None else most), is_live)


def most(purse, run):
    return float(purse.shares[run].most)


def test_runs_divide_rest_without_amounts_held_by_others():
    purse = begin(begin(limited(day=10), "a"), "b")
    # The first run may still spend all, so the second gets nothing before the first ends its turn.
    assert (most(purse, "a"), most(purse, "b")) == (10, 0)
    purse = begin(end(purse, "a", 2), "b")
    assert (most(purse, "a"), most(purse, "b")) == (2 + (10 - 2) / 2, 10 - 6)
    # A turn that is repeated or late counts nothing twice.
    assert begin(end(purse, "a", 2), "b") == end(purse, "a", 1) == purse
    # Attempts in flight keep their dollars. A run that failed for good may have cost its most.
    purse = end(purse, "a", 3, most=7)
    assert most(begin(shared.without_turns(purse, "a"), "b"), "b") == most(purse, "b") == 10 - 6
    assert most(begin(end(purse, "a", 3.5, is_live=False), "b"), "b") == 6.5


def test_new_day_has_own_dollars_within_month():
    purse = end(begin(limited(day=10, month=15), "a", bill=Decimal(100)), "a", 109, is_live=False)
    purse = begin(purse, "a", NEXT)
    assert most(purse, "a") == 109 + min(10, 15 - 9)
    purse = end(purse, "a", 115, is_live=False)
    assert {name: float(purse.spent(name, NEXT)) for name in shared.PERIODS} == {"day": 6, "month": 15}
    # In December both periods begin, and runs that ended in November are forgotten.
    assert most(december := begin(purse, "b", "2026-12-01"), "b") == 10 and december.shares.keys() == {"b"}


@pytest.mark.parametrize("seed", range(20))
def test_no_order_of_turns_passes_a_limit(seed):
    draw, limits = random.Random(seed), {"day": 10, "month": 25}
    purse, bills, past = limited(**limits), dict.fromkeys("abc", NONE), NONE
    for day in ("2026-11-28", DAY, NEXT):
        for _ in range(40):
            run, is_live = draw.choice("abc"), draw.random() < 0.8
            purse = begin(purse, run, day)
            # Reports raise the bill, and attempts in flight may raise it further, up to the allowance.
            first, second = sorted(Decimal(draw.random()) for _ in range(2))
            rest = purse.shares[run].most - bills[run]
            bills[run], reach = bills[run] + rest * first, bills[run] + rest * second
            purse = end(purse, run, bills[run], reach, is_live)
            bills[run] = bills[run] if is_live else reach  # attempts that never report cost their most
            assert float(sum(bills.values()) - past) <= limits["day"] + 1e-12
        past = sum(bills.values())
    assert float(past) <= limits["month"] + 1e-12


class Contested(MemoryLedger):
    times = 0  # as often another writer is quicker

    def commit(self, item, body, version):
        self.times -= 1
        if self.times >= 0:
            raise StaleVersion(item, 0)
        return super().commit(item, body, version)


def test_allowance_names_period_and_survives_concurrent_writes():
    ledger = Contested()
    assert shared.enter(ledger, "a", lambda: NONE, DAY) is None
    shared.change(ledger, lambda _: limited(day="2.50", month=60))
    ledger.times = 3
    allowance = shared.enter(ledger, "a", lambda: NONE, DAY)
    assert (allowance.dollars, allowance.grows) == (Decimal("2.50"), False)
    assert allowance.reason.startswith("the tenant's budget of $2.50 a day is used up; resume the run in the next day")
    assert shared.enter(ledger, "b", lambda: NONE, DAY).grows
    ledger.times = 100
    with pytest.raises(StaleVersion):
        shared.enter(ledger, "c", lambda: NONE, DAY)


@pytest.mark.parametrize(("placement", "dollars"), [("packed", "0.0003"), ("split", "0.0005")])
def test_run_stops_within_allowance_and_continues_equally(placement, dollars):
    plan = make_plan("stop.rounds=8", f"placement.rule={placement}")
    whole = World(plan).finish()
    allowance = shared.Allowance(Decimal(dollars), "used up", grows=False)
    world = World(dataclasses.replace(plan, allowance=allowance))
    stopped = world.finish()
    assert (stopped.status, stopped.reason) == ("stopped", "used up") and 0 < stopped.round < 8
    assert budget.dollars(plan, stopped.meter) <= allowance.dollars
    world.plan = plan
    resumed = world.finish()
    assert (resumed.status, resumed.objects, resumed.final) == ("finished", whole.objects, whole.final)
    # A run waits while other runs hold its dollars.
    held = allowance._replace(dollars=NONE, grows=True)
    assert isinstance(decide(dataclasses.replace(plan, allowance=held), State()), Wait)
