"""apply(plan, state, event) -> state: what every event does to a run, and where a phase and a round end; pure."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec.structs import replace

from coordinator.core import budget, league_matches, opponents, planning
from coordinator.core.compatibility import incompatibility
from coordinator.core.controller import (
    ControllerState,
    Decision,
    Proposal,
    accept_proposal,
    plan_first_round,
    plan_next_round,
    reject_proposal,
)
from coordinator.core.events import (
    Abandoned,
    Advanced,
    Checkpointed,
    Committed,
    CompletionsBilled,
    CoordinatorBilled,
    Dispatched,
    Ended,
    Event,
    Finishing,
    Loaded,
    Lost,
    Persisted,
    Repeated,
    Reported,
    Resumed,
    Stopped,
)
from coordinator.core.planning import round_price
from coordinator.core.round_graph import LOOKS, MOST_PUTS, PHASES, served_after
from coordinator.core.round_records import (
    RoundReplies,
    env_metrics_of,
    evaluation_in_flight,
    replies_by_round,
    returns_of,
    round_lines,
    side_returns_of,
)
from coordinator.core.rounds import remember_rounds, rollout_steps, unfinished_episodes
from coordinator.core.sides import learning
from coordinator.core.state import Best, Evaluated, Phase, Plan, Slot, State, WorkItem
from coordinator.core.state_location import (
    learner_schedule,
    locations_after_learning,
    locations_after_regrouping,
    spec_of,
)
from coordinator.core.warm_functions import NOTHING, billed, keeps
from coordinator.placement.rules import PLACEMENTS
from coordinator.placement.timings import add_observation, whole_core_ms
from coordinator.pricing.bill import LOG_BYTES, Invocation
from coordinator.rules.trial import judge, schedule
from functions import keys
from functions.contract import (
    Answer,
    DescribeReply,
    Done,
    Failed,
    Ref,
    Report,
    Usage,
)
from functions.data import dataset
from functions.environments.base import EnvSpec

# An environment may raise an error of megabytes of text, and every commit of the state would pay for it.
LONGEST_PROBLEM = 400


def apply(plan: Plan, state: State, event: Event) -> State:
    """The state after `event`."""
    return _HANDLERS[type(event)](plan, state, event)


def _on_dispatched(plan: Plan, state: State, event: Dispatched) -> State:
    slots = dict(state.slots)
    for task in event.tasks:
        old = slots.get(task.work)
        slots[task.work] = Slot(
            item=task.item,
            attempt=task.request.attempt,
            timeout_s=task.request.timeout_s,
            failures=old.failures if old else 0,
        )
    return replace(state, slots=slots, seconds=state.seconds + event.seconds)


def _on_reported(plan: Plan, state: State, event: Reported) -> State:
    """Meters every report, and takes its answer only if the slot still waits for this attempt."""
    slots, answered, invocations = dict(state.slots), [], []
    for ended in event.ended:
        slot = slots.get(ended.work)
        if slot is not None and (ended.report.attempt != slot.attempt or not slot.waiting):
            slot = None
        # A throttled attempt never ran and costs nothing.
        if ended.report.outcome != "throttled":
            invocations.append(_invocation(plan, slot, ended))
        if slot is None:
            continue
        if isinstance(ended.answer, Done):
            answered.append((slot.item, ended.report))
        slots[ended.work] = _after_attempt(slot, ended)
    meter = state.meter.add_invocations(invocations)
    if plan.platform.bodies_leave_region:
        # Answers to a waiting process leave the region; a local run has no region.
        out = sum(len(ended.report.body) for ended in event.ended if ended.report.outcome != "throttled")
        meter = meter.add_log(LOG_BYTES * len(invocations)).add_transfer(out)
    return _with_durations(plan, replace(state, slots=slots, meter=meter), answered)


def _invocation(plan: Plan, slot: Slot | None, ended: Ended) -> Invocation:
    """The attempt on the bill; `slot` is the one that waits for it, if any."""
    # The storage operations of an attempt without an answer are unknown, so the most it can have done is billed.
    unknown = Usage(puts=MOST_PUTS, gets=slot.item.gets if slot else 0)
    kept = slot.item.kept if slot else NOTHING
    usage = billed(ended.answer.usage, kept, ended.report.attempt) if ended.answer else unknown
    timeout_s, memory_mb = (slot.timeout_s, slot.item.memory_mb) if slot else (None, None)
    return budget.invocation_of(plan, ended.report, timeout_s, memory_mb, usage)


def _after_attempt(slot: Slot, ended: Ended) -> Slot:
    """The slot with the end of its attempt."""
    answer = ended.answer
    if isinstance(answer, Done):
        return replace(slot, waiting=False, done=answer)
    return replace(
        slot,
        waiting=False,
        failures=slot.failures + 1,
        problem=problem(slot, ended.report, answer),
        not_retryable=isinstance(answer, Failed) and not answer.again,
        diverged=isinstance(answer, Failed) and answer.kind == "not_finite",
    )


def problem(slot: Slot, report: Report, answer: Answer | None) -> str:
    """How an attempt failed, as one line that is short enough for the ledger."""
    return " ".join(_problem(slot, report, answer).split())[:LONGEST_PROBLEM]


def _problem(slot: Slot, report: Report, answer: Answer | None) -> str:
    if isinstance(answer, Failed):
        return answer.message
    if report.outcome == "timeout":
        key = f"functions.{report.function}.timeout_s"
        return f"the {report.function} ran longer than its time-out of {slot.timeout_s:g} s ({key})"
    return f"the {report.function} {'was throttled' if report.outcome == 'throttled' else 'died'}: {report.detail}"


def _with_durations(plan: Plan, state: State, answered: list[tuple[WorkItem, Report]]) -> State:
    """With the longest durations by kind and unit of weight, without start-up, and with the measurements of the
    placement planner, which only the rule `auto` uses."""
    slowest, timings, peaks = dict(state.slowest), state.timings, dict(state.peaks)
    planned = PLACEMENTS[plan.config.placement.rule].planned
    for item, report in answered:
        ms = report.duration_ms
        slowest[item.kind] = max(ms / item.weight, slowest.get(item.kind, 0.0))
        if not planned or not item.size:
            continue
        # Lambda measures on the function's own share of a vCPU; the other platforms measure on a whole core.
        if not plan.platform.cpu_scaling:
            ms = whole_core_ms(ms, item.memory_mb, plan.prices.lambda_.mb_per_vcpu)
        timings = add_observation(timings, item.kind, item.size, ms, state.placement.style, 1 / item.peers)
        if report.peak_mb:
            peaks[item.function] = max(report.peak_mb, peaks.get(item.function, 0.0))
    return replace(state, slowest=slowest, timings=timings, peaks=peaks)


def _on_advanced(plan: Plan, state: State, event: Advanced) -> State:
    if keeps(plan):
        state = replace(state, served=served_after(plan, state))
    return _FOLLOWING[state.phase](plan, replace(state, seconds=state.seconds + event.seconds))


def _after_describe(plan: Plan, state: State) -> State:
    reply = _done(state, "describe").reply
    assert isinstance(reply, DescribeReply)
    if problem := incompatibility(plan.config, reply.spec, plan.inputs.opponents) or _misrecorded(plan, reply.spec):
        return replace(state, slots={}, spec=reply.spec, status="failed", reason=problem)
    team = opponents.initial_team(plan.config, reply.spec, plan.inputs.opponents)
    return replace(state, phase="initialise", slots={}, spec=reply.spec, team=team)


def _misrecorded(plan: Plan, spec: EnvSpec) -> str:
    """Why the run cannot learn from its dataset; '' where it can, or has none."""
    if plan.inputs.dataset is None or plan.inputs.dataset.key == dataset.key_of(spec):
        return ""
    return "offline.dataset: its dataset.json describes other agents, sizes or horizons than the task has now"


def _after_initialise(plan: Plan, state: State) -> State:
    objects = _done(state, "initialise").objects
    names = {f"{part}/{keys.group_name(group)}" for part in spec_of(plan).parts for group in state.groups}
    parts = {name: 0 if name.startswith("policy/") else 1 for name in sorted(names)}
    refs: tuple[Ref, ...] = (objects["policies"], objects["learner"])
    if plan.inputs.opponents and state.team:
        parts |= dict.fromkeys(opponents.parts(state.team, plan.inputs.opponents), len(refs))
        refs = (*refs, plan.inputs.opponents.policies)
    controller = plan_first_round(plan.config, len(state.env_spec.agents), round_price(plan, state))
    state = replace(state, slots={}, objects=refs, parts=parts, controller=controller)
    assert state.team is not None
    state = replace(state, league=league_matches.first(plan.config, state.env_spec, state.team, state.policies))
    return _start_round(plan, state)


def _start_round(plan: Plan, state: State) -> State:
    """The start of the coming round, with its placement chosen."""
    return replace(state, phase="sample", round_placement=planning.place_round(plan, state))


def _after_sample(plan: Plan, state: State) -> State:
    """Continues with learning, unless the policies that sampled have reached the target."""
    evaluation = evaluation_in_flight(plan, state)
    if evaluation is None:
        return _start_learning(plan, replace(state, garbage=()))
    state = _with_best(state, evaluation)
    target = plan.config.stop.return_
    if target is not None and evaluation.mean >= target:
        garbage = tuple(sorted({*state.garbage, *_round_keys(state)}))
        return replace(state, phase="final", reason="return", slots={}, garbage=garbage)
    return _start_learning(plan, state)


def _start_learning(plan: Plan, state: State) -> State:
    """Continues with learning, or after it where the sampling functions have learned too."""
    learning = replace(state, phase="learn")
    return learning if learner_schedule(plan, state) else _end_learning(plan, learning)


def _with_best(state: State, evaluation: Evaluated, lead: float = 0.0) -> State:
    """With these policies as the best unless the former best's return is higher by at least `lead`; objects that only
    the former best needed become garbage.

    Where several sides learn, the newest policies are the best: a high return may be due to weak opponents.
    """
    before = state.best
    assert state.env_spec is not None and state.team is not None
    contested = len(learning(state.env_spec, state.team)) > 1
    if before is not None and evaluation.mean <= before.mean - lead and not contested:
        return replace(state, garbage=())
    best = Best(round=evaluation.round, mean=evaluation.mean, team=state.team, policies=state.policies)
    following = replace(state, best=best)
    passed = {ref.key for ref in before.policies} if before else set()
    return replace(following, garbage=tuple(sorted(passed - _needed_keys(following))))


def _round_keys(state: State) -> set[str]:
    """The keys of the objects that the tasks of the round in flight stored."""
    return {ref.key for slot in state.slots.values() if slot.done for ref in slot.done.objects.values()}


def _end_learning(plan: Plan, state: State) -> State:
    """Every learner has answered: the round is over unless the controller proposes another team."""
    rounds = replies_by_round(plan, state)
    decisions = _decide_on(plan, state, rounds)
    last = decisions[-1]
    if last.proposal is None:
        return _end_rounds(plan, state, rounds, decisions, last.event)
    return replace(state, phase="regroup", proposal=last.proposal, decision=replace(last, proposal=None))


def _decide_on(plan: Plan, state: State, rounds: list[RoundReplies]) -> list[Decision]:
    """The controller's decisions on the rounds of one function, one after the other."""
    config = plan.config
    assert state.team is not None
    price = round_price(plan, state)
    decisions, controller = [], state.controller
    for index, round_ in enumerate(rounds):
        number = state.round + index
        decisions.append(plan_next_round(config, state.env_spec, state.team, controller, round_.signals, number, price))
        controller = decisions[-1].controller
    return decisions


