"""A process's cache changes no byte that a task reads, after any reads, writes, damage and drops."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import ReadStorage
from task_fields import make_task

from marless.functions import codec
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.errors import CorruptObject, NoSuchObject
from marless.functions.messages.exchange import Answer, TaskHeader
from marless.functions.messages.learner import InitialiseReply, InitialiseTask
from marless.functions.messages.team import Team
from marless.functions.messages.usage import Usage
from marless.functions.serving import Output, read, serve
from marless.functions.warm_cache import WARM, WarmCache, bound_of, keeps_objects
from marless.infra.local.file_storage import FileStorage

ROWS = 50


def encoded(number, rows=ROWS):
    return codec.encode({"policy/g00": np.full(rows, number, np.float32)}, TaskHeader(task=f"t{number}"))


def stored(storage, key, number):
    storage[key] = encoded(number)
    return codec.reference(key, storage[key])


def value(storage, ref):
    [array] = read(storage, (ref,)).values()
    return array


def test_arrays_changed_by_task_are_hidden_from_next():
    storage = ReadStorage()
    ref = stored(storage, "k", 1)
    for _ in range(3):
        array = value(storage, ref)
        np.testing.assert_array_equal(array, np.ones(ROWS))
        array[:] = 7  # like in a process without a cache


def test_object_of_other_run_is_not_confused():
    here, there = ReadStorage(), ReadStorage()
    one, two = stored(here, "k", 1), stored(there, "k", 2)
    for _ in range(2):
        assert (value(here, one)[0], value(there, two)[0]) == (1, 2)
    assert len(here.asked) == len(there.asked) == 1


def test_foreign_object_is_refused_warm_and_cold():
    storage = ReadStorage()
    ref = stored(storage, "k", 1)
    value(storage, ref)
    foreign = stored(storage, "k", 2)
    with pytest.raises(CorruptObject, match="its hash differs"):
        value(ReadStorage({"k": storage["k"]}), codec.reference("k", encoded(3)))
    assert (value(storage, ref)[0], value(storage, foreign)[0]) == (1, 2)


@pytest.mark.parametrize("damaged", [encoded(1)[:-1], encoded(1)[:-1] + b"\x07", b"", None])
def test_damaged_object_is_found_before_it_is_cached(damaged):
    storage = ReadStorage()
    ref = stored(storage, "k", 1)

    def damage():
        storage.pop("k")
        if damaged is not None:
            storage["k"] = damaged

    error = NoSuchObject if damaged is None else CorruptObject
    body = storage["k"]
    damage()
    for _ in range(2):  # a read that fails keeps nothing
        with pytest.raises(error):
            value(storage, ref)
    storage["k"] = body
    value(storage, ref)
    damage()
    np.testing.assert_array_equal(value(storage, ref), np.ones(ROWS))
    WARM.clear()
    with pytest.raises(error):
        value(storage, ref)


def test_a_reference_of_another_size_is_another_object(tmp_path):
    storage = FileStorage(tmp_path)
    storage.put("k", encoded(1))
    ref = codec.reference("k", encoded(1))
    value(storage, ref)
    with pytest.raises(CorruptObject, match="bytes instead of"):
        value(storage, msgspec.structs.replace(ref, size=ref.size + 1))


def test_what_is_kept_cannot_be_written_to():
    storage = ReadStorage()
    ref = stored(storage, "k", 1)
    value(storage, ref)
    assert type(WARM.get((ref.sha256, ref.size))) is bytes


@pytest.mark.parametrize("bound", [0, 400, 1000, 1 << 20])
@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["read", "write", "damage", "overwrite array"]), st.integers(0, 5)), max_size=40
    )
)
def test_any_sequence_equals_cold_reads(bound, steps):
    """A warm read may give the right bytes where a cold one fails, because storage was damaged. Never others."""
    WARM.clear()
    WARM.bound = bound
    storage = ReadStorage()
    refs = {number: codec.reference(f"k{number}", encoded(number)) for number in range(6)}
    for step, number in steps:
        ref = refs[number]
        if step == "write":
            storage[ref.key] = encoded(number)
        elif step == "damage":
            storage[ref.key] = encoded(number + 1)
        else:
            cold = storage.get(ref.key) == encoded(number) if ref.key in storage else False
            try:
                array = value(storage, ref)
            except (CorruptObject, NoSuchObject):
                assert not cold
            else:
                np.testing.assert_array_equal(array, np.full(ROWS, number))
                array[:] = 99
        assert 0 <= WARM.held_bytes <= bound


TASK = make_task(InitialiseTask,
    id="r/0/i", run="r", round=0, output="o", timeout_s=1.0, seed=0, spec=registry.spec(EnvTask(name="toy/signal")),
    algorithm="mappo", hyperparameters={}, team=Team(groups=(0, 1)),
)  # fmt: skip


def served(work, storage):
    return msgspec.json.decode(serve(msgspec.json.encode(TASK), storage, {InitialiseTask: work}), type=Answer)


def test_next_task_reads_written_values_unbilled():
    storage = ReadStorage()
    tensors = {"policy/g00": np.ones(3, np.float32)}
    written = served(lambda task, blobs: ([Output("learner", tensors)], InitialiseReply()), storage)
    ref = written.objects["learner"]

    def reading(task, blobs):
        np.testing.assert_array_equal(read(blobs, (ref,))["policy/g00"], np.ones(3))
        raise CorruptObject("enough")

    usages = [Usage(hits=1, hit_bytes=ref.size), Usage(gets=1, bytes_read=ref.size)]
    assert served(reading, storage).usage == usages[0]
    WARM.clear()
    assert served(reading, storage).usage == usages[1] == usages[0].cold
    assert len(storage.asked) == 1


def test_deployed_function_keeps_only_lasting_values():
    """The choice of an environment is chance, so only objects that all tasks of a run need may save reads."""
    WARM.keeps_objects = False
    storage = ReadStorage()
    written = served(
        lambda task, blobs: ([Output("learner", {"policy/g00": np.ones(3, np.float32)})], InitialiseReply()), storage
    )
    refs = (written.objects["learner"], stored(storage, "k", 1))
    for _ in range(2):
        read(storage, refs)
    assert len(storage.asked) == 4
    dataset = stored(storage, "dataset", 2)
    for _ in range(2):
        read(storage, (dataset,), lasting=True)
    assert len(storage.asked) == 5


def test_lambda_memory_variable_marks_deployed_function():
    assert not keeps_objects({"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024"})
    assert keeps_objects({})


def test_least_recently_used_value_is_dropped_first():
    cache = WarmCache(10)
    for content in "abc":
        cache.keep(content, content, 3)
    assert cache.get("a") == "a"
    cache.keep("d", "d", 3)
    assert [cache.get(content) for content in "abcd"] == ["a", None, "c", "d"]
    assert cache.held_bytes == 9


def test_value_beyond_bound_is_not_kept():
    cache = WarmCache(10)
    cache.keep("a", "a", 3)
    cache.keep("b", "b", 11)
    assert (cache.get("a"), cache.get("b"), cache.held_bytes) == ("a", None, 3)


def test_one_value_is_spared_until_another_is():
    cache = WarmCache(10)
    cache.keep("a", "a", 100, is_spared=True)
    for content in "bcde":
        cache.keep(content, content, 5)
    assert (cache.get("a"), cache.held_bytes) == ("a", 10)
    cache.keep("z", "z", 50, is_spared=True)
    assert (cache.get("a"), cache.get("z")) == (None, "z")
    assert cache.take("z") == "z" and cache.get("z") is None
    assert cache.held_bytes <= 10


@settings(max_examples=100, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["keep", "spare", "get", "take"]), st.integers(0, 5), st.integers(0, 12)), max_size=60
    )
)
def test_held_bytes_are_counted_and_bounded(steps):
    cache, sizes, spared = WarmCache(20), {}, None
    for step, content, size in steps:
        if step in ("keep", "spare"):
            cache.keep(content, size, size, is_spared=step == "spare")
            sizes[content] = size
            spared = content if step == "spare" else None if spared == content else spared
        elif step == "take" and cache.take(content) is not None and spared == content:
            spared = None
        there = [each for each in sizes if each in cache._entries]
        assert spared is None or spared in there
        assert cache.held_bytes == sum(sizes[each] for each in there if each != spared) <= 20


def test_bound_is_share_of_lambda_memory():
    assert bound_of({"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024"}) == 64 << 20
    assert bound_of({}) == 32 << 20
