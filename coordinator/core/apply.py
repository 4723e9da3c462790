"""apply(plan, state, event) -> state: everything that can happen to a run, as a pure function."""

from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec.structs import replace

from coordinator.core import budget, opponents, planning
from coordinator.core.compatibility import incompatibility
from coordinator.core.controller import Decision, accept, initial, plan_next_round
from coordinator.core.events import (
    Abandoned,
    Advanced,
    Checkpointed,
    Committed,
    CompletionsBilled,
    CoordinatorBilled,
    Dispatched,
    Event,
    Finishing,
    Loaded,
    Lost,
    Persisted,
    Reported,
    Resumed,
    Stopped,
)
from coordinator.core.round_records import (
    Played,
    env_metrics_of,
    evaluated,
    played,
    returns_of,
    round_lines,
    side_returns_of,
)
from coordinator.core.sides import learning
from coordinator.core.state import Best, Evaluated, Phase, Plan, Slot, State
from coordinator.core.state_location import (
    learner_schedule,
    locations_after_learning,
    locations_after_regrouping,
    spec_of,
)
from coordinator.core.tasks import LOOKS, MOST_PUTS, remembered
from coordinator.placement.timings import observed
from coordinator.pricing.bill import LOG_BYTES, Meter
from coordinator.rules import scaling
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

# An environment may raise with megabytes of text, and every commit of the state would pay for it.
LONGEST_PROBLEM = 400


def apply(plan: Plan, state: State, event: Event) -> State:
    """The state after `event`."""
    return _HANDLERS[type(event)](plan, state, event)


def _dispatched(plan: Plan, state: State, event: Dispatched) -> State:
    slots = dict(state.slots)
    for task in event.tasks:
        old = slots.get(task.work)
        slots[task.work] = Slot(
            item=task.item,
            attempt=task.request.attempt,
            timeout_s=task.request.timeout_s,
            failures=old.failures if old else 0,
        )
    return replace(state, slots=slots)


def _reported(plan: Plan, state: State, event: Reported) -> State:
    """Meters every report; counts it only if the task still waits for this attempt."""
    report, answer = event.report, event.answer
    slot = state.slots.get(event.work)
    if slot is not None and (report.attempt != slot.attempt or not slot.waiting):
        slot = None
    state = replace(state, meter=_metered(plan, state, slot, report, answer))
    if slot is None:
        return state
    if isinstance(answer, Done):
        state = _measured(plan, replace(state, slowest=_slowest(state, slot, report)), slot, report)
        slot = replace(slot, waiting=False, done=answer)
    else:
        slot = replace(
            slot,
            waiting=False,
            failures=slot.failures + 1,
            problem=problem(slot, report, answer),
            not_retryable=isinstance(answer, Failed) and not answer.again,
            diverged=isinstance(answer, Failed) and answer.kind == "not_finite",
        )
    return replace(state, slots={**state.slots, event.work: slot})


def _metered(plan: Plan, state: State, slot: Slot | None, report: Report, answer: Answer | None) -> Meter:
    """The meter with one more invocation, for which `slot` waits if anything does.

    An attempt that was turned away never ran and costs nothing.
    """
    if report.outcome == "throttled":
        return state.meter
    # What an attempt without an answer stored and read is unknown, so the most it can have done is billed.
    usage = answer.usage if answer else Usage(puts=MOST_PUTS, gets=slot.item.gets if slot else 0)
    timeout_s, memory_mb = (slot.timeout_s, slot.item.memory_mb) if slot else (None, None)
    meter = budget.add_ended(plan, state.meter, report, timeout_s, memory_mb, usage)
    # An answer that somebody waited for left the region; without a deployment there is none to leave.
    return meter.add_log(LOG_BYTES).add_transfer(len(report.body)) if plan.platform.fixed_sizes else meter


def problem(slot: Slot, report: Report, answer: Answer | None) -> str:
    """One line on how an attempt ended badly, cut to a length that the ledger can bear."""
    return " ".join(_problem(slot, report, answer).split())[:LONGEST_PROBLEM]


def _problem(slot: Slot, report: Report, answer: Answer | None) -> str:
    if isinstance(answer, Failed):
        return answer.message
    if report.outcome == "timeout":
        key = f"functions.{report.function}.timeout_s"
        return f"the {report.function} ran longer than its time-out of {slot.timeout_s:g} s ({key})"
    return f"the {report.function} {'was throttled' if report.outcome == 'throttled' else 'died'}: {report.detail}"


def _slowest(state: State, slot: Slot, report: Report) -> dict[str, float]:
    """The longest run per kind of task and unit of weight, start-up left out."""
    took, kind = report.duration_ms / slot.item.weight, slot.item.kind
    return {**state.slowest, kind: max(took, state.slowest.get(kind, 0.0))}