def _after_regroup(plan: Plan, state: State) -> State:
    """The networks of the proposed team exist: continues with its trial, if there is one."""
    proposal = state.proposal
    assert proposal is not None
    objects, parts = locations_after_regrouping(plan, state)
    state = replace(state, proposal=replace(proposal, objects=objects, parts=parts))
    if proposal.margin is None:
        return _end_with_proposal(plan, state, _ACCEPTED[proposal.kind])
    return replace(state, phase="trial")


def _after_trial(plan: Plan, state: State) -> State:
    """Accepts or rejects the proposed team, or continues with more episodes."""
    proposal, sharing = state.proposal, plan.config.sharing
    assert proposal is not None and proposal.margin is not None
    new, old = (np.array(returns_of(state, f"trial/{arm}/{proposal.look:03d}")) for arm in ("new", "old"))
    differences = (*proposal.differences, *(new - old).tolist())
    look = proposal.look + 1
    looks = len(schedule(sharing.trial_episodes, LOOKS))
    verdict = judge(np.array(differences), proposal.margin, sharing.error, look, looks)
    state = replace(state, proposal=replace(proposal, differences=differences, look=look))
    if verdict == "more":
        return state
    return _end_with_proposal(plan, state, _ACCEPTED[proposal.kind] if verdict == "commit" else "rejected")


