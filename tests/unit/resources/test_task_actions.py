"""A task's questions to resources are in its answer, stored with its results, and repeated by a later attempt."""

import msgspec
import numpy as np
import pytest
from simulated import MemoryStorage
from task_fields import make_task

from marless.functions import codec
from marless.functions.environments import registry
from marless.functions.environments.base import EnvironmentFault, EnvTask
from marless.functions.errors import CorruptObject, ForeignObject
from marless.functions.messages.exchange import Answer, Done, Failed
from marless.functions.messages.learner import InitialiseReply, InitialiseTask
from marless.functions.messages.order import ResourceRef
from marless.functions.messages.team import Team
from marless.functions.messages.usage import CallTime, CallUse
from marless.functions.resources.call_meter import MOST_TIMES, CallMeter
from marless.functions.resources.port import RESOURCES, CallOutcome
from marless.functions.serving import Output, serve

OUTPUT = "rounds/000000/initialise"
TASK = make_task(
    InitialiseTask,
    id="run/000000/initialise",
    run="run",
    round=0,
    output=OUTPUT,
    timeout_s=9.0,
    seed=1,
    spec=registry.spec(EnvTask(name="toy/signal")),
    algorithm="mappo",
    hyperparameters={"hidden": [4]},
    team=Team(groups=(0, 1)),
)
POLICIES, LEARNER, ACTIONS = (f"{OUTPUT}.{kind}.safetensors" for kind in ("policies", "learner", "actions"))
REFS = {"judge": ResourceRef(identity="ab" * 32), "solver": ResourceRef(identity="cd" * 32)}


class Host:
    """Answers every question with itself, after 3 ms of waiting and 10.2 ms of work on slot 1."""

    def ask(self, name, actions):
        return [CallOutcome(each.question, queued_ms=3.0, run_ms=10.2, slot=1) for each in actions]


def silent(task, blobs):
    return [Output("policies", {"policy": np.ones(3)}), Output("learner", {"critic": np.ones(5)})], InitialiseReply()


def asking(task, blobs):
    """Asks two questions of the judge and one of the solver before."""
    RESOURCES.call("judge", [b"a", b"b"])
    RESOURCES.call("solver", [b"c"])
    return silent(task, blobs)


USE = {"judge": CallUse(count=2, ms=22), "solver": CallUse(count=1, ms=11)}


def served(blobs, work, attempt=0, **fields):
    task = msgspec.structs.replace(TASK, **{"attempt": attempt, "resources": REFS, **fields})
    with RESOURCES.hosted(Host()):
        body = serve(msgspec.json.encode(task), blobs, {InitialiseTask: work})
    return msgspec.json.decode(body, type=Answer)


def test_answer_tells_questions_of_attempt_with_times():
    done = served(MemoryStorage(), asking)
    assert done.usage.calls == USE
    assert [(each.resource, each.slot) for each in done.call_times] == [("judge", 1), ("judge", 1), ("solver", 1)]
    assert all(each.asked_ms <= each.begun_ms <= each.ended_ms for each in done.call_times)


def test_results_have_bytes_of_task_without_questions():
    asked, plain = MemoryStorage(), MemoryStorage()
    served(asked, asking)
    served(plain, silent, resources={})
    assert {key: asked[key] for key in (POLICIES, LEARNER)} == plain
    assert set(asked) - set(plain) == {ACTIONS}


def test_attempt_finding_answer_reports_questions_of_its_author():
    blobs = MemoryStorage()
    first, again = served(blobs, asking), served(blobs, asking, attempt=2)
    assert (again.usage.calls, again.call_times, again.calls_of) == (USE, first.call_times, 0)
    assert (again.usage.gets, again.usage.puts) == (2, 0)
    assert first.calls_of is None


def test_task_without_questions_stores_only_results():
    blobs = MemoryStorage()
    done = served(blobs, silent)
    assert (done.usage.calls, done.call_times, set(blobs)) == ({}, (), {POLICIES, LEARNER})
    again = served(blobs, silent, attempt=1)
    assert isinstance(again, Done) and (again.usage.calls, again.calls_of) == ({}, None)


def test_failed_attempt_reports_its_questions():
    def raising(task, blobs):
        RESOURCES.call("judge", [b"a"])
        raise EnvironmentFault("no such state")

    failed = served(MemoryStorage(), raising)
    assert isinstance(failed, Failed)
    assert (failed.usage.calls, len(failed.call_times)) == ({"judge": CallUse(count=1, ms=11)}, 1)


def test_foreign_or_damaged_actions_are_refused():
    blobs = MemoryStorage()
    served(blobs, asking)
    with pytest.raises(ForeignObject, match="was written by task run/000000/initialise, not by run/000001/learn"):
        codec.calls_header(blobs[ACTIONS], ACTIONS, "run/000001/learn")
    blobs[ACTIONS] = blobs[LEARNER]
    with pytest.raises(CorruptObject, match="carries no header"):
        codec.calls_header(blobs[ACTIONS], ACTIONS, TASK.address.id)
    failed = served(blobs, asking, attempt=1)
    assert (failed.kind, failed.again) == ("corrupt_object", False)


def test_inlined_answers_store_nothing_and_tell_all():
    blobs = MemoryStorage()
    done = served(blobs, asking, inline_objects=True)
    assert (done.usage.calls, len(done.call_times), blobs) == (USE, 3, {})


def test_parallel_questions_end_as_if_alone():
    now = iter([100.0, 100.5])
    meter = CallMeter(lambda: next(now))
    meter.time("judge", [CallOutcome(queued_ms=10, run_ms=50), CallOutcome(queued_ms=60, run_ms=1e9, slot=3)], 0.0)
    assert meter.times == [CallTime("judge", 0, 0.0, 10.0, 60.0), CallTime("judge", 3, 0.0, 60.0, 500.0)]


def test_times_beyond_limit_are_counted_only():
    meter = CallMeter()
    outcomes = [CallOutcome(run_ms=1.0)] * (MOST_TIMES + 5)
    for outcome in outcomes:
        meter.count("judge", outcome)
    meter.time("judge", outcomes, 0.0)
    assert (meter.use["judge"].count, len(meter.times)) == (MOST_TIMES + 5, MOST_TIMES)