def _measured(plan: Plan, state: State, slot: Slot, report: Report) -> State:
    """With what the placement planner goes by, which nobody else asks for."""
    item = slot.item
    if plan.config.placement.rule != "auto" or not item.size:
        return state
    timings = observed(state.timings, item.kind, item.size, report.duration_ms, state.placement.style, 1 / item.peers)
    peak = max(report.peak_mb, state.peaks.get(item.function, 0.0))
    return replace(state, timings=timings, peaks={**state.peaks, item.function: peak})


def _advanced(plan: Plan, state: State, event: Advanced) -> State:
    return _PHASES[state.phase](plan, replace(state, seconds=state.seconds + event.seconds))


def _described(plan: Plan, state: State) -> State:
    reply = _done(state, "describe").reply
    assert isinstance(reply, DescribeReply)
    if problem := incompatibility(plan.config, reply.spec, plan.opponents):
        return replace(state, slots={}, spec=reply.spec, status="failed", reason=problem)
    team = opponents.initial_team(plan.config, reply.spec, plan.opponents)
    return replace(state, phase="initialise", slots={}, spec=reply.spec, team=team)


def _initialised(plan: Plan, state: State) -> State:
    objects = _done(state, "initialise").objects
    names = {f"{part}/{keys.group_name(group)}" for part in spec_of(plan).parts for group in state.groups}
    parts = {name: 0 if name.startswith("policy/") else 1 for name in sorted(names)}
    refs: tuple[Ref, ...] = (objects["policies"], objects["learner"])
    if plan.opponents and state.team:
        parts |= dict.fromkeys(opponents.parts(state.team, plan.opponents), len(refs))
        refs = (*refs, plan.opponents.policies)
    return _start_round(plan, replace(state, slots={}, objects=refs, parts=parts, controller=initial(plan.config)))


def _start_round(plan: Plan, state: State) -> State:
    """At the start of the coming round, with the functions it will run in chosen."""
    return replace(state, phase="sample", wave=0, round_placement=planning.place_round(plan, state))


def _sampled(plan: Plan, state: State) -> State:
    """On to learning, unless the policies that sampled have reached the target."""
    evaluation = evaluated(plan, state)
    if evaluation is None:
        return _sample_learned(plan, replace(state, garbage=()))
    state = _ranked(state, evaluation)
    target = plan.config.stop.return_
    if target is not None and evaluation.mean >= target:
        garbage = tuple(sorted({*state.garbage, *_made(state)}))
        return replace(state, phase="final", reason="return", slots={}, garbage=garbage)
    return _sample_learned(plan, state)


def _trained(plan: Plan, state: State) -> State:
    """On to the next wave of learners, if there is one."""
    if state.wave + 1 < len(learner_schedule(plan, state)):
        return replace(state, wave=state.wave + 1)
    return _learned(plan, state)


def _sample_learned(plan: Plan, state: State) -> State:
    """On to learning, or past it where the sampling functions have learned too."""
    learning = replace(state, phase="learn", wave=0)
    return learning if learner_schedule(plan, state) else _learned(plan, learning)


def _ranked(state: State, evaluation: Evaluated) -> State:
    """With these policies as the best if they are; what only the best before them needed is retired.

    Where several sides learn the newest are: a high return may tell of weak opponents, so that it ranks nothing.
    """
    before = state.best
    assert state.env_spec is not None and state.team is not None
    contested = len(learning(state.env_spec, state.team)) > 1
    if before is not None and evaluation.mean <= before.mean and not contested:
        return replace(state, garbage=())
    best = Best(round=evaluation.round, mean=evaluation.mean, team=state.team, policies=state.policies)
    following = replace(state, best=best)
    passed = {ref.key for ref in before.policies} if before else set()
    return replace(following, garbage=tuple(sorted(passed - _needed(following))))


def _made(state: State) -> set[str]:
    """Keys of what the tasks of the round in flight stored."""
    return {ref.key for slot in state.slots.values() if slot.done for ref in slot.done.objects.values()}


def _learned(plan: Plan, state: State) -> State:
    """Every learner has answered: the round is over, unless the mind proposes another team."""
    rounds = played(state)
    decisions = _decisions(plan, state, rounds)
    last = decisions[-1]
    if last.proposal is None:
        return _rounded(plan, state, rounds, decisions, last.event)
    return replace(state, phase="regroup", proposal=last.proposal, decision=replace(last, proposal=None))