_ACCEPTED = {"share": "shared", "split": "split"}


def _on_abandoned(plan: Plan, state: State, event: Abandoned) -> State:
    """The round ends with its present team."""
    return _end_with_proposal(plan, _bill_waiting(plan, state), event.event)


def _end_with_proposal(plan: Plan, state: State, event: str) -> State:
    """Ends the round with its proposal accepted or not. Only a round that is alone in its function has one."""
    assert state.decision is not None
    return _end_rounds(plan, state, replies_by_round(plan, state), [state.decision], event)


def _end_rounds(plan: Plan, state: State, rounds: list[RoundReplies], decisions: list[Decision], event: str) -> State:
    """Ends the rounds: new objects, lines of metrics, and the objects that have become garbage."""
    state = _with_ratings(plan, state, rounds)
    lines = round_lines(plan, state, rounds, decisions, event)
    (objects, parts), team, controller = locations_after_learning(plan, state), state.team, decisions[-1].controller
    if state.proposal is not None and event in _ACCEPTED.values():
        proposal = state.proposal
        objects, parts, team, controller = (
            proposal.objects,
            proposal.parts,
            proposal.team,
            accept_proposal(controller, proposal),
        )
    elif state.proposal is not None:
        controller = _after_rejection(plan, state, state.proposal, controller)
    following = replace(
        state,
        round=lines[-1].round,
        env_steps=lines[-1].env_steps,
        objects=objects,
        parts=parts,
        team=team,
        controller=controller,
        proposal=None,
        decision=None,
        slots={},
        lines=lines,
        past=remember_rounds(plan, state, len(rounds)),
        unfinished=unfinished_episodes(plan, state),
    )
    if following.league is not None and following.team is not None:
        added = league_matches.add_checkpoint(
            plan.config.league, following.league, following.round, following.team, following.policies
        )
        following = replace(following, league=added)
    before = {ref.key for ref in state.durable_refs} | _round_keys(state) | set(state.garbage)
    following = replace(following, garbage=tuple(sorted(before - _needed_keys(following))))
    return _start_round(plan, following)


