"""Apply an event to the state of a run: `apply(plan, state, event) -> state`, a pure function."""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from marless.coordinator.call_ledger import AttemptCalls
from marless.coordinator.core import budget, events, phase_ends
from marless.coordinator.core.planning import next_placement
from marless.coordinator.core.round_graph import PHASES, warm_after
from marless.coordinator.core.round_nodes import NOTHING, billed, keeps, most_puts
from marless.coordinator.core.state import Plan, Slot, State, WorkItem
from marless.coordinator.placement.placement_rules import PLACEMENTS, Packs
from marless.coordinator.placement.timings import add_observation, whole_core_ms
from marless.coordinator.pricing.bill import LOG_BYTES, Invocation, Meter
from marless.functions.messages.exchange import Answer, Done, Failed, Report
from marless.functions.messages.usage import Usage

# An environment may raise an error of megabytes of text, and every commit of the state would pay for it.
LONGEST_PROBLEM = 400


def apply(plan: Plan, state: State, event: events.Event) -> State:
    """The state after `event`."""
    return _HANDLERS[type(event)](plan, state, event)


def _on_dispatched(plan: Plan, state: State, event: events.Dispatched) -> State:
    slots = dict(state.slots)
    for task in event.tasks:
        old = slots.get(task.work)
        slots[task.work] = Slot(
            item=task.item,
            attempt=task.number,
            timeout_s=task.timeout_s,
            failures=old.failures if old else 0,
            problem=old.problem if old else "",
            ask=event.asks.get(task.work, ""),
        )
    # The previous round's garbage was deleted after the first dispatch of this round.
    garbage = () if state.phase == "round" and state.slots else state.garbage
    return replace(state, slots=slots, garbage=garbage, seconds=state.seconds + event.seconds)


def _on_reported(plan: Plan, state: State, event: events.Reported) -> State:
    """Meters every report, and takes its answer only if the slot still waits for this attempt."""
    state = _with_calls(plan, state, event.attempts)
    slots, answered_items, invocations, lost = dict(state.slots), [], [], []
    packs = state.round_placement.packs if state.round_placement else ()
    for attempt in event.attempts:
        slot = slots.get(attempt.work)
        if slot is not None and (attempt.report.attempt != slot.attempt or not slot.waiting):
            slot = None
        if attempt.report.has_begun:
            invocations.append(_invocation(plan, slot, attempt))
            if not isinstance(attempt.answer, Done):
                lost.append(invocations[-1])
        if slot is None:
            continue
        if isinstance(attempt.answer, Done):
            answered_items.append((slot.item, attempt.report))
        slots[attempt.work] = _after_attempt(slot, attempt, packs)
    meter, lost_use = state.meter.add_invocations(invocations), state.lost_use.add_invocations(lost)
    if plan.platform.bodies_leave_region:
        # Answers to a waiting process leave the region. A local run has no region.
        out = sum(len(attempt.report.body) for attempt in event.attempts if attempt.report.has_begun)
        meter = meter.add_log(LOG_BYTES * len(invocations)).add_transfer(out)
    return _with_durations(plan, replace(state, slots=slots, meter=meter, lost_use=lost_use), answered_items)


def _with_calls(plan: Plan, state: State, attempts: Iterable[events.AttemptEnded]) -> State:
    resources = plan.config.resources
    kept_names = {name for name, resource in resources.items() if resource.keep}
    for attempt in attempts if resources else ():
        calls = AttemptCalls.of(attempt.report, attempt.answer, resources)
        if not calls.use:
            continue
        work = attempt.report.id.removeprefix(f"{plan.run}/")
        ledger, unpaid = state.calls.record(work, calls, kept_names, is_over=not attempt.work)
        state = replace(state.with_calls(ledger), meter=budget.add_calls(plan, state.meter, unpaid))
        if slot := state.slots.get(attempt.work):
            state = replace(state, most_calls=_most_actions(state, slot.item, calls))
    return state


def _most_actions(state: State, item: WorkItem, calls: AttemptCalls) -> dict[str, dict[str, tuple[float, float]]]:
    """The most that tasks of a kind have asked, `item` with these calls among them."""
    before = state.most_calls.get(item.kind, {})
    most = dict(before)
    for name, use in calls.use.items():
        count, ms = before.get(name, (0.0, 0.0))
        most[name] = max(count, (use.count + use.hits) / item.weight), max(ms, use.ms / item.weight)
    return {**state.most_calls, item.kind: most}


