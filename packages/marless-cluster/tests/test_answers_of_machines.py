"""Answers of workers on other machines are compared with their task: after a difference another worker is asked."""

import random
import struct
import threading

import pytest
from asking import collect
from attempts import attempt_of
from msgspec.structs import replace
from stand_in_agents import StandIns, flipped
from task_fields import make_task

from marless.functions import codec
from marless.functions.encoding import from_json, to_json
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.learner.handler import handle as learn
from marless.functions.messages.evaluator import EvaluateTask
from marless.functions.messages.exchange import Done, Failed
from marless.functions.messages.learner import InitialiseTask, LearnReply
from marless.functions.messages.message import Ref
from marless.functions.messages.order import Attempt
from marless.functions.messages.team import Team
from marless.infra.local.file_storage import FileStorage
from marless.infra.local.pipe_messages import Put, Ready, TaskEnded, frame
from marless_cluster.remote.dial_in_workers import dial_in_run, separate_dial_in_pools

TASK = make_task(
    InitialiseTask,
    id="run/000000/initialise",
    run="run",
    round=0,
    output="rounds/000000/initialise",
    timeout_s=9.0,
    seed=1,
    spec=registry.spec(EnvTask(name="toy/signal")),
    algorithm="mappo",
    hyperparameters={"hidden": [4], "num_minibatches": 2, "epochs": 2},
    team=Team(groups=(0, 1)),
)
MODULES = {"learner": "marless.functions.learner.handler"}


class Honest(dict):
    def __init__(self):
        super().__init__()
        self.answer = from_json(learn(to_json(TASK), self), Done)

    def put(self, key, body):
        self[key] = body

    def get(self, key, size=None):
        raise AssertionError(f"{key} is read")


HONEST = Honest()


def says(call, body, objects=HONEST, answer=HONEST.answer, change=lambda answer: answer):
    """The frames of a worker that stores these objects and gives this answer, in bytes if it is no message."""
    own = from_json(body, InitialiseTask)
    for number, (key, stored) in enumerate(objects.items()):
        yield frame(Put(key, number, call.token, ahead=call.ahead), stored)
    encoded = answer if isinstance(answer, bytes) else to_json(replace(answer, attempt=own.attempt))
    yield frame(TaskEnded(1.0, 1.0, 1.0, 1.0, token=call.token), change(encoded))


def liar(**lies):
    return lambda call, body: says(call, body, **lies)


def honest(call, body):
    return says(call, body)


@pytest.fixture
def pool(tmp_path):
    opened = []

    def open_run(*scripts):
        agents = StandIns(*scripts)
        opened.append(dial_in_run(agents, tmp_path / "run" / "objects", MODULES))
        return opened[-1], agents

    yield open_run
    for each in opened:
        each.close()


def attempt(run, number=0, timeout_s=20.0):
    run.invoke(Attempt("learner", replace(TASK, attempt=number, timeout_s=timeout_s)))
    [report] = collect(run, 1).values()
    return report


def holds_the_task_s_objects(tmp_path):
    storage = FileStorage(tmp_path / "run" / "objects")
    return {key: storage.get(key) for key in storage.list("")} == HONEST


def with_ref(kind="learner", **fields):
    objects = {**HONEST.answer.objects, kind: replace(HONEST.answer.objects[kind], **fields)}
    return replace(HONEST.answer, objects=objects)


STRAY = Ref(key="rounds/000001/learn.policies.safetensors", sha256="0" * 64, size=3)
LIES = {
    "a key outside": {"answer": with_ref(key="../../../" + HONEST.answer.objects["learner"].key)},
    "the key of another round": {"answer": with_ref(key=STRAY.key)},
    "a hash of zeros": {"answer": with_ref(sha256="0" * 64)},
    "another size": {"answer": with_ref(size=99_999_999_999)},
    "an object too few": {"answer": replace(HONEST.answer, objects={"learner": HONEST.answer.objects["learner"]})},
    "an object too many": {"answer": replace(HONEST.answer, objects={**HONEST.answer.objects, "tensors": STRAY})},
    "an object that nobody stored": {"objects": {}},
    "an inlined object too many": {"answer": replace(HONEST.answer, inlined={"answers/stray": b"body"})},
    "another body": {"objects": {key: body[:-1] + b"\0" for key, body in HONEST.items()}},
    "another task": {"answer": replace(HONEST.answer, id="run/000000/sample/00000")},
    "another kind of reply": {"answer": replace(HONEST.answer, reply=LearnReply())},
    "garbage": {"answer": b"\x93garbage"},
    "a stray object": {"objects": {"junk/0": b"junk", **HONEST}},
    "the object of another round": {"objects": {STRAY.key: b"abc", **HONEST}},
    "an object that cannot be read": {
        "objects": {},
        "answer": Failed(id=TASK.address.id, attempt=0, kind="corrupt_object", message="its hash differs", again=False),
    },
}


