"""Objects that travel inside messages: the same bytes as stored ones, no storage operation, the same failures."""

import msgspec
import numpy as np
import pytest
from simulated import MemoryStorage, NoStorage
from task_fields import ask, changed, make_task

from marless.functions import codec
from marless.functions.actor.handler import handle as act
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.evaluator.handler import handle as evaluate
from marless.functions.learner.handler import handle as learn
from marless.functions.messages.actor import Behaviour, DescribeTask, SampleReply, SampleTask
from marless.functions.messages.evaluator import EvaluateTask
from marless.functions.messages.exchange import Done, Failed
from marless.functions.messages.learner import (
    InitialiseReply,
    InitialiseTask,
    LearnReply,
    LearnTask,
    RegroupTask,
    WholeReply,
    WholeTask,
)
from marless.functions.messages.message import Table
from marless.functions.messages.team import Team
from marless.functions.messages.usage import Usage
from marless.functions.serving import Output, read, serve
from marless.functions.warm_cache import WARM

TOY = EnvTask(name="toy/signal", agents=3)
TEAM, TARGET = Team(groups=(0, 1, 2), identity=True), Team(groups=(0, 0, 2), identity=True)
LEARNING = {
    "spec": registry.spec(TOY),
    "algorithm": "mappo",
    "hyperparameters": {"hidden": [4], "num_minibatches": 2, "epochs": 2},
}
ROLLOUTS = {"rollouts": (0, 1), "num_envs": 4, "rollout_length": 6}
KINDS = ("describe", "initialise", "sample", "learn", "whole", "regroup", "evaluate")
STORING = KINDS[1:-1]


def order(kind, work, **fields):
    return make_task(
        kind, id=f"run/1/{work}", run="run", round=1, output=f"rounds/1/{work}", timeout_s=9.0, seed=2, **fields
    )


def everything(answer):
    """One task of every kind, in order. `answer(handler, task)` returns the references for later tasks."""
    answer(act, order(DescribeTask, "describe", environment=TOY))
    drawn = answer(learn, order(InitialiseTask, "initialise", team=TEAM, **LEARNING)).objects
    state, policies = tuple(drawn.values()), (drawn["policies"],)
    playing = {"environment": TOY, "team": TEAM, **ROLLOUTS}
    sampled = answer(act, order(SampleTask, "sample", policies=policies, **playing)).objects["trajectory"]
    answer(learn, order(
        LearnTask, "learn", team=TEAM, stages=("postprocess", "critic", "policy"), groups=(0, 1, 2), rollouts=(0, 1),
        trajectories=(sampled,), state=state, publish_tensors=True, summaries=("behaviour", "density"), **LEARNING,
    ))  # fmt: skip
    answer(
        learn,
        order(
            WholeTask, "whole", behaviours=(Behaviour(),) * 2, state=state, summaries=("noise",), **playing, **LEARNING
        ),
    )
    answer(learn, order(
        RegroupTask, "regroup", target=TARGET, bases={0: 1}, trajectories=(sampled,), policies=policies, state=state,
        distil_steps=2, **playing, **LEARNING,
    ))  # fmt: skip
    answer(evaluate, order(
        EvaluateTask, "evaluate", environment=TOY, team=TEAM, policies=policies, stream="curve", part=0, episodes=3,
    ))  # fmt: skip


def through_storage():
    """The handler, task and answer by kind of task, and the store."""
    blobs, served = MemoryStorage(), []

    def answer(handler, task):
        served.append((handler, task, ask(handler, task, blobs)))
        assert isinstance(served[-1][2], Done), served[-1][2]
        return served[-1][2]

    everything(answer)
    return dict(zip(KINDS, served, strict=True)), blobs


SERVED, STORED = through_storage()


def refs_of(task):
    fields = [getattr(task, name) for name in task.__struct_fields__]
    return [item for field in fields if isinstance(field, tuple) for item in field if hasattr(item, "sha256")]


def with_inline_objects(kind, **changes):
    """The handler, and the task with its objects inline, which requests inline objects in the answer."""
    handler, task, _ = SERVED[kind]
    inside = {ref.key: STORED[ref.key] for ref in refs_of(task)}
    return handler, msgspec.structs.replace(task, **{"inline_objects": True, "inlined": inside, **changes})


@pytest.mark.parametrize("attempt", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_inlining_task_has_bytes_and_reply_of_storing(kind, attempt):
    handler, task = with_inline_objects(kind, attempt=attempt)
    done, stored = ask(handler, task, NoStorage()), SERVED[kind][2]
    inlined = {ref.key: STORED[ref.key] for ref in stored.objects.values()}
    assert bool(inlined) == (kind in STORING)
    assert done == msgspec.structs.replace(stored, attempt=attempt, inlined=inlined, usage=Usage())


@pytest.mark.parametrize("kind", STORING)
def test_answer_in_last_object_has_no_inline_objects(kind):
    handler, task = with_inline_objects(kind)
    done = ask(handler, task, NoStorage())
    *before, last = (codec.header(body, key).done for key, body in done.inlined.items())
    assert last == msgspec.structs.replace(done, objects=last.objects, inlined={})
    assert list(last.objects) == list(done.objects)[:-1]
    assert before == [None] * len(before)


@pytest.mark.parametrize("kind", STORING)
def test_later_stored_inline_objects_answer_a_retry(kind):
    handler, task = with_inline_objects(kind)
    done = ask(handler, task, NoStorage())
    blobs = MemoryStorage(done.inlined)
    again = ask(handler, msgspec.structs.replace(task, inline_objects=False, attempt=1), blobs)
    assert again == msgspec.structs.replace(done, attempt=1, inlined={}, usage=again.usage)
    assert (again.usage.gets, again.usage.puts) == (1, 0)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if refs_of(SERVED[kind][1])])
