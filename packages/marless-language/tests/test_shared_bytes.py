"""Processes that fork from one share bytes, and results do not depend on it."""

import os

import numpy as np
import pytest
import torch
from small_bases import SHAPE, random_base

from marless_language.adapter_layout import AdapterLayout
from marless_language.model.shared_bytes import Below, SharedBytes
from marless_language.model.speaker import Speaker

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="the system has no memory without a name")
LAYOUT = AdapterLayout(SHAPE, 2, 1)


def in_fork(deed):
    """Return whether `deed` succeeds in a fork of this process."""
    pid = os.fork()
    if pid == 0:
        try:
            deed()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_what_a_fork_puts_there_others_find():
    shared = SharedBytes(1000)
    assert in_fork(lambda: shared.put(b"a", b"one"))
    assert shared.get(b"a") == b"one" and shared.get(b"b") is None
    shared.put(b"b", b"two")
    shared.put(b"b", b"three")
    assert in_fork(lambda: [shared.get(b"b") == b"two" or 1 / 0])


def test_where_there_is_no_room_nothing_is_kept():
    shared = SharedBytes(1000)
    shared.put(b"a", bytes(2000))
    shared.put(b"b", b"two")
    assert shared.get(b"a") is None and shared.get(b"b") == b"two"


@pytest.mark.parametrize("place", [0, 7, 8, 60, 79, 80, 85])
def test_what_others_have_written_there_counts_for_nothing(place):
    shared, other = SharedBytes(1000), SharedBytes(1000)
    shared.put(b"a", bytes(20))
    shared._memory[place] ^= 255
    other._file, other._memory = shared._file, shared._memory
    assert other.get(b"a") in (None, bytes(20))


def test_closing_its_file_costs_the_entries_alone():
    shared = SharedBytes(1000)
    os.close(shared._file)
    shared.put(b"a", b"one")
    assert shared.get(b"a") is None


class Counting(Speaker):
    count = 0

    def _trunk(self, tokens, common):
        self.count += len(tokens)
        return super()._trunk(tokens, common)


def test_shared_text_is_computed_once_with_same_bytes():
    shared, tokens = SharedBytes(10**6), np.arange(24, dtype=np.int32).reshape(4, 6) % SHAPE.vocabulary
    first, second, other = (Counting(random_base(), LAYOUT, store=Below(shared, name)) for name in (b"a", b"a", b"b"))
    computed = [speaker.trunk(tokens[:count]) for speaker, count in ((first, 3), (second, 4), (other, 4))]
    assert [first.count, second.count, other.count] == [3, 1, 4]
    assert torch.equal(computed[1], computed[2]) and torch.equal(computed[0], computed[1][:3])
