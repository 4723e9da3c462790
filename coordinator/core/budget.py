"""The budget: how long an attempt may run, and whether a set of attempts fits under the cap before it is dispatched.

Also the coordinator's own use: loads of the state, and turns on Lambda."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import ROUND_UP, Decimal
from fractions import Fraction

from marless.coordinator.core.round_graph import LOOKS, ending, round_gates
from marless.coordinator.core.round_nodes import Node, most_puts
from marless.coordinator.core.rounds import checkpointed_objects, fragments, most_works
from marless.coordinator.core.state import Plan, State, WorkItem
from marless.coordinator.placement.message_size import request_bytes
from marless.coordinator.pricing.bill import CLOUD_NOTE, LOG_BYTES, NOTE, Bill, Invocation, Meter, bill, invocation
from marless.functions.messages.exchange import Report
from marless.functions.messages.message import Record
from marless.functions.messages.usage import CallUse, Usage

# Under a cap, all attempts of a kind without a measured duration may take a tenth of it together. Later, each may take
# ten times the longest measured duration.
UNSEEN_SHARE = Decimal("0.1")
SLACK = 10.0
# And ask so many times the most actions so far, for so many times the seconds.
ASKED_SLACK = 2.0
LEAST_S = 1.0
# A higher cap raises the cost of an attempt by less, so a few steps find a cap that is high enough.
_STEPS_TO_CAP = 100
# Ledger writes, and as many reads, until the next decision and at the end of a run: far above actual use.
LEDGER_BYTES = 64 * 1024
# A return and a task's slot as JSON text, at most, and how many of the writes to come hold them.
RETURN_BYTES = 25
SLOT_BYTES = 1536
WRITES = 3
# A line of metrics, and an agent's tables.
LINE_BYTES = 4096
TABLE_BYTES = 16 * 1024
ABSOLUTE_WRITES = 2
# Turns of a coordinator on Lambda, and their seconds, until the next decision and at the end. They are far above actual
# use. The most bytes of a set of reports, without the text of failures.
TURNS, TURN_S = 4, 5.0
REPORT_BYTES = 2048
# Bytes of a table's item without its body and the run's name. They hold names of attributes, version, time, the
# writer's mark, and names of item and tenant. Source: DynamoDB developer guide, "DynamoDB item sizes and formats". The
# mark is padded so that this number is exact.
ITEM_OVERHEAD_BYTES = 100


def allowed_s(plan: Plan, state: State, node: Node) -> float:
    """Return the time limit of the task's next attempt, in seconds.

    Without a cap, as the user set. Under a cap an attempt reserves its time-out, so the limit stays near the durations
    of such tasks. Every failure doubles it. Time-outs never change a weight, only when an attempt is given up.
    """
    item = node.item
    limit = plan.size_of(item.function).timeout_s
    if (cap := _cap(plan)) is None:
        return limit
    slot = state.slots.get(node.name)
    patience = 2.0 ** (slot.failures if slot else 0)
    share = cap * UNSEEN_SHARE / item.concurrent_items / _dollars_per_second(plan, item.memory_mb)
    expected_s = max(LEAST_S, float(share))
    if item.kind in state.slowest:
        measured_s = max(LEAST_S, SLACK * state.slowest[item.kind] * item.weight / 1000)
        if item.kind in ("sample", "whole") and fragments(plan, state):
            # Another process may have to play the unfinished episodes again.
            measured_s *= 1 + state.env_spec.horizon / (plan.config.actors.rollout_length or 1)
        # The evaluations that end a run are reserved before any is measured: their reserve must not grow afterwards.
        expected_s = min(measured_s, expected_s) if item.kind == "evaluate" else measured_s
    return min(limit, round(expected_s * patience, 3))


def _cap(plan: Plan) -> Decimal | None:
    """Return the bill that the run may reach by its own cap and by the tenant's budget, None without limit."""
    caps = [] if plan.config.stop.dollars is None else [Decimal(str(plan.config.stop.dollars))]
    return min([*caps, *([plan.allowance.dollars] if plan.allowance else [])], default=None)


def affordable(plan: Plan, state: State, nodes: list[Node]) -> bool:
    """Return whether the bill stays under the cap if waiting attempts, `nodes` and final evaluations cost their most.

    Always true without a cap.
    """
    cap = plan.config.stop.dollars
    return cap is None or most_dollars(plan, state, nodes) <= Decimal(str(cap))


def is_granted(plan: Plan, state: State, nodes: list[Node]) -> bool:
    """Return whether the bill stays within the tenant's budget if the attempts of `affordable` cost their most."""
    return plan.allowance is None or most_dollars(plan, state, nodes) <= plan.allowance.dollars


