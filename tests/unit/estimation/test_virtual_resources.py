"""Tasks that wait for the slots of a resource on a virtual clock, against times counted by hand and by theory."""

import numpy as np
import pytest

from marless.estimation.asking_functions import VirtualResources
from marless.estimation.recorded_calls import RecordedAsk, asks_of, blocked_ms
from marless.estimation.service_times import ResourceTimes
from marless.functions.messages.usage import CallTime, CallUse


def played(times, *courses, seed=0):
    """Return the end of each task with a course (start-up, asks, work), and their common use of the resource."""
    resources = VirtualResources({"judge": times}, np.random.default_rng(seed))
    ends, uses = [0.0] * len(courses), []
    for number, course in enumerate(courses):

        def finish(use, number=number):
            ends[number] = resources.now_ms
            uses.append(use.get("judge", CallUse()))

        resources.play(*course, finish)
    resources.run()
    return ends, sum(uses, CallUse())


def test_a_task_computes_asks_and_computes():
    course = (5.0, (RecordedAsk("judge", 10.0, (100.0,)), RecordedAsk("judge", 20.0, (100.0, 50.0))), 40.0)
    ends, use = played(ResourceTimes(slots=2), course)
    # 5 + 10 + 100 + 20 + 100, and the remaining 10 of work.
    assert ends == [245.0]
    assert use == CallUse(count=3, ms=250)


def test_questions_beyond_the_slots_wait_in_order():
    ends, _ = played(ResourceTimes(slots=1), *((0.0, (RecordedAsk("judge", 0.0, (10.0,)),), 0.0) for _ in range(3)))
    assert ends == [10.0, 20.0, 30.0]
    ends, _ = played(ResourceTimes(slots=2), (0.0, (RecordedAsk("judge", 0.0, (10.0, 10.0, 10.0)),), 0.0))
    assert ends == [20.0]


def test_each_slot_starts_once_and_is_billed():
    ask = RecordedAsk("judge", 0.0, (10.0, 10.0, 10.0))
    ends, use = played(ResourceTimes(slots=2, hand_over_ms=1.0, init_ms=100.0), (0.0, (ask, ask), 0.0))
    # Two slots start. The third question, and the second ask's, find them warm.
    assert use == CallUse(count=6, ms=2 * 100 + 60)
    assert ends == [(110 + 1 + 10 + 1) + (10 + 1 + 10 + 1)]


def test_polling_wastes_only_pauses_and_keeps_slots():
    courses = [(0.0, (RecordedAsk("judge", 0.0, (200.0,)),) * 4, 0.0) for _ in range(12)]
    queued, _ = played(ResourceTimes(slots=3), *courses)
    polled, use = played(ResourceTimes(slots=3, polls=True), *courses)
    least_ms = 12 * 4 * 200 / 3
    assert max(queued) == pytest.approx(least_ms)
    assert least_ms < max(polled) < 1.6 * least_ms
    assert use == CallUse(count=48, ms=48 * 200)


def test_actions_that_were_asked_together_are_one_ask():
    actions = [
        CallTime("judge", 0, 10.0, 10.0, 60.0),
        CallTime("judge", 1, 10.0, 30.0, 90.0),
        CallTime("judge", 0, 100.0, 100.0, 105.0),
    ]
    assert asks_of(actions) == (RecordedAsk("judge", 10.0, (50.0, 60.0)), RecordedAsk("judge", 10.0, (5.0,)))
    assert blocked_ms(actions) == 80.0 + 5.0
    assert asks_of(()) == () and blocked_ms(()) == 0.0
