"""apply(plan, state, event) -> state: everything that can happen to a run, as a pure function."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from coordinator import budget
from coordinator.events import (
    Advanced,
    Asked,
    Checkpointed,
    Committed,
    Event,
    Finishing,
    Loaded,
    Reported,
    Resumed,
    Stopped,
)
from coordinator.figures import evaluated, returns_of, round_line
from coordinator.pricing.bill import Meter
from coordinator.sharing import SHARING_RULES
from coordinator.state import Best, Evaluated, Plan, Slot, State
from coordinator.tasks import MOST_PUTS, in_flight, learner_waves, spec_of
from functions import keys
from functions.contract import (
    Answer,
    DescribeReply,
    Done,
    Failed,
    Ref,
    Report,
    Team,
    Usage,
)

# An environment may raise with megabytes of text, and every commit of the state would pay for it.
LONGEST_PROBLEM = 400


def apply(plan: Plan, state: State, event: Event) -> State:
    """The state after `event`."""
    return _HANDLERS[type(event)](plan, state, event)


def _asked(plan: Plan, state: State, event: Asked) -> State:
    slots = dict(state.slots)
    for task in event.tasks:
        old = slots.get(task.work)
        slots[task.work] = Slot(
            function=task.function,
            kind=task.kind,
            weight=task.weight,
            attempt=task.request.attempt,
            timeout_s=task.request.timeout_s,
            gets=task.gets,
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
        state = replace(state, slowest=_slowest(state, slot, report))
        slot = replace(slot, waiting=False, done=answer)
    else:
        slot = replace(
            slot,
            waiting=False,
            failures=slot.failures + 1,
            problem=problem(slot, report, answer),
            hopeless=isinstance(answer, Failed) and not answer.again,
        )
    return replace(state, slots={**state.slots, event.work: slot})


def _metered(plan: Plan, state: State, slot: Slot | None, report: Report, answer: Answer | None) -> Meter:
    """The meter with one more invocation, for which `slot` waits if anything does.

    An attempt that was turned away never ran and costs nothing.
    """
    if report.outcome == "throttled":
        return state.meter
    # What an attempt without an answer stored and read is unknown, so the most it can have done is billed.
    usage = answer.usage if answer else Usage(puts=MOST_PUTS, gets=slot.gets if slot else 0)
    return budget.ended(plan, state.meter, report, slot.timeout_s if slot else None, usage)


def problem(slot: Slot, report: Report, answer: Answer | None) -> str:
    """One line on how an attempt ended badly, cut to a length that the ledger can bear."""
    return " ".join(_problem(slot, report, answer).split())[:LONGEST_PROBLEM]


def _problem(slot: Slot, report: Report, answer: Answer | None) -> str:
    if isinstance(answer, Failed):
        return answer.message
    if report.outcome == "timeout":
        return f"the {report.function} ran longer than its time-out of {slot.timeout_s:g} s"
    return f"the {report.function} {'was throttled' if report.outcome == 'throttled' else 'died'}: {report.detail}"


def _slowest(state: State, slot: Slot, report: Report) -> dict[str, float]:
    """The longest run per kind of task and unit of weight, start-up left out."""
    took = report.duration_ms / slot.weight
    return {**state.slowest, slot.kind: max(took, state.slowest.get(slot.kind, 0.0))}


def _advanced(plan: Plan, state: State, event: Advanced) -> State:
    state = replace(state, seconds=state.seconds + event.seconds)
    match state.phase:
        case "describe":
            return _described(plan, state)
        case "initialise":
            return _initialised(plan, state)
        case "sample":
            return _sampled(plan, state)
        case "learn":
            if state.wave + 1 < len(learner_waves(plan, state)):
                return replace(state, wave=state.wave + 1)
            return _learned(plan, state)
        case "final":
            return _finally(plan, state)
        case "absolute":
            return replace(state, slots={}, absolute=returns_of(state, "absolute/"), status="finished")


def _described(plan: Plan, state: State) -> State:
    reply = _done(state, "describe").reply
    assert isinstance(reply, DescribeReply)
    rule = plan.config.sharing.rule
    team = Team(groups=SHARING_RULES[rule](reply.spec.class_of), identity=rule != "none")
    return replace(state, phase="initialise", slots={}, spec=reply.spec, team=team)


def _initialised(plan: Plan, state: State) -> State:
    objects = _done(state, "initialise").objects
    names = {f"{part}/{keys.group_name(group)}" for part in spec_of(plan).parts for group in state.groups}
    parts = {name: 0 if name.startswith("policy/") else 1 for name in sorted(names)}
    return replace(state, phase="sample", slots={}, objects=(objects["policies"], objects["learner"]), parts=parts)


def _sampled(plan: Plan, state: State) -> State:
    """On to learning, unless the policies that sampled have reached the target."""
    evaluation = evaluated(state)
    if evaluation is None:
        return replace(state, phase="learn", wave=0, retired=())
    state = _ranked(state, evaluation)
    target = plan.config.stop.return_
    if target is not None and evaluation.mean >= target:
        retired = tuple(sorted({*state.retired, *_made(state)}))
        return replace(state, phase="final", reason="return", slots={}, retired=retired)
    return replace(state, phase="learn", wave=0)


def _ranked(state: State, evaluation: Evaluated) -> State:
    """With these policies as the best if they are; what only the best before them needed is retired."""
    before = state.best
    if before is not None and evaluation.mean <= before.mean:
        return replace(state, retired=())
    best = Best(round=evaluation.round, mean=evaluation.mean, policies=state.policies)
    following = replace(state, best=best)
    passed = {ref.key for ref in before.policies} if before else set()
    return replace(following, retired=tuple(sorted(passed - _needed(following))))


def _made(state: State) -> set[str]:
    """Keys of what the tasks of the round in flight stored."""
    return {ref.key for slot in state.slots.values() if slot.done for ref in slot.done.objects.values()}


def _learned(plan: Plan, state: State) -> State:
    """The round happened: new objects, one line of metrics, and a list of what nobody needs any more."""
    objects, parts = _new_objects(plan, state)
    line = round_line(plan, state)
    following = replace(
        state,
        phase="sample",
        wave=0,
        round=state.round + 1,
        env_steps=line.env_steps,
        objects=objects,
        parts=parts,
        slots={},
        line=line,
    )
    before = {ref.key for ref in state.objects} | _made(state) | set(state.retired)
    return replace(following, retired=tuple(sorted(before - _needed(following))))


def _needed(state: State) -> set[str]:
    """Keys that the state, its best policies or the last checkpoint refer to."""
    best = state.best.policies if state.best else ()
    return {ref.key for ref in (*state.objects, *best)} | set(state.held)


def _new_objects(plan: Plan, state: State) -> tuple[tuple[Ref, ...], dict[str, int]]:
    """Where every part of the learner's state lives after the round's learner tasks."""
    spec = spec_of(plan)
    homes = {part: state.objects[index] for part, index in state.parts.items()}
    for wave in learner_waves(plan, state):
        for work in wave:
            objects = _done(state, work.name).objects
            for part in (part for stage in work.stages for part in spec.stage(stage).writes):
                for group in work.groups:
                    homes[f"{part}/{keys.group_name(group)}"] = objects["policies" if part == "policy" else "learner"]
    distinct = tuple(sorted(set(homes.values()), key=lambda ref: ref.key))
    positions = {ref.key: index for index, ref in enumerate(distinct)}
    return distinct, {part: positions[homes[part].key] for part in sorted(homes)}


def _finally(plan: Plan, state: State) -> State:
    """On to the absolute metric, with the final policies among the candidates for the best."""
    returns = returns_of(state, "final/")
    final = Evaluated(round=state.round, env_steps=state.env_steps, returns=returns)
    return replace(_ranked(state, final), phase="absolute", slots={}, final=returns)


def _resumed(plan: Plan, state: State, event: Resumed) -> State:
    """Lets the run go on; what was given up may be tried anew, and limits that were raised count."""
    state = _abandoned(plan, state)
    slots = {work: replace(slot, failures=0, problem="", hopeless=False) for work, slot in state.slots.items()}
    going_on = replace(state, status="running", slots=slots)
    if state.phase in ("final", "absolute") and not (state.status == "running" and _target_reached(plan, state)):
        return replace(going_on, phase="sample", slots={}, reason="", final=(), absolute=())
    if set(slots) - _planned(plan, state):
        # The placement changed: the round in flight begins anew, for its shares no longer fit together.
        return replace(going_on, phase="sample", wave=0, slots={})
    return going_on


def _target_reached(plan: Plan, state: State) -> bool:
    """Whether the run ends because of a return that is still good enough."""
    target = plan.config.stop.return_
    return state.reason == "return" and target is not None and state.best is not None and state.best.mean >= target


def _abandoned(plan: Plan, state: State) -> State:
    """Bills the attempts that nobody will hear of at their reservation."""
    meter, slots = state.meter, {}
    for work, slot in state.slots.items():
        if slot.waiting:
            meter = budget.lost(plan, meter, slot.function, slot.timeout_s, slot.gets)
        slots[work] = replace(slot, waiting=False)
    return replace(state, slots=slots, meter=meter)


def _planned(plan: Plan, state: State) -> set[str]:
    """The works of the round in flight up to now, as the plan places them."""
    if state.phase != "learn":
        return {task.work for task in in_flight(plan, state)}
    sampled = {task.work for task in in_flight(plan, replace(state, phase="sample"))}
    waves = learner_waves(plan, state)[: state.wave + 1]
    return sampled | {work.name for wave in waves for work in wave}


def _checkpointed(plan: Plan, state: State, event: Checkpointed) -> State:
    best = state.best.policies if state.best else ()
    held = tuple(sorted({ref.key for ref in (*state.objects, *best)}))
    following = replace(state, held=held)
    freed = set(state.held) - _needed(following)
    return replace(following, retired=tuple(sorted(set(state.retired) | freed)))


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
    return replace(state, meter=state.meter.add_commit(event.size))


def _loaded(plan: Plan, state: State, event: Loaded) -> State:
    return replace(state, meter=state.meter.add_load(event.size))


_HANDLERS: dict[type[Event], Callable[[Plan, State, Any], State]] = {
    Asked: _asked,
    Reported: _reported,
    Advanced: _advanced,
    Finishing: _finishing,
    Stopped: _stopped,
    Resumed: _resumed,
    Committed: _committed,
    Loaded: _loaded,
    Checkpointed: _checkpointed,
}
