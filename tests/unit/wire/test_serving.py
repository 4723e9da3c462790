"""The wrapper around every function's work: retries, write-once objects, failures in one line, usage for the bill."""

import msgspec
import numpy as np
import pytest
from task_fields import ask, make_task

from marless.functions import codec, errors
from marless.functions.actor.handler import handle as act
from marless.functions.environments import registry
from marless.functions.environments.base import EnvironmentFault, EnvTask, Unsupported
from marless.functions.errors import CorruptObject, KeyTaken, NoSuchObject, StorageFault
from marless.functions.evaluator.handler import handle as evaluate
from marless.functions.learner.handler import handle as learn
from marless.functions.messages.actor import SampleReply, SampleTask
from marless.functions.messages.evaluator import EvaluateTask
from marless.functions.messages.exchange import Done, Failed, TaskHeader
from marless.functions.messages.learner import InitialiseReply, InitialiseTask, LearnTask
from marless.functions.messages.message import Ref
from marless.functions.messages.team import Team
from marless.functions.messages.usage import Usage
from marless.functions.serving import Output, read, serve
from marless.functions.stored_answers import stored_answer
from marless.functions.warm_cache import WARM

TOY = EnvTask(name="toy/signal")
TASK = make_task(
    InitialiseTask,
    id="run/000000/initialise",
    run="run",
    round=0,
    output="rounds/000000/initialise",
    timeout_s=9.0,
    seed=1,
    spec=registry.spec(TOY),
    algorithm="mappo",
    hyperparameters={"hidden": [4], "num_minibatches": 2, "epochs": 2},
    team=Team(groups=(0, 1)),
)
POLICIES, LEARNER = (f"rounds/000000/initialise.{kind}.safetensors" for kind in ("policies", "learner"))
REPLY = InitialiseReply()


class Memory:
    """A store in memory that fails with `fault` if it is set."""

    def __init__(self, fault=None, **objects):
        self.objects, self.fault = dict(objects), fault

    def get(self, key, size=None):
        if key not in self.objects:
            raise NoSuchObject(key)
        return self.objects[key]

    def put(self, key, body):
        if self.fault is not None:
            raise self.fault
        if key in self.objects:
            raise KeyTaken(key)
        self.objects[key] = body


class Work:
    """Stores `value` under two keys and counts its calls. Raises `error` instead if it is set."""

    def __init__(self, value=1.0, error=None):
        self.value, self.error, self.calls = value, error, 0

    def __call__(self, task, blobs):
        self.calls += 1
        if self.error is not None:
            raise self.error
        return [
            Output("policies", {"policy": np.full(3, self.value)}),
            Output("learner", {"critic": np.full(5, self.value)}),
        ], REPLY


def answer(blobs, work, attempt=0):
    task = msgspec.structs.replace(TASK, attempt=attempt)
    return ask(lambda body, store: serve(body, store, {InitialiseTask: work}), task, blobs)


def test_answer_names_stored_objects_and_counts_cost():
    blobs = Memory()
    done = answer(blobs, Work())
    first, last = blobs.objects[POLICIES], blobs.objects[LEARNER]
    objects = {"policies": codec.reference(POLICIES, first), "learner": codec.reference(LEARNER, last)}
    usage = Usage(puts=2, bytes_written=len(first) + len(last))
    assert done == Done(id=TASK.address.id, attempt=0, objects=objects, reply=REPLY, usage=usage)
    np.testing.assert_array_equal(codec.decode(last, LEARNER)["critic"], np.ones(5))


def test_a_retry_goes_on_from_what_is_stored():
    blobs, work = Memory(), Work()
    done = answer(blobs, work)
    again = answer(blobs, work, attempt=2)
    assert work.calls == 1
    usage = Usage(gets=1, bytes_read=len(blobs.objects[LEARNER]))
    assert again == msgspec.structs.replace(done, attempt=2, usage=usage)
    size, first = len(blobs.objects.pop(LEARNER)), len(blobs.objects[POLICIES])
    again = answer(blobs, work, attempt=1)
    assert work.calls == 2
    # One read for the answer, then two conditional writes. The first is refused and its object read.
    usage = Usage(puts=2, gets=2, bytes_written=first + size, bytes_read=first)
    assert again == msgspec.structs.replace(done, attempt=1, usage=usage)


def test_the_first_writer_wins_under_every_key():
    blobs = Memory()
    done = answer(blobs, Work(1.0))
    stored = dict(blobs.objects)
    late = answer(blobs, Work(2.0))  # attempt 0 does not read first: a race
    assert blobs.objects == stored
    assert (late.objects, late.reply) == (done.objects, done.reply)


