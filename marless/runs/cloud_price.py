"""The price of a run of this machine in the cloud, in its cheapest placement there.

So it is the same for any number of slots and any placement here. Operations are counted from the round graph, and
seconds come from the measured tasks.
"""

import dataclasses
from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from marless.coordinator.config.defaults import cheapest_in_cloud
from marless.coordinator.core import budget
from marless.coordinator.core.planning.next_placement import terms, usual_layout
from marless.coordinator.core.state import Plan, RoundLine, State
from marless.coordinator.drive.attempt_record import AttemptRecord
from marless.coordinator.drive.ledger_items import StateEncoder
from marless.coordinator.placement import planner
from marless.coordinator.placement.coordination_cost import STANDARD
from marless.coordinator.placement.timings import Timings, add_observation
from marless.coordinator.platform import Platform
from marless.coordinator.pricing.bill import LOG_BYTES, Charge, Meter, charge_of, write_units
from marless.functions.messages.usage import Usage

# Functions that an account may run at once unless AWS was asked for more (Lambda developer guide, "Lambda quotas").
CONCURRENCY = 1000
# Commits besides rounds: for the begin, the task's description, the first networks and two last evaluations.
_COMMITS = 5


def cloud_dollars(
    plan: Plan, state: State, lines: Sequence[RoundLine], records: Sequence[AttemptRecord]
) -> float | None:
    """Dollars of the run in the cloud, driven from outside, with all functions started once. Waiting for storage is
    left out.

    None for a run in the cloud, because its bill is the price, and if a kind of task is unmeasured.
    """
    timings = _timings(records)
    if plan.platform.latency or not lines or not timings:
        return None
    plan = _in_cloud(plan)
    state = _with_item_bytes(plan, state, lines)
    dollars, functions = 0.0, {"actor", "evaluator", "learner"}
    try:
        for rollouts, rounds in Counter(line.rollouts for line in lines).items():
            sized = replace(state, controller=replace(state.controller, rollouts=rollouts))
            best = planner.choose(planner.forecasts(usual_layout(plan, sized), timings, terms(plan, sized)))
            dollars += rounds * best.dollars
            functions |= {*best.longest_s}
    except planner.Unmeasured:
        return None
    return dollars + float(budget.dollars(plan, _setup_and_evaluations(plan, state, functions)))


def _in_cloud(plan: Plan) -> Plan:
    platform = Platform(concurrency=CONCURRENCY).on_lambda()
    return dataclasses.replace(plan, config=cheapest_in_cloud(plan.config), platform=platform)


def _timings(records: Sequence[AttemptRecord]) -> Timings:
    answered = [record for record in records if record.outcome == "answered"]
    counts = Counter((record.round, record.kind) for record in answered)
    timings: Timings = {}
    for record in answered:
        weight = 1 / counts[record.round, record.kind]
        timings = add_observation(timings, record.kind, record.size, record.duration_ms, weight=weight)
    return timings


def _with_item_bytes(plan: Plan, state: State, lines: Sequence[RoundLine]) -> State:
    """The state with the size of its item between two tasks of several rounds, while the run trained."""
    training = replace(state, slots={}, final=(), absolute=(), lines=(*lines[-plan.config.placement.chain :],))
    return replace(state, item_bytes=budget.item_bytes(plan, len(StateEncoder(training).encode(training))))


def _setup_and_evaluations(plan: Plan, state: State, functions: set[str]) -> Meter:
    """The use outside rounds: evaluations as measured, and one start of each function."""
    evaluator = charge_of(state.meter, "evaluator")
    init_mb_ms = evaluator.init_ms * plan.size_of("evaluator").memory_mb
    warm = replace(evaluator, mb_ms=evaluator.mb_ms - init_mb_ms, init_ms=0)
    meter = Meter(
        actions=state.meter.actions,
        puts=2,  # the first policies, and the rest of the learner's state
        gets=evaluator.invocations,
        write_units=_COMMITS * write_units(state.item_bytes),
        log_bytes=LOG_BYTES * (evaluator.invocations + 2),
    )
    for name, charge in (("evaluator", warm), ("actor", Charge(invocations=1)), ("learner", Charge(invocations=1))):
        meter = meter.add_charge(name, charge)
    for name in functions:
        started = Meter().add_invocation(
            name, plan.size_of(name).memory_mb, 0.0, STANDARD.init, Usage(), budget.per_vcpu(plan)
        )
        meter += started.add_charge(name, Charge(invocations=-1))
    return meter