def least_cap(plan: Plan, state: State, nodes: list[Node]) -> float:
    """Return a cap of two digits that makes `nodes` `affordable`, hardly above the least such cap.

    Under a higher cap an attempt that was not measured yet may take longer, and cost more.
    """
    cap = Decimal(str(plan.config.stop.dollars))
    for _ in range(_STEPS_TO_CAP):
        most = most_dollars(plan.limited(float(cap)), state, nodes)
        if most <= cap:
            break
        cap = most.quantize(Decimal(1).scaleb(most.adjusted() - 1), ROUND_UP)
    return float(cap)


def most_dollars(plan: Plan, state: State, nodes: list[Node]) -> Decimal:
    """The bill if all waiting attempts, `nodes` and the final evaluations cost their most, under the plan's cap."""
    at_most = _waiting(state) + [(node.item, allowed_s(plan, state, node)) for node in [*nodes, *ending(plan, state)]]
    meter = add_lost(plan, state.meter, at_most)
    meter = _with_calls(plan, state, meter, [item for item, _ in at_most])
    meter = _with_turns(plan, state, meter, len(nodes))
    meter = _with_events(plan, state, meter, [item for item, _ in at_most])
    size = _ledger_bytes(plan, state)
    meter = meter.add_commit(size).add_load(size).add_stored(Usage(puts=checkpointed_objects(plan, state)))
    return dollars(plan, meter)


def kept_for_end(plan: Plan, state: State) -> Decimal:
    """Return the dollars that a capped run keeps for its final evaluations: their highest cost, until they begin."""
    if plan.config.stop.dollars is None:
        return Decimal(0)
    at_most = [(node.item, allowed_s(plan, state, node)) for node in ending(plan, state)]
    return dollars(plan, _with_calls(plan, state, add_lost(plan, Meter(), at_most), [item for item, _ in at_most]))


def _with_turns(plan: Plan, state: State, meter: Meter, new_tasks: int) -> Meter:
    """Add the turns of a coordinator on Lambda until the next decision and at the end, and its reads of reports."""
    if not plan.platform.coordinator_mb:
        return meter
    turn = Meter().add_invocation(
        "coordinator", plan.platform.coordinator_mb, TURN_S * 1000, plan.platform.init_limit_ms, Usage(), per_vcpu(plan)
    )
    report = Meter().add_commit(REPORT_BYTES).add_load(REPORT_BYTES).add_stored(Usage(gets=1))
    # The last answer of tasks that others sum over takes a separate turn, and so do the sums.
    playing = round_gates(plan, state)[0] if state.phase == "round" else []
    turns = TURNS + 2 * sum(bool(gate.after) for gate in playing)
    return meter + turn * turns + report * (new_tasks + len(state.waiting))


def _with_calls(plan: Plan, state: State, meter: Meter, items: list[WorkItem]) -> Meter:
    """Add the resource calls that `items` may make: a multiple of the most calls by tasks of their kind so far."""
    for item in items if state.most_calls else ():
        for name, (count, ms) in state.most_calls.get(item.kind, {}).items():
            if resource := plan.config.resources.get(name):
                most = CallUse(
                    count=math.ceil(ASKED_SLACK * count * item.weight), ms=math.ceil(ASKED_SLACK * ms * item.weight)
                )
                meter = meter.add_calls(name, most, resource.memory_mb, per_vcpu(plan))
    return meter


def add_calls(plan: Plan, meter: Meter, uses: Mapping[str, CallUse]) -> Meter:
    """Add calls of resources, by name, to the meter. If messages leave the region, add their log lines."""
    for name, use in uses.items():
        meter = meter.add_calls(name, use, plan.config.resources[name].memory_mb, per_vcpu(plan))
        if plan.platform.bodies_leave_region:
            meter = meter.add_log(LOG_BYTES * use.count)
    return meter


def _with_events(plan: Plan, state: State, meter: Meter, items: list[WorkItem]) -> Meter:
    """The meter with the largest event of each of `items`, if the coordinator is a function."""
    if not plan.platform.coordinator_mb:
        return meter
    agents = len(state.team.groups) if state.team else 0
    for gets, count in Counter(item.gets for item in items).items():
        meter = meter + Meter().add_event(math.ceil(request_bytes(gets, plan.config.actors.rollouts, agents))) * count
    return meter


def with_waiting(plan: Plan, state: State) -> Meter:
    """The meter with the attempts that no report has ended, each at the most that it may have cost."""
    return add_lost(plan, state.meter, _waiting(state))


def _waiting(state: State) -> list[tuple[WorkItem, float]]:
    return [(slot.item, slot.timeout_s) for slot in state.waiting.values()]


def add_lost(plan: Plan, meter: Meter, attempts: list[tuple[WorkItem, float]]) -> Meter:
    """The meter with lost attempts, items and their time-outs in seconds, each at the most that it may have cost."""
    scaling, limit_ms = per_vcpu(plan), plan.platform.init_limit_ms
    alike = Counter((item.function, item.memory_mb, timeout_s, item.gets) for item, timeout_s in attempts)
    for (function, memory_mb, timeout_s, gets), count in alike.items():
        most_use = Meter().add_lost(function, memory_mb, timeout_s, most_puts(plan), gets, scaling, limit_ms)
        meter = meter + most_use * count
    return meter