def _with_ratings(plan: Plan, state: State, rounds: list[RoundReplies]) -> State:
    """With the ratings that the round's matches give."""
    if state.league is None:
        return state
    played = league_matches.matches(plan.config, state.env_spec, state.league, state.round, state.controller.rollouts)
    return replace(state, league=league_matches.rate(state.league, played, rounds[0].samples))


def _after_rejection(plan: Plan, state: State, proposal: Proposal, controller: ControllerState) -> ControllerState:
    """The controller with the list price of what the proposal has cost: both teams played equally many episodes."""
    steps = 2 * len(proposal.differences) * state.env_spec.horizon
    return reject_proposal(controller, round_price(plan, state).overhead, steps / rollout_steps(plan, state))


def _needed_keys(state: State) -> set[str]:
    """Keys that the state or the last checkpoint refer to."""
    return {ref.key for ref in state.durable_refs} | set(state.checkpointed)


def _after_final(plan: Plan, state: State) -> State:
    """Continues with the absolute metric; the final policies are candidates for the best, too.

    The best of many evaluations is the best in part by chance, the return of the final policies is not, so the best are
    only those of an evaluation that is ahead by a standard error (Breiman, Friedman, Olshen and Stone, "Classification
    and Regression Trees", 1984, choose a tree so). Not after `stop.return`: there an evaluation ended the run.
    """
    returns = returns_of(state, "final/")
    final = Evaluated(round=state.round, env_steps=state.env_steps, returns=returns)
    ranked = _with_best(state, final, 0.0 if state.reason == "return" else _error_of_difference(plan, final))
    garbage = tuple(sorted({*state.garbage, *ranked.garbage}))
    return replace(
        ranked,
        phase="absolute",
        slots={},
        final=returns,
        final_sides=side_returns_of(state, "final/"),
        final_env_metrics=env_metrics_of(state, "final/"),
        garbage=garbage,
    )


