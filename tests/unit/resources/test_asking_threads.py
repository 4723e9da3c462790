"""Threads of one process ask the resources that they have bound."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Barrier, Thread

import numpy as np
import pytest

from marless.functions.isolation.process_guard import ProcessGuard, remark, restore_arithmetic
from marless.functions.resources.port import ProcessResources, ResourceFault


class Judge:
    def __init__(self, answer):
        self.answer = answer

    def call(self, name, questions):
        return [self.answer for _ in questions]

    def kept_as(self, name, question):
        return self.answer.decode()


def in_a_thread(work):
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(work).result(20)


def test_each_thread_asks_what_it_has_bound():
    resources, barrier, heard = ProcessResources(), Barrier(8), {}

    def ask(answer):
        with resources.bind(Judge(answer)):
            for _ in range(20):
                barrier.wait(60)
                heard.setdefault(answer, set()).update(resources.call("judge", [b"q"]))
            barrier.wait(60)

    threads = [Thread(target=ask, args=(b"%d" % number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert heard == {b"%d" % number: {b"%d" % number} for number in range(8)}


def test_helper_thread_asks_resource_bound_by_task():
    resources = ProcessResources()
    with resources.bind(Judge(b"outer")), resources.bind(Judge(b"inner")):
        assert in_a_thread(lambda: resources.call("judge", [b"q"])) == [b"inner"]
        assert in_a_thread(lambda: resources.kept_as("judge", b"q")) == "inner"


def test_helper_thread_is_refused_with_two_bound_threads():
    resources, is_bound, is_over = ProcessResources(), Barrier(2), Barrier(2)

    def other():
        with resources.bind(Judge(b"other")):
            is_bound.wait(60)
            is_over.wait(60)

    with resources.bind(Judge(b"own")):
        thread = Thread(target=other)
        thread.start()
        is_bound.wait(60)
        assert resources.call("judge", [b"q"]) == [b"own"]
        with pytest.raises(
            ResourceFault, match=r"^resource 'judge': 2 threads have resources, and this thread has none"
        ):
            in_a_thread(lambda: resources.call("judge", [b"q"]))
        assert in_a_thread(lambda: resources.kept_as("judge", b"q")) == ""
        is_over.wait(60)
        thread.join(60)
        assert in_a_thread(lambda: resources.call("judge", [b"q"])) == [b"own"]


def test_resources_may_be_released_in_another_thread():
    resources = ProcessResources()
    with ExitStack() as outer, ExitStack() as inner:
        outer.enter_context(resources.bind(Judge(b"outer")))
        inner.enter_context(resources.bind(Judge(b"inner")))
        in_a_thread(outer.close)
        assert resources.call("judge", [b"q"]) == [b"inner"]
        in_a_thread(inner.close)
        with pytest.raises(ResourceFault, match=r"no run is asked here"):
            resources.call("judge", [b"q"])


def test_guards_of_threads_are_separate():
    def work():
        np.seterr(all="ignore")
        remark("another thread's")
        restore_arithmetic("theirs, step")

    with ProcessGuard("ours", "one") as guard:
        in_a_thread(work)
        remark("our own")
    assert guard.remarks() == ("our own",)