def invocation_of(
    plan: Plan, report: Report, timeout_s: float | None, memory_mb: int | None, usage: Usage
) -> Invocation:
    """Return a reported attempt as billed. Once its slot stops waiting, `timeout_s` and `memory_mb` are None.

    Workers of this machine are killed at the time-out, so no more is billed, however late the kill was. Durations that
    a platform measured are billed unchanged.
    """
    init_ms, duration_ms = report.init_ms, report.duration_ms
    # Most attempts are far below the limit, and need no exact arithmetic.
    counts = plan.platform.startup_counts_to_timeout
    if timeout_s is not None and counts and init_ms + duration_ms > 1000 * timeout_s - 2:
        limit_ms = Fraction(str(timeout_s)) * 1000 + plan.platform.init_limit_ms
        init_ms = min(init_ms, math.floor(limit_ms))
        duration_ms = min(duration_ms, math.floor(limit_ms - Fraction(str(init_ms))))
    memory = memory_mb or plan.size_of(report.function).memory_mb
    return invocation(report.function, memory, duration_ms, init_ms, usage, per_vcpu(plan))


def per_vcpu(plan: Plan) -> int | None:
    """Return the MB of memory of one vCPU, to scale durations, or None if the platform itself measures."""
    return plan.prices.lambda_.mb_per_vcpu if plan.platform.cpu_scaling else None


def item_bytes(plan: Plan, body: int) -> int:
    """Return the bytes of a ledger's item with a body of `body` bytes. Without a table this is the body alone."""
    return body + ITEM_OVERHEAD_BYTES + len(plan.run) if plan.platform.items_padded else body


def written_bytes(plan: Plan, body: int, before: int) -> int:
    """The billed bytes of a body that replaces one of `before` bytes: a table bills the larger item."""
    return item_bytes(plan, max(body, before) if plan.platform.items_padded else body)


def load_meter(plan: Plan, record: Record | None) -> Meter:
    """The use of having read an item of the ledger, or of having found none."""
    return Meter().add_load(item_bytes(plan, len(record.body) if record else 0))


def turn_meter(plan: Plan, duration_ms: float, init_ms: float, loads: Iterable[int]) -> Meter:
    """Return the use of one turn of the coordinator on Lambda: unbilled milliseconds, and reads of `loads` bytes."""
    memory_and_times = plan.platform.coordinator_mb, duration_ms, init_ms
    meter = Meter().add_invocation("coordinator", *memory_and_times, Usage(), per_vcpu(plan)).add_log(LOG_BYTES)
    return sum((Meter().add_load(item_bytes(plan, size)) for size in loads), meter)


def bill_of(plan: Plan, meter: Meter) -> Bill:
    """Return the bill of `meter` at the plan's prices. Its note says where the durations were measured."""
    pricing, note = plan.config.pricing, NOTE if plan.platform.cpu_scaling else CLOUD_NOTE
    return bill(meter, plan.prices, pricing.architecture, pricing.storage, note)


def dollars(plan: Plan, meter: Meter) -> Decimal:
    """Return the meter's cost at the plan's prices, in dollars."""
    return bill_of(plan, meter).total


def _ledger_bytes(plan: Plan, state: State) -> int:
    """The most that the ledger may take until the next decision and for the end of the run."""
    horizon, actors = state.spec.horizon if state.spec else 1, plan.config.actors
    episodes, final_episodes, absolute_episodes = plan.config.evaluation_sizes(horizon)
    sampled_episodes = plan.config.actors.rollouts * actors.num_envs * -(-(actors.rollout_length or horizon) // horizon)
    returns = WRITES * (sampled_episodes + episodes + final_episodes) + ABSOLUTE_WRITES * absolute_episodes
    slots = len(state.slots) + plan.config.actors.rollouts + most_works(plan) * len(state.groups)
    lines = state.round_placement.rounds_per_task - 1 if state.round_placement else 0
    records = WRITES * (SLOT_BYTES * slots + LINE_BYTES * lines)
    return LEDGER_BYTES + RETURN_BYTES * returns + records + _proposal_bytes(plan, state)


def _proposal_bytes(plan: Plan, state: State) -> int:
    """Return the bytes that a proposed team adds to every write until the round ends. They hold the learners' tables,
    and the trial's returns of each arm with their differences."""
    if state.proposal is None:
        return 0
    tables = TABLE_BYTES * len(state.env_spec.agents)
    return (LOOKS + 2) * tables + 3 * RETURN_BYTES * LOOKS * plan.config.sharing.trial_episodes


def _dollars_per_second(plan: Plan, memory_mb: int) -> Decimal:
    return plan.prices.gb_second(plan.config.pricing.architecture) * max(memory_mb, per_vcpu(plan) or 0) / 1024