def _invocation(plan: Plan, slot: Slot | None, attempt: events.AttemptEnded) -> Invocation:
    # The storage operations of an attempt without an answer are unknown, so the most it can have done is billed.
    unknown = Usage(puts=most_puts(plan), gets=slot.item.gets if slot else 0)
    expected_hits = slot.item.expected_hits if slot else NOTHING
    usage = billed(attempt.answer.usage, expected_hits, attempt.report.attempt) if attempt.answer else unknown
    timeout_s, memory_mb = (slot.timeout_s, slot.item.memory_mb) if slot else (None, None)
    return budget.invocation_of(plan, attempt.report, timeout_s, memory_mb, usage)


def _after_attempt(slot: Slot, attempt: events.AttemptEnded, packs: Packs) -> Slot:
    answer = attempt.answer
    if attempt.report.outcome == "withdrawn":
        return replace(slot, waiting=False)
    if isinstance(answer, Done):
        if answer.usage.calls:  # every commit would pay for their bytes
            answer = replace(answer, call_times=(), usage=replace(answer.usage, calls={}))
        return replace(slot, waiting=False, done=answer, problem="")
    return replace(
        slot,
        waiting=False,
        failures=slot.failures + 1,
        problem=problem(slot, attempt.report, answer, packs),
        not_retryable=isinstance(answer, Failed) and not answer.again,
        diverged=isinstance(answer, Failed) and answer.kind == "not_finite",
    )


def problem(slot: Slot, report: Report, answer: Answer | None, packs: Packs = ()) -> str:
    """Return the reason why an attempt failed, as one line that is short enough for the ledger."""
    return " ".join(_problem(slot, report, answer, packs).split())[:LONGEST_PROBLEM]


def _problem(slot: Slot, report: Report, answer: Answer | None, packs: Packs) -> str:
    if isinstance(answer, Failed):
        return answer.message
    if report.outcome == "timeout":
        has_several = report.function == "learner" and any(len(pack) > 1 for pack in packs)
        remedy = ", or placement.rule=fused for a learner per group" if has_several else ""
        key = f"functions.{report.function}.timeout_s"
        return f"the {report.function} ran longer than its time-out of {slot.timeout_s:g} s ({key}{remedy})"
    return f"the {report.function} {'was throttled' if report.outcome == 'throttled' else 'died'}: {report.detail}"


def _with_durations(plan: Plan, state: State, answered_items: list[tuple[WorkItem, Report]]) -> State:
    """Add the longest durations by kind and unit of weight, without start-up, and the planner's measurements."""
    slowest, timings, peaks = dict(state.slowest), state.timings, dict(state.peaks)
    is_planned = PLACEMENTS[plan.config.placement.rule].planned
    for item, report in answered_items:
        ms = report.duration_ms
        slowest[item.kind] = max(ms / item.weight, slowest.get(item.kind, 0.0))
        if not is_planned or not item.size:
            continue
        # Lambda measures on the function's own share of a vCPU. The other platforms measure on a whole core.
        if not plan.platform.cpu_scaling:
            ms = whole_core_ms(ms, item.memory_mb, plan.prices.lambda_.mb_per_vcpu)
        timings = add_observation(timings, item.kind, item.size, ms, state.placement.style, 1 / item.concurrent_items)
        if report.peak_mb:
            peaks[item.function] = max(report.peak_mb, peaks.get(item.function, 0.0))
    return replace(state, slowest=slowest, timings=timings, peaks=peaks)


def _on_advanced(plan: Plan, state: State, event: events.Advanced) -> State:
    if keeps(plan):
        state = replace(state, warm_rounds=warm_after(plan, state))
    return phase_ends.follow(plan, replace(state, seconds=state.seconds + event.seconds))


def _on_abandoned(plan: Plan, state: State, event: events.Abandoned) -> State:
    return phase_ends.end_with_proposal(plan, _bill_waiting(plan, state), event.event)


