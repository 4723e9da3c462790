"""Counts and completion times of actions: the bill after kills, and quantiles of known error."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marless.coordinator.call_ledger import ERROR, AttemptCalls, CallLedger, CallTally
from marless.functions.messages.usage import CallTime, CallUse

JUDGE = "judge"


def use(count=0, hits=0, ms=0):
    return {JUDGE: CallUse(count=count, hits=hits, ms=ms)}


def unpaid(earlier, calls, kept_names, is_over=False):
    """Return the unpaid part of an attempt's calls, after the `earlier` attempts at the work item."""
    return CallLedger({"000003/sample": earlier} if earlier else {}, {}).record(
        "000003/sample", calls, kept_names, is_over
    )[1]


@given(st.lists(st.floats(0.001, 1e6), min_size=1, max_size=200), st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]))
def test_quantile_is_within_hundredth_of_its_time(times, share):
    tally = CallTally().plus(CallUse(count=len(times)), times)
    exact = float(np.quantile(times, share, method="inverted_cdf"))
    assert tally.quantile_ms(share) == pytest.approx(exact, rel=ERROR * (1 + 1e-9))
    assert tally.mean_ms == pytest.approx(np.mean(times))


@pytest.mark.parametrize("count", [2, 100])
def test_quantile_is_not_exceeded_by_its_share(count):
    tally = CallTally().plus(CallUse(count=count), [10.0] * (count - 1) + [500.0])
    # 99 of 100 take 10 ms, which is the share that is asked for.
    assert tally.quantile_ms(0.99) == pytest.approx(500.0 if count == 2 else 10.0, rel=ERROR)
    assert tally.quantile_ms(1.0) == pytest.approx(500.0, rel=ERROR)


def test_tally_adds_in_any_order_and_survives_ledger():
    one_by_one = CallTally()
    for each in (30.0, 0.0, 5.0):
        one_by_one = one_by_one.plus(CallUse(count=1, ms=7), [each])
    at_once = CallTally().plus(CallUse(count=3, ms=21), [0.0, 5.0, 30.0])
    assert (one_by_one.use, one_by_one.buckets) == (at_once.use, at_once.buckets)
    assert msgspec.json.decode(msgspec.json.encode(at_once), type=CallTally) == at_once


def test_tally_without_time_has_no_mean_or_quantile():
    tally = CallTally().plus(CallUse(hits=4), [])
    assert (tally.mean_ms, tally.quantile_ms(0.99)) == (None, None)


def test_attempts_pay_all_uncached_questions():
    asked = AttemptCalls(1, use(count=5, ms=50))
    assert unpaid({0: use(count=3, ms=30)}, asked, ()) == use(count=5, ms=50)


def test_stored_actions_are_billed_once():
    stored = AttemptCalls(0, use(count=5, ms=50), repeats_earlier_report=True)
    # Its process died and the pool has reported, or the driver died too and the report is missing.
    assert unpaid({0: use(count=5, ms=50)}, stored, ()) == {}
    assert unpaid({}, stored, ()) == use(count=5, ms=50)


def test_cached_answer_is_paid_once_per_work_item():
    # The first attempt died after two questions. The second was given their answers, and has asked three more.
    second = AttemptCalls(1, use(count=5, hits=1, ms=50))
    assert unpaid({0: use(count=2, ms=20)}, second, {JUDGE}) == use(count=3, hits=1, ms=30)
    third = AttemptCalls(2, use(count=1, ms=10))
    assert unpaid({0: use(count=2, ms=20), 1: use(count=5, hits=1, ms=50)}, third, {JUDGE}) == use()


@pytest.mark.parametrize("earlier, paid", [({}, {}), ({0: use(count=2, ms=20)}, use(count=3, ms=30))])
def test_work_before_last_checkpoint_has_paid_cached_answers(earlier, paid):
    assert unpaid(earlier, AttemptCalls(1, use(count=5, ms=50)), {JUDGE}, is_over=True) == paid


def test_completion_is_question_to_answer_per_resource():
    times = (CallTime(JUDGE, 0, 10.0, 15.0, 40.0), CallTime("solver", 1, 0.0, 0.0, 3.0))
    calls = AttemptCalls(0, use(count=1), times)
    ledger, _ = CallLedger({}, {}).record("000003/sample", calls, (), is_over=False)
    assert ledger.tallies[JUDGE].sum_ms == 30.0
    assert calls.without({JUDGE}).use == {}


def test_work_items_of_earlier_rounds_leave_the_ledger():
    ledger = CallLedger({"000003/sample": {0: use(count=1)}, "000004/sample": {0: use(count=1)}}, {})
    assert list(ledger.since(4).paid) == ["000004/sample"]
