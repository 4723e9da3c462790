"""A simulated judge counts its questions: the bill has its count after any failures and kills."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import World, answered, failed, make_plan, report, said

from marless.coordinator.core.apply import apply
from marless.coordinator.core.events import AttemptEnded, Reported, decode_answer
from marless.coordinator.core.state import State
from marless.functions.messages.actor import SampleTask
from marless.functions.messages.evaluator import EvaluateTask
from marless.functions.messages.exchange import Done
from marless.functions.messages.usage import CallTime, CallUse, Usage

JUDGE = ("resources.judge.serve=judges:grade", "stop.rounds=2", "evaluation.every=1")
MS = 7


def plan_with(*overrides):
    return make_plan(*JUDGE, *overrides)


class Judge:
    """Answers questions. With `keep` it is asked each question once, and knows the payer. `calls` is its own count."""

    def __init__(self, keep):
        self.keep, self.calls, self.payer = keep, 0, {}

    def ask(self, asker, questions):
        use, given = CallUse(), set()
        for question in questions:
            if not self.keep or question not in self.payer:
                self.calls += 1
                self.payer[question] = asker
            pays = not self.keep or (self.payer[question] == asker and question not in given)
            given.add(question)
            use = use + (CallUse(count=1, ms=MS) if pays else CallUse(hits=1))
        return use


def asking(judge, fates):
    """A script of playing tasks that ask `judge`: two questions each, and one that all share.

    `fates` tells how attempts end: well, with an error or a death after the first question, or with a death after
    everything was stored. The last ending repeats.
    """
    left, stored = list(fates), {}

    def script(function, request):
        if not isinstance(request, SampleTask | EvaluateTask):
            return [answered(function, request)]
        who = request.address.id
        fate = (left.pop(0) if len(left) > 1 else left[0]) if left else "well"
        if who in stored:  # an earlier attempt has stored its answer
            return [told(answered(function, request), stored.pop(who), calls_of=request.attempt - 1)]
        questions = [f"{who}/0", f"{who}/1", "the same for all"]
        if fate in ("error", "death"):
            use = judge.ask(who, questions[:1])
            if fate == "error":
                return [told(failed(function, request), use)]
            return [msgspec.structs.replace(report(function, request, outcome="crash"), call_use={"judge": use})]
        use = judge.ask(who, questions)
        if fate == "late death" and isinstance(request, SampleTask):
            stored[who] = use
            return [msgspec.structs.replace(report(function, request, outcome="crash"), call_use={"judge": use})]
        return [told(answered(function, request), use)]

    return script


def told(item, use, **fields):
    answer = said(item)
    usage = msgspec.structs.replace(answer.usage, calls={"judge": use})
    times = (CallTime("judge", 0, 1.0, 3.0, 11.0),)
    changed = msgspec.structs.replace(answer, usage=usage, call_times=times, **fields)
    return msgspec.structs.replace(item, body=msgspec.json.encode(changed))


ENDS = ("well", "well", "error", "death", "late death")
FATES = st.lists(st.sampled_from(ENDS), max_size=12)


@settings(max_examples=60, deadline=None)
@given(keep=st.booleans(), fates=FATES)
def test_bill_has_count_of_judge_despite_failed_attempts(keep, fates):
    judge = Judge(keep)
    world = World(plan_with(f"resources.judge.keep={str(keep).lower()}"), asking(judge, [*fates, "well"]))
    charge = world.finish().meter.actions["judge"]
    assert (charge.count, charge.billed_ms) == (judge.calls, MS * judge.calls)
    if keep:
        assert judge.calls == len(judge.payer)


@settings(max_examples=40, deadline=None)
@given(kills=st.sets(st.integers(1, 60), max_size=12), fates=st.lists(st.sampled_from(ENDS), max_size=2))
def test_over_killed_drivers_kept_answers_are_paid_once(kills, fates):
    judge = Judge(keep=True)
    world = World(plan_with("resources.judge.keep=true"), asking(judge, [*fates, "well"]))
    driver = world.finish_over_kills(kills, 5000)
    assert driver.state.meter.actions["judge"].count == judge.calls == len(judge.payer)


def test_round_tells_number_and_duration_of_actions():
    world = World(plan_with(), asking(Judge(keep=False), ["well"]))
    state = world.finish()
    first = world.journal[0].actions["judge"]
    tasks = sum(isinstance(each, SampleTask | EvaluateTask) and each.address.round == 0 for each in world.invoker.asked)
    assert (first.count, first.hits, first.seconds) == (3 * tasks, 0, pytest.approx(3 * tasks * MS / 1000))
    assert (first.timed, first.mean_ms, first.p99_ms) == (tasks, 10.0, pytest.approx(10.0, rel=0.01))
    # The evaluations that end a run belong to no round.
    in_rounds = sum(line.actions["judge"].count for line in world.journal)
    assert in_rounds < state.meter.actions["judge"].count
    assert not world.plan.config.stop.dollars


def test_largest_number_of_asked_actions_is_remembered():
    counts = {0: 2, 1: 5, 2: 3}

    def script(function, request):
        item = answered(function, request)
        if not isinstance(request, SampleTask):
            return [item]
        count = counts[request.address.round]
        return [told(item, CallUse(count=count, hits=1, ms=10 * count))]

    seen = []
    World(make_plan(JUDGE[0], "stop.rounds=3", "actors.rollouts=1"), script).finish(
        after=lambda state: seen.append(state.most_calls.get("sample"))
    )
    changes = [most for most, before in zip(seen, [None, *seen[:-1]], strict=True) if most != before]
    # Per rollout: the kept answer counts as a question that may have to be asked.
    assert changes == [{"judge": (3.0, 20.0)}, {"judge": (6.0, 50.0)}]


def test_waiting_results_lack_action_times_and_counts():
    driver = World(plan_with(), asking(Judge(keep=False), ["well"])).driver()
    while not any(slot.done for slot in driver.state.slots.values() if slot.item.kind == "sample"):
        driver.step()
    dones = [slot.done for slot in driver.state.slots.values() if slot.done]
    assert all(done.call_times == () and done.usage.calls == {} for done in dones)


def test_environment_bills_no_resource_missing_in_run():
    world = World(plan_with(), asking(Judge(keep=False), ["well"]))
    driver = world.driver()
    while not driver.state.waiting:
        driver.step()
    request = world.invoker.asked[-1]
    done = said(answered("actor", request))
    usage = Usage(calls={"another": CallUse(count=5, ms=10**12)})
    item = report("actor", request, msgspec.structs.replace(done, usage=usage))
    work = item.id.split("/", 2)[2]
    state = apply(world.plan, driver.state, Reported((AttemptEnded(work, *decode_answer(item)),)))
    assert state.meter.actions == {} and state.resource_calls == {}


def test_action_objects_are_deleted_with_their_round():
    world = World(plan_with(), asking(Judge(keep=False), ["well"]))
    keys = set()

    def look(state):
        keys.update(state.call_keys)
        assert isinstance(state, State)

    world.finish(after=look)
    assert keys and all(key.endswith(".actions.safetensors") for key in keys)


@pytest.mark.parametrize("use", [{"count": -1}, {"ms": 2**41}, {"hits": 1.5}])
def test_impossible_counts_make_no_answer(use):
    world = World(plan_with())
    driver = world.driver()
    while not driver.state.waiting:
        driver.step()
    item = answered("actor", world.invoker.asked[-1])
    answer = msgspec.json.decode(item.body)
    answer["usage"]["actions"] = {"judge": use}
    item = msgspec.structs.replace(item, body=msgspec.json.encode(answer))
    read, decoded = decode_answer(item)
    assert (read.outcome, decoded) == ("crash", None)
    assert isinstance(said(answered("actor", world.invoker.asked[-1])), Done)