def _error_of_difference(plan: Plan, final: Evaluated) -> float:
    """The standard error of the difference between an evaluation's mean and that of the final policies."""
    variance = float(np.var(final.returns, ddof=1))
    return math.sqrt(variance / plan.config.evaluation.episodes + variance / len(final.returns))


def _after_absolute(plan: Plan, state: State) -> State:
    return replace(
        state,
        slots={},
        absolute=returns_of(state, "absolute/"),
        absolute_sides=side_returns_of(state, "absolute/"),
        absolute_env_metrics=env_metrics_of(state, "absolute/"),
        status="finished",
    )


def _on_resumed(plan: Plan, state: State, event: Resumed) -> State:
    """Resumes the run: failed work may be tried again, and raised limits count."""
    state = _bill_waiting(plan, state)
    slots = {
        work: replace(slot, failures=0, problem="", not_retryable=False, diverged=False)
        for work, slot in state.slots.items()
    }
    going_on = replace(state, status="running", slots=slots)
    if PHASES[state.phase].ends and not (state.status == "running" and _target_reached(plan, state)):
        return _start_round(plan, replace(_without_results(going_on), slots={}, reason=""))
    if state.round_placement is not None and not state.slots:
        return (
            replace(going_on, round_placement=planning.place_round(plan, going_on))
            if state.phase == "sample"
            else going_on
        )
    if state.round_placement is not None and planning.placement_changed(plan, state):
        # The round in flight begins anew, because its parts no longer fit together.
        return _start_round(plan, replace(going_on, slots={}, proposal=None, decision=None))
    return going_on


def _without_results(state: State) -> State:
    """Without the results of the evaluations that end a run."""
    before = replace(state, final=(), final_sides={}, final_env_metrics={})
    return replace(before, absolute=(), absolute_sides={}, absolute_env_metrics={})


def _target_reached(plan: Plan, state: State) -> bool:
    """Whether the run ended at a return that still reaches the target."""
    target = plan.config.stop.return_
    return state.reason == "return" and target is not None and state.best is not None and state.best.mean >= target


def _bill_waiting(plan: Plan, state: State) -> State:
    """Bills the waiting attempts, whose reports will not arrive, at their reservation."""
    waiting = [(slot.item, slot.timeout_s) for slot in state.slots.values() if slot.waiting]
    slots = {work: replace(slot, waiting=False) for work, slot in state.slots.items()}
    return replace(state, slots=slots, meter=budget.add_lost(plan, state.meter, waiting))


