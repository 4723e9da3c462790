"""Completion sets: whoever comes last notices, however often anybody comes."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions import completion
from functions.completion import FAN, ITEM_BYTES, Note, complete, gather, note, tell
from functions.contract import DescribeReply, Done, Failed, ReportTo, Usage
from functions.environments.base import AgentClass, EnvSpec

SPEC = EnvSpec(agents=("a",), classes=(AgentClass("all", (0,), 1, 2),), horizon=3)


class Sets(dict):
    """Completion sets in memory; `largest` is the most members any set ever had."""

    largest = writes = 0

    def add(self, name, member):
        self[name] = self.get(name, frozenset()) | {member}
        self.largest, self.writes = max(self.largest, len(self[name])), self.writes + 1
        return self[name]

    def read(self, names):
        return [self.get(name, frozenset()) for name in names]


def address(index, count, ask=7):
    return ReportTo(ask=ask, index=index, count=count, coordinator="c:1")


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 128, 1000, 4096, 4097, 10_000])
def test_only_the_last_of_any_order_hears_that_all_have_ended(count):
    sets, order = Sets(), list(range(count))
    random.Random(count).shuffle(order)
    heard = [tell(sets, address(index, count), Note(0, 5)) for index in order]
    assert heard == [False] * (count - 1) + [True]
    assert sets.largest <= FAN
    assert complete(sets, 7, count)
    assert sorted(gather(sets, 7, count).notes) == list(range(count))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 200), st.randoms(use_true_random=False))
def test_doubled_reports_change_nothing_and_one_that_comes_again_is_told_again(count, chance):
    sets, order = Sets(), [index for index in range(count) for _ in range(chance.choice((1, 1, 2, 3)))]
    chance.shuffle(order)
    seen = set()
    for index in order:
        seen.add(index)
        heard = tell(sets, address(index, count), Note(0, 5))
        # All parts of the tree above a complete set stand: any later word of a member climbs to the root.
        assert heard == (len(seen) == count)
        assert complete(sets, 7, count) == heard
    assert all(tell(sets, address(index, count), Note(0, 5)) for index in range(count))


def test_one_that_died_between_two_levels_is_made_up_for_by_itself():
    sets, count = Sets(), 65
    for index in range(count):
        tell(sets, address(index, count), Note(0, 5))
    del sets[completion.set_name(7, 1, 0)]
    assert not complete(sets, 7, count)
    assert not tell(sets, address(0, count), Note(0, 5))
    assert tell(sets, address(64, count), Note(0, 5))


def test_asks_do_not_mix():
    sets = Sets()
    assert not tell(sets, address(0, 2, ask=1), Note(0, 5))
    assert not tell(sets, address(1, 2, ask=2), Note(0, 5))
    assert not complete(sets, 1, 2) and not complete(sets, 2, 2)


def test_a_note_says_what_the_answer_took_rounded_up_as_it_is_billed():
    usage = Usage(puts=2, gets=3, bytes_written=40, bytes_read=50)
    done = Done(id="t", attempt=4, reply=DescribeReply(spec=SPEC), usage=usage)
    told = note(done, 10.2, 100.5, 61.1)
    assert (told.attempt, told.duration_ms, told.start_ms, told.peak_mb, told.usage) == (4, 11, 101, 62, usage)
    assert (told.kind, told.again) == ("", False)
    failed = Failed(id="t", attempt=0, kind="environment", message="x" * 1000, again=True, usage=usage)
    told = note(failed, 1.0, 0.0, 1.0)
    assert (told.kind, len(told.message), told.again) == ("environment", 400, True)


def test_notes_come_back_as_they_were_told_both_of_an_event_that_came_twice():
    sets = Sets()
    first, second, other = (
        Note(1, 500, 2, 7, 123_456, 7_890, 88, 950),
        Note(1, 501),
        Note(0, 3, kind="crash", message="it"),
    )
    for index, told in ((0, first), (0, second), (1, other)):
        tell(sets, address(index, 2), told)
    notes = gather(sets, 7, 2).notes
    assert set(notes[0]) == {first, second} and notes[1] == [other]


def test_an_ordinary_member_is_so_small_that_a_full_set_costs_two_units_at_most():
    sets = Sets()
    for index in range(FAN):
        tell(sets, address(index, FAN), Note(0, 2_500, 1, 3, 900_000, 300_000, 120, 0))
    (members,) = sets.read([completion.set_name(7, 0, 0)])
    assert ITEM_BYTES + sum(map(len, members)) <= 2 * 1024


def test_what_was_written_and_read_is_counted_by_the_size_items_had():
    sets, sizes = Sets(), []
    for index in range(65):
        body = Note(0, 5)
        tell(sets, address(index, 65), body)
        sizes.append(ITEM_BYTES + sum(map(len, sets[completion.set_name(7, 0, index // FAN)])))
    found = gather(sets, 7, 65)
    # 65 writes of leaves, then one for each of the two leaves in the root, whose members have one byte each.
    assert sorted(found.updates) == sorted([*sizes, ITEM_BYTES + 1, ITEM_BYTES + 2])
    assert sets.writes == len(found.updates)
    # Read: the root once, and both leaves.
    assert found.reads == (ITEM_BYTES, sizes[63], sizes[64])
