"""The coordinator's cost per round, by its placement."""

from dataclasses import replace as changed

from simulated import World, make_plan, on_lambda, promising

from marless.coordinator.core.planning import next_placement
from marless.coordinator.placement.coordination_cost import (
    EMULATED,
    LOCAL,
    STANDARD,
    CoordinationCost,
    detached,
    outside,
    reports,
)
from marless.coordinator.pricing.bill import LOG_BYTES, Charge, Meter


def test_a_process_beside_its_functions_adds_nothing():
    assert LOCAL.wave_meter(100) == Meter() and not LOCAL.outside


def test_deployed_functions_log_and_answer_to_the_outside():
    there = outside(STANDARD)
    assert there.wave_meter(7) == Meter(log_bytes=7 * LOG_BYTES)
    assert there.outside and there.wave_s == STANDARD.attended_wave_s


def test_turn_is_invocation_that_loads_state_and_reports():
    # A turn of 110 ms at 1,024 MB: 40 of work, 6 x 5 for the table, 20 for headers, 15 for handing over: 105. Manifest
    # (4,000 bytes), lease, topmost set: a unit each. The state of 9,000 bytes: three.
    latency = changed(STANDARD, turn=40, ledger=5, get=20, hand_over=15)
    there = detached(latency, ledger_bytes=9000, memory_mb=1024)
    turn = Meter(
        coordinator=Charge(invocations=1, billed_ms=105, mb_ms=1024 * 105), read_units=3 + 3, log_bytes=LOG_BYTES
    )
    assert there.wave_meter(3) == turn + reports(3) + Meter(log_bytes=3 * LOG_BYTES)
    # The line of a round, compressed: a unit.
    assert there.line == Meter(write_units=1)
    assert not there.outside


def test_a_plan_says_where_its_coordinator_is():
    plan = make_plan("stop.rounds=1")
    state = World(plan).finish()
    assert next_placement.terms(plan, state).coordination_cost == LOCAL
    driven = on_lambda(plan, cpu_scaling=False)
    gone = promising(driven, can_inline=False)
    assert next_placement.terms(driven, state).coordination_cost == outside(STANDARD)
    assert next_placement.terms(gone, state).coordination_cost == detached(STANDARD, state.item_bytes)
    assert next_placement.terms(promising(driven, latency="emulated"), state).coordination_cost == outside(EMULATED)
    assert (next_placement.terms(gone, state).fixed, next_placement.terms(gone, state).can_inline) == (True, False)
    assert isinstance(next_placement.coordination(plan, state), CoordinationCost)