def _decisions(plan: Plan, state: State, rounds: list[Played]) -> list[Decision]:
    """What the mind makes of the rounds that went on together, one after the other."""
    config = plan.config
    assert state.team is not None
    overhead = scaling.list_overhead(
        plan.prices, len(state.env_spec.agents), spec_of(plan).stages, config.pricing.storage
    )
    decisions, memory = [], state.controller
    for index, round_ in enumerate(rounds):
        number = state.round + index
        decisions.append(plan_next_round(config, state.env_spec, state.team, memory, round_.seen, number, overhead))
        memory = decisions[-1].controller
    return decisions


def _regrouped(plan: Plan, state: State) -> State:
    """The proposed team exists: on to its trial, if there is to be one."""
    proposal = state.proposal
    assert proposal is not None
    objects, parts = locations_after_regrouping(plan, state)
    made = replace(state, proposal=replace(proposal, objects=objects, parts=parts))
    if proposal.margin is None:
        return _resolved(plan, made, _TAKEN[proposal.kind])
    return replace(made, phase="trial")


def _tried(plan: Plan, state: State) -> State:
    """Takes or turns down the proposed team, or asks for more episodes."""
    proposal, sharing = state.proposal, plan.config.sharing
    assert proposal is not None and proposal.margin is not None
    new, old = (np.array(returns_of(state, f"trial/{arm}/{proposal.look:03d}")) for arm in ("new", "old"))
    differences = (*proposal.differences, *(new - old).tolist())
    seen = replace(proposal, differences=differences, look=proposal.look + 1)
    looks = len(schedule(sharing.trial_episodes, LOOKS))
    verdict = judge(np.array(differences), proposal.margin, sharing.error, seen.look, looks)
    state = replace(state, proposal=seen)
    if verdict == "more":
        return state
    return _resolved(plan, state, _TAKEN[proposal.kind] if verdict == "commit" else "rejected")


_TAKEN = {"share": "shared", "split": "split"}


def _proposal_abandoned(plan: Plan, state: State, event: Abandoned) -> State:
    """The round ends with the team it has."""
    return _resolved(plan, _abandoned(plan, state), event.event)


def _resolved(plan: Plan, state: State, event: str) -> State:
    """The round ends with its proposal taken or turned down. Only a round that goes on alone proposes a team."""
    assert state.decision is not None
    return _rounded(plan, state, played(state), [state.decision], event)


def _rounded(plan: Plan, state: State, rounds: list[Played], decisions: list[Decision], event: str) -> State:
    """The rounds are over: new objects, lines of metrics, and a list of what nobody needs any more."""
    lines = round_lines(plan, state, rounds, decisions, event)
    (objects, parts), team, controller = locations_after_learning(plan, state), state.team, decisions[-1].controller
    if state.proposal is not None and event in _TAKEN.values():
        proposal = state.proposal
        objects, parts, team, controller = (
            proposal.objects,
            proposal.parts,
            proposal.team,
            accept(controller, proposal),
        )
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
        past=remembered(plan, state, len(rounds)),
    )
    before = {ref.key for ref in state.durable_refs} | _made(state) | set(state.garbage)
    following = replace(following, garbage=tuple(sorted(before - _needed(following))))
    return _start_round(plan, following)


def _needed(state: State) -> set[str]:
    """Keys that the state or the last checkpoint refer to."""
    return {ref.key for ref in state.durable_refs} | set(state.checkpointed)


def _finally(plan: Plan, state: State) -> State:
    """On to the absolute metric, with the final policies among the candidates for the best."""
    returns = returns_of(state, "final/")
    final = Evaluated(round=state.round, env_steps=state.env_steps, returns=returns)
    ranked = _ranked(state, final)
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


def _ended(plan: Plan, state: State) -> State:
    return replace(
        state,
        slots={},
        absolute=returns_of(state, "absolute/"),
        absolute_sides=side_returns_of(state, "absolute/"),
        absolute_env_metrics=env_metrics_of(state, "absolute/"),
        status="finished",
    )


def _resumed(plan: Plan, state: State, event: Resumed) -> State:
    """Lets the run go on; what was given up may be tried anew, and limits that were raised count."""
    state = _abandoned(plan, state)
    slots = {
        work: replace(slot, failures=0, problem="", not_retryable=False, diverged=False)
        for work, slot in state.slots.items()
    }
    going_on = replace(state, status="running", slots=slots)
    if state.phase in ("final", "absolute") and not (state.status == "running" and _target_reached(plan, state)):
        return _start_round(plan, replace(_unended(going_on), slots={}, reason=""))
    if state.round_placement is not None and not state.slots:
        return (
            replace(going_on, round_placement=planning.place_round(plan, going_on))
            if state.phase == "sample"
            else going_on
        )
    if state.round_placement is not None and planning.placement_changed(plan, state):
        # The round in flight begins anew, for its shares no longer fit together.
        return _start_round(plan, replace(going_on, slots={}, proposal=None, decision=None))
    return going_on