def test_every_attempt_writes_the_same_bytes():
    stores = [Memory() for _ in range(2)]
    for attempt, blobs in enumerate(stores):
        answer(blobs, Work(), attempt)
    assert stores[0].objects == stores[1].objects
    stored = codec.header(stores[0].objects[LEARNER], LEARNER).done
    assert (stored.attempt, stored.usage, stored.reply) == (0, Usage(), REPLY)
    assert codec.header(stores[0].objects[POLICIES], POLICIES) == TaskHeader(task=TASK.address.id)


@pytest.mark.parametrize(("key", "attempt"), [(POLICIES, 0), (POLICIES, 1), (LEARNER, 0), (LEARNER, 1)])
def test_object_of_other_task_under_key_is_refused(key, attempt):
    blobs = Memory(**{key: codec.encode({"x": np.zeros(1)}, TaskHeader(task="run/000009/other"))})
    failed = answer(blobs, Work(), attempt)
    message = f"{key} was written by task run/000009/other, not by {TASK.address.id}"
    assert (failed.kind, failed.message, failed.again) == ("foreign_object", message, False)


WHOLE = codec.encode({"x": np.zeros(100)}, TaskHeader(task=TASK.address.id))


@pytest.mark.parametrize(
    "body", [b"", b"garbage", b"\xff" * 64, WHOLE[:40], b'\x02\0\0\0\0\0\0\0{}', b'\x02\0\0\0\0\0\0\0[]'],
    ids=["empty", "text", "noise", "torn", "no header", "not a header"],
)  # fmt: skip
@pytest.mark.parametrize(("key", "attempt"), [(POLICIES, 0), (LEARNER, 1)])
def test_an_object_that_cannot_be_read_is_named(body, key, attempt):
    failed = answer(Memory(**{key: body}), Work(), attempt)
    assert (failed.kind, failed.again) == ("corrupt_object", False)
    assert failed.message.startswith(f"{key} carries no header of this version")


def test_a_last_object_without_an_answer_is_named():
    failed = answer(Memory(**{LEARNER: WHOLE}), Work(), attempt=1)
    assert failed.kind == "corrupt_object"
    assert failed.message == f"{LEARNER} holds no answer although it is its task's last object"


def test_a_store_that_takes_nothing_fails_the_task():
    failed = answer(Memory(fault=StorageFault("the disk is full")), Work())
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.message, failed.again) == ("storage", "the disk is full", False)
    assert failed.usage.puts == 1


@pytest.mark.parametrize(
    ("error", "kind", "again"),
    [
        (EnvironmentFault("x"), "environment", True),
        (Unsupported("x"), "request", False),
        (errors.NotFinite("x"), "not_finite", False),
        (errors.BadRequest("x"), "request", False),
        (errors.MissingExtra("x"), "missing_extra", False),
        (errors.NoSuchObject("x"), "corrupt_object", False),
    ],
)
def test_an_expected_error_is_answered_by_its_kind(error, kind, again):
    assert answer(Memory(), Work(error=error), attempt=1) == Failed(
        id=TASK.address.id, attempt=1, kind=kind, message=str(error), again=again, usage=Usage(gets=1)
    )


def test_an_unexpected_error_escapes_to_the_platform():
    with pytest.raises(ZeroDivisionError):
        answer(Memory(), Work(error=ZeroDivisionError()))


def test_a_task_of_another_function_is_refused():
    failed = ask(act, TASK, Memory())
    assert (failed.kind, failed.message) == ("request", "this function does not serve InitialiseTask")


def test_objects_are_read_together_and_checked():
    bodies = {key: codec.encode({key: np.array([n])}, TaskHeader(task="t")) for n, key in enumerate("ab")}
    refs = tuple(codec.reference(key, body) for key, body in bodies.items())
    assert {name: array.tolist() for name, array in read(Memory(**bodies), refs).items()} == {"a": [0], "b": [1]}
    WARM.clear()
    flipped = bodies | {"b": bodies["b"][:-1] + b"\x07"}
    with pytest.raises(errors.CorruptObject, match=r"b is not the object the run recorded"):
        read(Memory(**flipped), refs)
    with pytest.raises(errors.CorruptObject, match="torn is not a safetensors object"):
        read(Memory(torn=WHOLE[:-1]), (codec.reference("torn", WHOLE[:-1]),))