@pytest.mark.parametrize("lie", LIES)
def test_mismatched_answer_costs_no_attempt_and_is_reassigned(lie, pool, tmp_path):
    run, agents = pool(liar(**LIES[lie]), honest)
    report = attempt(run)
    assert report.outcome == "answered", report.detail
    assert from_json(report.body, Done).objects == HONEST.answer.objects
    assert "served elsewhere" in report.remarks[0] and "agent0" in report.remarks[0]
    assert holds_the_task_s_objects(tmp_path)
    assert agents.calls == {"agent0": 1, "agent1": 1}


def test_repeatedly_wrong_machine_is_named_and_stores_nothing(pool, tmp_path):
    run, _ = pool(liar(answer=with_ref(sha256="0" * 64)))
    report = attempt(run)
    assert report.outcome == "crash"
    assert "agent0 gave an answer that names an object otherwise than it is" in report.detail
    assert "\n" not in report.detail
    assert FileStorage(tmp_path / "run" / "objects").list("") == []


def test_object_of_earlier_attempt_is_accepted_unchanged(pool, tmp_path):
    storage = FileStorage(tmp_path / "run" / "objects")
    for key, body in HONEST.items():
        storage.put(key, body)
    run, _ = pool(liar(objects={}))
    assert from_json(attempt(run).body, Done).objects == HONEST.answer.objects


@pytest.mark.parametrize("is_damaged", [True, False])
def test_locally_damaged_object_is_not_machine_fault(is_damaged, pool, tmp_path):
    read = codec.reference("rounds/000000/initialise.policies.safetensors", b"policies")
    body = b"policies" if not is_damaged else b"policie5"
    FileStorage(tmp_path / "run" / "objects").put(read.key, body)
    fields = {"id": "run/000000/evaluate/0", "run": "run", "round": 0, "output": "rounds/000000/evaluate/0"}
    task = make_task(
        EvaluateTask,
        **fields,
        seed=1,
        environment=EnvTask(name="toy/signal"),
        team=Team(groups=(0, 1)),
        policies=(read,),
        stream="final",
        part=0,
        episodes=1,
    )
    failed = Failed(id=fields["id"], attempt=0, kind="corrupt_object", message="its hash differs", again=False)
    run, agents = pool(lambda call, _: [frame(TaskEnded(1.0, 1.0, 1.0, 1.0, token=call.token), to_json(failed))])
    run.invoke(Attempt("learner", replace(task, timeout_s=20.0)))
    [report] = collect(run, 1).values()
    if is_damaged:
        assert from_json(report.body, Failed) == failed and agents.calls["agent0"] == 1
    else:
        assert report.outcome == "crash" and "cannot read an object that is intact here" in report.detail
        assert agents.calls["agent0"] > 1


def test_machine_with_wrong_answer_is_asked_last(pool, tmp_path):
    lies = iter([True])
    run, agents = pool(lambda call, body: says(call, body, objects={} if next(lies, False) else HONEST), honest)
    storage = FileStorage(tmp_path / "run" / "objects")
    for _ in range(4):
        attempt(run)
        storage.delete(HONEST)
    assert agents.calls == {"agent0": 1, "agent1": 4}
    agents.agents()["agent1"].slots = 0
    attempt(run)
    assert agents.calls["agent0"] == 2 and not agents.agents()["agent0"].is_last_choice