def _unended(state: State) -> State:
    """Without what the evaluations that end a run have told."""
    before = replace(state, final=(), final_sides={}, final_env_metrics={})
    return replace(before, absolute=(), absolute_sides={}, absolute_env_metrics={})


def _target_reached(plan: Plan, state: State) -> bool:
    """Whether the run ends because of a return that is still good enough."""
    target = plan.config.stop.return_
    return state.reason == "return" and target is not None and state.best is not None and state.best.mean >= target


def _abandoned(plan: Plan, state: State) -> State:
    """Bills the attempts that nobody will hear of at their reservation."""
    meter, slots = state.meter, {}
    for work, slot in state.slots.items():
        if slot.waiting:
            meter = budget.add_lost(plan, meter, slot.item, slot.timeout_s)
        slots[work] = replace(slot, waiting=False)
    return replace(state, slots=slots, meter=meter)


def _checkpointed(plan: Plan, state: State, event: Checkpointed) -> State:
    checkpointed = tuple(sorted({ref.key for ref in state.durable_refs}))
    following = replace(state, checkpointed=checkpointed, saved=state.round)
    freed = set(state.checkpointed) - _needed(following)
    return replace(following, garbage=tuple(sorted(set(state.garbage) | freed)))


def _done(state: State, work: str) -> Done:
    done = state.slots[work].done
    if done is None:
        raise ValueError(f"{work} is not answered")
    return done


def _finishing(plan: Plan, state: State, event: Finishing) -> State:
    return replace(state, phase="final", reason=event.reason)


def _stopped(plan: Plan, state: State, event: Stopped) -> State:
    return replace(_abandoned(plan, state), status=event.status, reason=event.reason)


def _committed(plan: Plan, state: State, event: Committed) -> State:
    meter = state.meter.add_commit(budget.written_bytes(plan, event.size, event.before))
    return replace(state, meter=meter, item_bytes=event.size)


def _persisted(plan: Plan, state: State, event: Persisted) -> State:
    meter = state.meter.add_stored(event.usage)
    return replace(state, meter=meter.add_listing(event.lists) if event.lists else meter)


def _lost(plan: Plan, state: State, event: Lost) -> State:
    """Attempts that nobody will hear of count as failures: what never answers must not be asked for ever."""
    meter, slots = state.meter, dict(state.slots)
    for work in event.works:
        slot = slots[work]
        meter = budget.add_lost(plan, meter, slot.item, slot.timeout_s)
        problem = f"nobody heard of the {slot.item.function} again"
        slots[work] = replace(slot, waiting=False, failures=slot.failures + 1, problem=problem)
    return replace(state, slots=slots, meter=meter)


def _coordinator_billed(plan: Plan, state: State, event: CoordinatorBilled) -> State:
    cpu_scaling, used = budget.per_vcpu(plan), (plan.platform.coordinator_mb, event.duration_ms, event.init_ms)
    meter = state.meter.add_invocation("coordinator", *used, Usage(), cpu_scaling).add_log(LOG_BYTES)
    for size in event.loads:
        meter = meter.add_load(budget.item_bytes(plan, size))
    return replace(state, meter=meter)


def _completions_billed(plan: Plan, state: State, event: CompletionsBilled) -> State:
    meter = state.meter.add_stored(event.usage)
    for size in event.updates:
        meter = meter.add_commit(size)
    for size in event.reads:
        meter = meter.add_load(size)
    return replace(state, meter=meter)


def _loaded(plan: Plan, state: State, event: Loaded) -> State:
    return replace(state, meter=state.meter.add_load(budget.item_bytes(plan, event.size)))


# What follows when every task of a phase is answered.
_PHASES: dict[Phase, Callable[[Plan, State], State]] = {
    "describe": _described,
    "initialise": _initialised,
    "sample": _sampled,
    "learn": _trained,
    "regroup": _regrouped,
    "trial": _tried,
    "final": _finally,
    "absolute": _ended,
}

_HANDLERS: dict[type[Event], Callable[[Plan, State, Any], State]] = {
    Dispatched: _dispatched,
    Reported: _reported,
    Advanced: _advanced,
    Finishing: _finishing,
    Stopped: _stopped,
    Resumed: _resumed,
    Committed: _committed,
    Loaded: _loaded,
    Checkpointed: _checkpointed,
    Persisted: _persisted,
    Abandoned: _proposal_abandoned,
    Lost: _lost,
    CoordinatorBilled: _coordinator_billed,
    CompletionsBilled: _completions_billed,
}