def _on_resumed(plan: Plan, state: State, event: events.Resumed) -> State:
    state = _bill_waiting(plan, state)
    slots = {
        work: replace(slot, failures=0, problem="", not_retryable=False, diverged=False)
        for work, slot in state.slots.items()
    }
    going_on = replace(state, status="running", slots=slots)
    if PHASES[state.phase].ends and not (state.status == "running" and _end_reached(plan, state)):
        return phase_ends.start_round(plan, replace(_without_results(going_on), slots={}, reason=""))
    if state.round_placement is not None and not state.slots:
        return phase_ends.start_round(plan, going_on) if state.phase == "round" else going_on
    if state.round_placement is not None and next_placement.placement_changed(plan, state):
        # The round in flight begins again, because its parts no longer fit together.
        return phase_ends.start_round(plan, replace(going_on, slots={}, proposal=None, decision=None))
    return going_on


def _without_results(state: State) -> State:
    before = replace(state, final=(), final_sides={}, final_env_metrics={})
    return replace(before, absolute=(), absolute_sides={}, absolute_env_metrics={})


def _end_reached(plan: Plan, state: State) -> bool:
    """Return whether the run has ended for a reason that still holds: a return, rounds or steps."""
    stop = plan.config.stop
    if state.reason == "return":
        return stop.return_ is not None and state.best is not None and state.best.mean >= stop.return_
    counted = {"rounds": (stop.rounds, state.round), "env_steps": (stop.env_steps, state.env_steps)}
    most, count = counted.get(state.reason, (None, 0))
    return most is not None and count >= most


def _bill_waiting(plan: Plan, state: State) -> State:
    """Bill the waiting attempts at their reservation, because their reports will not arrive."""
    slots = {work: replace(slot, waiting=False) for work, slot in state.slots.items()}
    return replace(_bill_lost(plan, state, state.waiting.values()), slots=slots)


def _bill_lost(plan: Plan, state: State, slots: Iterable[Slot]) -> State:
    """Bill each of these attempts at the most that it may have cost, because none has reported."""
    use = budget.add_lost(plan, Meter(), [(slot.item, slot.timeout_s) for slot in slots])
    return replace(state, meter=state.meter + use, lost_use=state.lost_use + use)


def _on_checkpointed(plan: Plan, state: State, event: events.Checkpointed) -> State:
    durable_keys = tuple(sorted({ref.key for ref in state.durable_refs}))
    following = replace(state.with_calls(state.calls.since(state.round)), checkpointed=durable_keys, saved=state.round)
    freed_keys = set(state.checkpointed) - phase_ends.needed_keys(following)
    return replace(following, garbage=tuple(sorted(set(state.garbage) | freed_keys)))


def _on_stopped(plan: Plan, state: State, event: events.Stopped) -> State:
    return replace(_bill_waiting(plan, state), status=event.status, reason=event.reason)


def _on_committed(plan: Plan, state: State, event: events.Committed) -> State:
    meter = state.meter.add_commit(budget.written_bytes(plan, event.size, event.before))
    return replace(state, meter=meter, item_bytes=event.size)


def _on_lost(plan: Plan, state: State, event: events.Lost) -> State:
    """Count lost attempts as failures, so that retries of such work end."""
    slots = dict(state.slots)
    for work in event.works:
        slot = slots[work]
        name = slot.item.function
        problem = (
            f"the {name} did not report: it timed out, ran out of memory or was never started; its log:"
            f" marless cloud logs --function {name}"
        )
        slots[work] = replace(slot, waiting=False, failures=slot.failures + 1, problem=problem)
    return replace(_bill_lost(plan, state, [slots[work] for work in event.works]), slots=slots)


_HANDLERS: dict[type[events.Event], Callable[[Plan, State, Any], State]] = {
    events.Dispatched: _on_dispatched,
    events.Reported: _on_reported,
    events.Advanced: _on_advanced,
    events.Elapsed: lambda plan, state, event: replace(state, seconds=state.seconds + event.seconds),
    events.Finishing: lambda plan, state, event: replace(state, phase="final", reason=event.reason),
    events.Stopped: _on_stopped,
    events.Resumed: _on_resumed,
    events.Metered: lambda plan, state, event: replace(state, meter=state.meter + event.meter),
    events.Committed: _on_committed,
    events.Checkpointed: _on_checkpointed,
    events.Abandoned: _on_abandoned,
    events.Lost: _on_lost,
}
