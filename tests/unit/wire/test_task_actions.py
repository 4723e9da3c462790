"""What a task asks of resources: in its answer, beside its results, and told again by whoever finds these."""

import msgspec
import pytest
from test_serving import LEARNER, POLICIES, TASK, Memory, Work, answer

from functions import codec
from functions.contract import (
    ActionTime,
    ActionUse,
    Answer,
    CorruptObject,
    Done,
    Failed,
    ForeignObject,
    InitialiseTask,
    ResourceRef,
)
from functions.environments.base import EnvironmentFault
from functions.resources.action_meter import MOST_TIMES, ActionMeter
from functions.resources.port import RESOURCES, Outcome
from functions.serving import serve

ACTIONS = "rounds/000000/initialise.actions.safetensors"
REFS = {"judge": ResourceRef(identity="ab" * 32), "solver": ResourceRef(identity="cd" * 32)}


class Host:
    """Answers every question with itself, after 3 ms of waiting and 10.2 ms of work on slot 1."""

    def ask(self, name, actions):
        return [Outcome(each.question, queued_ms=3.0, run_ms=10.2, slot=1) for each in actions]


class Asking(Work):
    """Asks two questions of the judge and one of the solver."""

    def __call__(self, task, blobs):
        RESOURCES.call("judge", [b"a", b"b"])
        RESOURCES.call("solver", [b"c"])
        return super().__call__(task, blobs)


USE = {"judge": ActionUse(count=2, ms=22), "solver": ActionUse(count=1, ms=11)}


def served(blobs, work, attempt=0, **fields):
    task = msgspec.structs.replace(TASK, attempt=attempt, resources=REFS, **fields)
    with RESOURCES.hosted(Host()):
        body = serve(msgspec.json.encode(task), blobs, {InitialiseTask: work})
    return msgspec.json.decode(body, type=Answer)


def test_an_answer_says_what_its_attempt_asked_and_when():
    done = served(Memory(), Asking())
    assert done.usage.actions == USE
    assert [(each.resource, each.slot) for each in done.actions] == [("judge", 1), ("judge", 1), ("solver", 1)]
    assert all(each.asked_ms <= each.begun_ms <= each.ended_ms for each in done.actions)


def test_results_have_the_bytes_of_a_task_that_asks_nothing():
    asking, silent = Memory(), Memory()
    served(asking, Asking())
    answer(silent, Work())
    assert {key: asking.objects[key] for key in (POLICIES, LEARNER)} == silent.objects
    assert set(asking.objects) - set(silent.objects) == {ACTIONS}


def test_an_attempt_that_finds_the_answer_tells_what_the_one_that_stored_it_has_asked():
    blobs = Memory()
    first, again = served(blobs, Asking()), served(blobs, Asking(), attempt=2)
    assert (again.usage.actions, again.actions, again.actions_of) == (USE, first.actions, 0)
    assert (again.usage.gets, again.usage.puts) == (2, 0)
    assert first.actions_of is None


def test_a_task_that_may_ask_and_does_not_stores_nothing_beside_its_results():
    blobs = Memory()
    done = served(blobs, Work())
    assert (done.usage.actions, done.actions, set(blobs.objects)) == ({}, (), {POLICIES, LEARNER})
    again = served(blobs, Work(), attempt=1)
    assert isinstance(again, Done) and (again.usage.actions, again.actions_of) == ({}, None)


def test_a_failed_attempt_tells_what_it_has_asked_too():
    class Raising(Work):
        def __call__(self, task, blobs):
            RESOURCES.call("judge", [b"a"])
            raise EnvironmentFault("no such state")

    failed = served(Memory(), Raising())
    assert isinstance(failed, Failed)
    assert (failed.usage.actions, len(failed.actions)) == ({"judge": ActionUse(count=1, ms=11)}, 1)


def test_actions_of_another_task_and_damaged_ones_are_refused():
    blobs = Memory()
    served(blobs, Asking())
    with pytest.raises(ForeignObject, match="was written by task run/000000/initialise, not by run/000001/learn"):
        codec.actions_header(blobs.objects[ACTIONS], ACTIONS, "run/000001/learn")
    blobs.objects[ACTIONS] = blobs.objects[LEARNER]
    with pytest.raises(CorruptObject, match="carries no header"):
        codec.actions_header(blobs.objects[ACTIONS], ACTIONS, TASK.address.id)
    failed = served(blobs, Asking(), attempt=1)
    assert (failed.kind, failed.again) == ("corrupt_object", False)


def test_inlined_answers_store_nothing_and_tell_all():
    blobs = Memory()
    done = served(blobs, Asking(), inline_objects=True)
    assert (done.usage.actions, len(done.actions), blobs.objects) == (USE, 3, {})


def test_what_is_asked_side_by_side_ends_for_each_when_it_would_end_alone():
    now = iter([100.0, 100.5])
    meter = ActionMeter(lambda: next(now))
    meter.time("judge", [Outcome(queued_ms=10, run_ms=50), Outcome(queued_ms=60, run_ms=1e9, slot=3)], 0.0)
    assert meter.times == [ActionTime("judge", 0, 0.0, 10.0, 60.0), ActionTime("judge", 3, 0.0, 60.0, 500.0)]


def test_times_beyond_a_limit_are_counted_and_not_told():
    meter = ActionMeter()
    outcomes = [Outcome(run_ms=1.0)] * (MOST_TIMES + 5)
    for outcome in outcomes:
        meter.count("judge", outcome)
    meter.time("judge", outcomes, 0.0)
    assert (meter.use["judge"].count, len(meter.times)) == (MOST_TIMES + 5, MOST_TIMES)