def test_task_prefers_busy_machine_over_wrong_machine(pool, tmp_path):
    other = threading.Event()

    def slow(call, body):
        if body == b"another task":
            other.wait(60)
            return [frame(TaskEnded(1.0, 1.0, 1.0, 1.0, token=call.token), b"its answer")]
        return honest(call, body)

    run, agents = pool(liar(objects={}), slow)
    attempt(run)
    FileStorage(tmp_path / "run" / "objects").delete(HONEST)
    run.invoke(attempt_of("learner", "another", 0, b"another task", 20.0))
    run.invoke(Attempt("learner", replace(TASK, timeout_s=20.0)))
    assert run.wait(0.1) == []
    other.set()
    assert {report.outcome for report in collect(run, 2).values()} == {"answered"}
    assert agents.calls["agent0"] == 1


def test_run_with_one_slot_replaces_wrong_machine(tmp_path):
    agents = StandIns(liar(objects={}), honest)
    with separate_dial_in_pools(agents, MODULES, tmp_path / "logs") as pools:
        lane = pools.lane("one", tmp_path / "run" / "objects")
        assert attempt(lane).outcome == "answered"
    assert agents.calls == {"agent0": 1, "agent1": 1}


@pytest.mark.parametrize(
    "answer",
    [
        lambda call: frame(Ready("any.module", 1.0, call.token)),  # which nothing announced, any number of times
        lambda call: struct.pack("<IQ", 1 << 21, 0),
        lambda call: struct.pack("<IQ", 10, 1 << 30),
    ],
)
def test_invalid_frames_end_the_attempt_immediately(answer, pool):
    run, _ = pool(lambda call, body: [answer(call)])
    report = attempt(run)
    assert report.outcome == "crash" and "wrote into the pipe" in report.detail


class Late:
    is_in_doubt = True


def test_timeout_of_silent_machine_differs_from_task_timeout(pool):
    run, agents = pool(lambda call, body: (), honest)
    agents.agents()["agent0"].pulses = (Late(),)
    run.invoke(Attempt("learner", replace(TASK, timeout_s=0.2)))
    assert run.wait(0.6) == []
    assert agents.calls == {"agent0": 1}
    agents.agents()["agent0"].pulses = ()


def flip_and_compare(run, agents, tmp_path, flips):
    """Each flip is of the first answer to a task. Every task ends with its objects, which are then removed."""
    storage = FileStorage(tmp_path / "run" / "objects")
    for _ in range(flips):
        for number in range(3):
            report = attempt(run, number, timeout_s=1.0)
            if report.outcome == "answered":
                break
        assert report.outcome == "answered", report.detail
        answer = from_json(report.body, Done)
        assert answer.objects == HONEST.answer.objects
        assert answer.reply == HONEST.answer.reply
        assert holds_the_task_s_objects(tmp_path)
        storage.delete(HONEST)


def flipping(draw, on_the_way):
    """A worker that changes a bit in every other answer, after or before its checksums are made."""
    calls = iter(range(1 << 30))

    def script(call, body):
        if next(calls) % 2:
            return honest(call, body)
        if on_the_way:
            parts = list(honest(call, body))
            place = draw.randrange(len(parts))
            return [*parts[:place], flipped(parts[place], draw), *parts[place + 1 :]]
        if draw.random() < 0.5:
            return says(call, body, change=lambda answer: flipped(answer, draw))
        key = draw.choice(list(HONEST))
        return says(call, body, objects={**HONEST, key: flipped(HONEST[key], draw)})

    return script


@pytest.mark.parametrize(
    ("seed", "flips"), [(1, 20), *(pytest.param(seed, 250, marks=pytest.mark.slow) for seed in (2, 3))]
)
@pytest.mark.parametrize("on_the_way", [True, False])
def test_flipped_bit_of_answer_reaches_no_object(on_the_way, seed, flips, pool, tmp_path):
    run, agents = pool(flipping(random.Random(seed), on_the_way))
    flip_and_compare(run, agents, tmp_path, flips)
    assert agents.calls["agent0"] > flips


def test_objects_of_task_equal_objects_of_answer():
    assert {ref.key: ref for ref in HONEST.answer.objects.values()} == {
        key: codec.reference(key, body) for key, body in HONEST.items()
    }