def _on_checkpointed(plan: Plan, state: State, event: Checkpointed) -> State:
    checkpointed = tuple(sorted({ref.key for ref in state.durable_refs}))
    following = replace(state, checkpointed=checkpointed, saved=state.round)
    freed = set(state.checkpointed) - _needed_keys(following)
    return replace(following, garbage=tuple(sorted(set(state.garbage) | freed)))


def _done(state: State, work: str) -> Done:
    done = state.slots[work].done
    if done is None:
        raise ValueError(f"{work} is not answered")
    return done


def _on_finishing(plan: Plan, state: State, event: Finishing) -> State:
    return replace(state, phase="final", reason=event.reason)


def _on_stopped(plan: Plan, state: State, event: Stopped) -> State:
    return replace(_bill_waiting(plan, state), status=event.status, reason=event.reason)


def _on_committed(plan: Plan, state: State, event: Committed) -> State:
    meter = state.meter.add_commit(budget.written_bytes(plan, event.size, event.before))
    return replace(state, meter=meter, item_bytes=event.size)


def _on_persisted(plan: Plan, state: State, event: Persisted) -> State:
    meter = state.meter.add_stored(event.usage)
    return replace(state, meter=meter.add_listing(event.lists) if event.lists else meter)


def _on_repeated(plan: Plan, state: State, event: Repeated) -> State:
    return replace(state, meter=state.meter + event.meter)


def _on_lost(plan: Plan, state: State, event: Lost) -> State:
    """Lost attempts count as failures, so that work that never reports is not retried for ever."""
    slots = dict(state.slots)
    lost = [(slots[work].item, slots[work].timeout_s) for work in event.works]
    for work in event.works:
        slot = slots[work]
        name = slot.item.function
        problem = (
            f"the {name} did not report: it timed out, ran out of memory or was never started; its log:"
            f" marless logs --function {name}"
        )
        slots[work] = replace(slot, waiting=False, failures=slot.failures + 1, problem=problem)
    return replace(state, slots=slots, meter=budget.add_lost(plan, state.meter, lost))


def _on_coordinator_billed(plan: Plan, state: State, event: CoordinatorBilled) -> State:
    cpu_scaling, used = budget.per_vcpu(plan), (plan.platform.coordinator_mb, event.duration_ms, event.init_ms)
    meter = state.meter.add_invocation("coordinator", *used, Usage(), cpu_scaling).add_log(LOG_BYTES)
    for size in event.loads:
        meter = meter.add_load(budget.item_bytes(plan, size))
    return replace(state, meter=meter)


def _on_completions_billed(plan: Plan, state: State, event: CompletionsBilled) -> State:
    meter = state.meter.add_stored(event.usage)
    for size in event.updates:
        meter = meter.add_commit(size)
    for size in event.reads:
        meter = meter.add_load(size)
    for size in event.events:
        meter = meter.add_event(size)
    return replace(state, meter=meter)


def _on_loaded(plan: Plan, state: State, event: Loaded) -> State:
    return replace(state, meter=state.meter.add_load(budget.item_bytes(plan, event.size)))


# What follows a phase when all its tasks are answered.
_FOLLOWING: dict[Phase, Callable[[Plan, State], State]] = {
    "describe": _after_describe,
    "initialise": _after_initialise,
    "sample": _after_sample,
    "learn": _end_learning,
    "regroup": _after_regroup,
    "trial": _after_trial,
    "final": _after_final,
    "absolute": _after_absolute,
}

_HANDLERS: dict[type[Event], Callable[[Plan, State, Any], State]] = {
    Dispatched: _on_dispatched,
    Reported: _on_reported,
    Advanced: _on_advanced,
    Finishing: _on_finishing,
    Stopped: _on_stopped,
    Resumed: _on_resumed,
    Committed: _on_committed,
    Loaded: _on_loaded,
    Checkpointed: _on_checkpointed,
    Persisted: _on_persisted,
    Repeated: _on_repeated,
    Abandoned: _on_abandoned,
    Lost: _on_lost,
    CoordinatorBilled: _on_coordinator_billed,
    CompletionsBilled: _on_completions_billed,
}
