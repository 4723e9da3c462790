"""Completion sets: the last report of a request is recognised, even if reports are repeated."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marless.functions import completion
from marless.functions.completion import (
    CompletionReport,
    completion_report,
    gather_reports,
    read_top_set,
    report_completion,
)
from marless.functions.environments.base import AgentClass, EnvSpec
from marless.functions.messages.actor import DescribeReply
from marless.functions.messages.exchange import Done, Failed
from marless.functions.messages.order import FAN, SET_BYTES, ReportTo
from marless.functions.messages.usage import Usage

SPEC = EnvSpec(agents=("a",), classes=(AgentClass("all", (0,), 1, 2),), horizon=3)


class Sets(dict):
    largest = writes = 0

    def add(self, name, member):
        self[name] = self.get(name, frozenset()) | {member}
        self.largest, self.writes = max(self.largest, len(self[name])), self.writes + 1
        return self[name]

    def read(self, names):
        return [self.get(name, frozenset()) for name in names]


def address(index, count, ask="7"):
    return ReportTo(ask=ask, index=index, count=count, coordinator="c:1")


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 128, 1000, 4096, 4097, 10_000])
def test_only_last_report_completes_ask(count):
    sets, order = Sets(), list(range(count))
    random.Random(count).shuffle(order)
    completed = [report_completion(sets, address(index, count), CompletionReport(0, 5)) for index in order]
    assert completed == [False] * (count - 1) + [True]
    assert sets.largest <= FAN
    assert read_top_set(sets, "7", count).is_complete
    assert sorted(gather_reports(sets, "7", count).reports) == list(range(count))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 200), st.randoms(use_true_random=False))
def test_repeated_reports_change_nothing_and_complete_again(count, chance):
    sets, order = Sets(), [index for index in range(count) for _ in range(chance.choice((1, 1, 2, 3)))]
    chance.shuffle(order)
    seen = set()
    for index in order:
        seen.add(index)
        completed = report_completion(sets, address(index, count), CompletionReport(0, 5))
        # Above a complete set every level is complete too, so a repeated report climbs to the root.
        assert completed == (len(seen) == count)
        assert read_top_set(sets, "7", count).is_complete == completed
    assert all(report_completion(sets, address(index, count), CompletionReport(0, 5)) for index in range(count))


def test_interrupted_report_is_completed_by_repetition():
    sets, count = Sets(), 65
    for index in range(count):
        report_completion(sets, address(index, count), CompletionReport(0, 5))
    del sets[completion.set_name("7", 1, 0)]
    assert not read_top_set(sets, "7", count).is_complete
    assert not report_completion(sets, address(0, count), CompletionReport(0, 5))
    assert report_completion(sets, address(64, count), CompletionReport(0, 5))


def test_asks_do_not_mix():
    sets = Sets()
    assert not report_completion(sets, address(0, 2, ask="1"), CompletionReport(0, 5))
    assert not report_completion(sets, address(1, 2, ask="2"), CompletionReport(0, 5))
    assert not any(read_top_set(sets, ask, 2).is_complete for ask in ("1", "2"))


def test_report_has_answer_usage_and_billed_durations():
    usage = Usage(puts=2, gets=3, bytes_written=40, bytes_read=50)
    done = Done(id="t", attempt=4, reply=DescribeReply(spec=SPEC), usage=usage)
    report = completion_report(done, 10.2, 100.5, 61.1)
    assert (report.attempt, report.duration_ms, report.start_ms, report.peak_mb, report.usage) == (
        4,
        11,
        101,
        62,
        usage,
    )
    assert (report.kind, report.again) == ("", False)
    failed = Failed(id="t", attempt=0, kind="environment", message="x" * 1000, again=True, usage=usage)
    report = completion_report(failed, 1.0, 0.0, 1.0)
    assert (report.kind, len(report.message), report.again) == ("environment", 400, True)


def test_reports_are_gathered_as_written_with_duplicates():
    sets = Sets()
    first, second, other = (
        CompletionReport(1, 500, 2, 7, 123_456, 7_890, 88, 950),
        CompletionReport(1, 501),
        CompletionReport(0, 3, kind="crash", message="it"),
    )
    for index, report in ((0, first), (0, second), (1, other)):
        report_completion(sets, address(index, 2), report)
    reports = gather_reports(sets, "7", 2).reports
    assert set(reports[0]) == {first, second} and reports[1] == [other]


def test_full_set_costs_at_most_two_capacity_units():
    sets = Sets()
    for index in range(FAN):
        report_completion(sets, address(index, FAN), CompletionReport(0, 2_500, 1, 3, 900_000, 300_000, 120, 0))
    (members,) = sets.read([completion.set_name("7", 0, 0)])
    assert SET_BYTES + sum(map(len, members)) <= 2 * 1024


def test_writes_and_reads_count_by_item_size():
    sets, sizes = Sets(), []
    for index in range(65):
        report_completion(sets, address(index, 65), CompletionReport(0, 5))
        sizes.append(SET_BYTES + sum(map(len, sets[completion.set_name("7", 0, index // FAN)])))
    gathered = gather_reports(sets, "7", 65)
    # 65 writes of leaves, then one for each of the two leaves in the root, with members of one byte.
    assert sorted(gathered.updates) == sorted([*sizes, SET_BYTES + 1, SET_BYTES + 2])
    assert sets.writes == len(gathered.updates)
    # Read: both leaves, and the root for itself.
    assert gathered.reads == (sizes[63], sizes[64])
    assert (read_top_set(sets, "7", 65).size, read_top_set(sets, "7", 64).size) == (SET_BYTES + 2, sizes[63])