def test_objects_missing_in_message_are_read_and_counted(kind):
    handler, task = with_inline_objects(kind)
    missing = refs_of(task)[0]
    inside = {key: body for key, body in task.inlined.items() if key != missing.key}
    blobs = MemoryStorage({missing.key: STORED[missing.key]})
    done = ask(handler, msgspec.structs.replace(task, inlined=inside), blobs)
    assert done.usage == Usage(gets=1, bytes_read=missing.size)
    assert done.objects == SERVED[kind][2].objects
    assert len(blobs) == 1
    WARM.clear()
    nowhere = ask(handler, msgspec.structs.replace(task, inlined=inside), MemoryStorage())
    assert (nowhere.kind, nowhere.message) == ("corrupt_object", f"{missing.key} is missing; it was deleted or lost")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if refs_of(SERVED[kind][1])])
def test_inline_object_that_mismatches_reference_is_refused(kind):
    handler, task = with_inline_objects(kind)
    last = refs_of(task)[-1].key
    for broken in (task.inlined[last][:-1] + b"\x07", task.inlined[last][:-1], b""):
        failed = ask(handler, msgspec.structs.replace(task, inlined={**task.inlined, last: broken}), STORED)
        message = f"{last} is not the object the run recorded (its hash differs)"
        assert (failed.kind, failed.message, failed.again) == ("corrupt_object", message, False)


def test_request_only_inlining_leaves_answer_to_storage():
    handler, task = with_inline_objects("learn", inline_objects=False)
    blobs = MemoryStorage()
    done = ask(handler, task, blobs)
    assert done.inlined == {}
    assert {key: STORED[key] for key in blobs} == blobs
    assert (done.usage.gets, done.usage.puts) == (0, 3)


def test_inlining_task_ignores_earlier_stored_answer():
    handler, task = with_inline_objects("initialise", attempt=1)
    done = ask(handler, task, NoStorage())
    other = ask(handler, changed(task, id="run/1/other"), STORED)  # under existing keys
    assert (other.usage, done.usage) == (Usage(), Usage())
    assert list(other.inlined) == list(done.inlined)
    assert other.inlined != done.inlined


DRAW = with_inline_objects("initialise")[1]


def test_an_error_is_answered_as_without_inline_objects():
    def lost(task, blobs):
        read(blobs, (codec.reference("gone", b""),))

    failed = ask(lambda body, blobs: serve(body, blobs, {InitialiseTask: lost}), DRAW, MemoryStorage())
    told = "gone is missing; it was deleted or lost"
    wanted = Failed(
        id=DRAW.address.id, attempt=0, kind="corrupt_object", message=told, again=False, usage=Usage(gets=1)
    )
    assert failed == wanted


def whole_reply(sample=(), learn=()):
    steady = SampleReply(env_steps=1, returns=(1.0,), agent_returns=((0.5, 0.5),), env_metrics={"a": 1.0})
    learnt = LearnReply(metrics={"f": 1.0}, tables={"t": Table(shape=(1,), data=np.float32([1]).tobytes())})
    return WholeReply(
        samples=(steady, msgspec.structs.replace(steady, **dict(sample))),
        learns=(learnt, msgspec.structs.replace(learnt, **dict(learn))),
    )


BAD = float("nan"), float("inf"), float("-inf")


@pytest.mark.parametrize("inline_objects", [True, False])
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize(
    ("where", "field", "value"),
    [
        ("sample", "returns", lambda bad: (0.0, bad)),
        ("sample", "agent_returns", lambda bad: ((bad, 0.0),)),
        ("sample", "env_metrics", lambda bad: {"x": 0.0, "y": bad}),
        ("learn", "metrics", lambda bad: {"x": bad}),
        ("learn", "tables", lambda bad: {"x": Table(shape=(2,), data=np.float32([0, bad]).tobytes())}),
    ],
)
def test_number_not_finite_is_found_at_any_depth(where, field, value, bad, inline_objects):
    for reply in (
        whole_reply(**{where: {field: value(bad)}}),
        getattr(whole_reply(**{where: {field: value(bad)}}), f"{where}s")[1],
    ):
        blobs, task = MemoryStorage(), msgspec.structs.replace(DRAW, inline_objects=inline_objects)

        def work(task, blobs, reply=reply):
            return [Output("learner", {"x": np.zeros(1)})], reply

        failed = ask(lambda body, store, work=work: serve(body, store, {InitialiseTask: work}), task, blobs)
        assert (failed.kind, failed.message) == ("not_finite", f"the answer's {field} hold NaN or infinity")
        assert blobs == {}


def test_finite_replies_pass():
    for reply in (whole_reply(), InitialiseReply(), SERVED["describe"][2].reply):
        task = msgspec.structs.replace(DRAW, inline_objects=True)
        done = ask(
            lambda body, store, reply=reply: serve(body, store, {InitialiseTask: lambda *_: ([], reply)}), task, {}
        )
        assert done.reply == reply