def later(kind, work, **fields):
    common = {"run": "run", "timeout_s": TASK.timeout_s, "seed": TASK.address.seed, "team": TASK.team}
    return make_task(kind, **common, id=f"run/000001/{work}", round=1, output=f"rounds/000001/{work}", **fields)


def one_round(blobs):
    """A first round of the toy by the real functions: (handler, task, answer) of each."""
    drawn = ask(learn, TASK, blobs)
    policies, learner = drawn.objects["policies"], drawn.objects["learner"]
    sampling = later(
        SampleTask, "sample", environment=TOY, policies=(policies,), rollouts=(0, 1), num_envs=4, rollout_length=6
    )
    sampled = ask(act, sampling, blobs)
    learning = later(
        LearnTask, "learn", learning=TASK.learning,
        groups=(0, 1), rollouts=(0, 1), stages=("postprocess", "critic", "policy"),
        trajectories=(sampled.objects["trajectory"],), state=(policies, learner), publish_tensors=True,
    )  # fmt: skip
    learnt = ask(learn, learning, blobs)
    return [(learn, TASK, drawn), (act, sampling, sampled), (learn, learning, learnt)]


def test_round_of_real_tasks_is_answered_from_storage():
    blobs = Memory()
    served = one_round(blobs)
    assert [sorted(done.objects) for *_, done in served] == [
        ["learner", "policies"], ["trajectory"], ["learner", "policies", "tensors"],
    ]  # fmt: skip
    stored = dict(blobs.objects)
    for handler, task, done in served:
        again = ask(handler, msgspec.structs.replace(task, attempt=1), blobs)
        assert again == msgspec.structs.replace(done, attempt=1, usage=again.usage)
        assert (again.usage.gets, again.usage.puts) == (1, 0)
    assert blobs.objects == stored
    elsewhere = Memory()
    one_round(elsewhere)
    assert elsewhere.objects == stored


def test_evaluation_stores_nothing_and_repeats_its_answer():
    blobs = Memory()
    policies = one_round(blobs)[-1][2].objects["policies"]
    before = dict(blobs.objects)
    task = later(EvaluateTask, "evaluate", environment=TOY, policies=(policies,), stream="curve", part=0, episodes=7)
    first, second = ask(evaluate, task, blobs), ask(evaluate, msgspec.structs.replace(task, attempt=1), blobs)
    assert second == msgspec.structs.replace(first, attempt=1)
    assert (len(first.reply.returns), first.objects, first.usage.puts) == (7, {}, 0)
    assert blobs.objects == before


def test_object_truncated_after_header_is_corrupt():
    blobs, work = Memory(), Work()
    answer(blobs, work)
    blobs.objects[LEARNER] = blobs.objects[LEARNER][:-1]
    failed = answer(blobs, work, attempt=1)
    assert isinstance(failed, Failed)
    assert failed.kind == "corrupt_object"


def test_policies_that_lack_group_are_refused():
    blobs = Memory()
    initialised = ask(learn, TASK, blobs)
    policies = (initialised.objects["policies"],)
    task = later(SampleTask, "sample", environment=TOY, policies=policies, rollouts=(0,), num_envs=2, rollout_length=5)
    task = msgspec.structs.replace(task, team=Team(groups=(0, 7)))
    failed = ask(act, task, blobs)
    assert (failed.kind, failed.message) == ("request", "the task's policies hold no network for group g07")


def header(**fields):
    made = {"policies": Ref(key=POLICIES, sha256="", size=1)}
    done = Done(id=TASK.address.id, attempt=0, **{"objects": made, "reply": InitialiseReply(), **fields})
    return TaskHeader(task=TASK.address.id, done=done)


LAST = Ref(key=LEARNER, sha256="", size=1)


def test_stored_answer_is_of_requested_kind():
    assert stored_answer(TASK, header(), LAST, Usage()).reply == InitialiseReply()
    with pytest.raises(CorruptObject, match="another kind of task"):
        stored_answer(TASK, header(reply=SampleReply(env_steps=10**9)), LAST, Usage())
    with pytest.raises(CorruptObject, match="does not name the objects"):
        stored_answer(TASK, header(objects={}), LAST, Usage())


@pytest.mark.parametrize("key", ["state", "../elsewhere", "rounds/000001/initialise.policies.safetensors"])
def test_stored_answer_names_only_objects_of_task(key):
    with pytest.raises(CorruptObject, match="did not make"):
        stored_answer(TASK, header(objects={"policies": Ref(key=key, sha256="", size=1)}), LAST, Usage())
