"""The contract of every invoker, `marless.coordinator.drive.ports.Invoker`. `echo` lists the actions of tasks."""

import os
import time

import pytest
from asking import ask, begin, collect, said

# Where a process serves one caller alone.
ALONE = ["local", "emulated"]


def test_task_is_answered_with_result_of_its_function(invoker):
    begin(invoker, "run/000001/sample", "echo", "body", attempt=3)
    report = collect(invoker, 1)["run/000001/sample"]
    assert (report.outcome, report.body, report.attempt, report.function) == ("answered", b'"body"', 3, "actor")
    assert report.detail == ""


def test_waiting_with_nothing_under_way_ends_in_time(invoker):
    start = time.monotonic()
    assert invoker.wait(0.1) == []
    assert 0.1 <= time.monotonic() - start < 10


def test_tasks_beyond_capacity_are_each_reported_once(invoker):
    for number in range(20):
        begin(invoker, f"{number}", "echo", number)
    reports = collect(invoker, 20)
    assert {id: said(report) for id, report in reports.items()} == {f"{n}": n for n in range(20)}


def test_stop_withdraws_tasks_not_yet_begun(invoker):
    for number in range(10):
        begin(invoker, f"{number}", "sleep", 1.5)
    invoker.withdraw()
    outcomes = [report.outcome for report in collect(invoker, 10).values()]
    assert outcomes.count("answered") <= 2 and outcomes.count("answered") + outcomes.count("withdrawn") == 10


@pytest.mark.slow
def test_bodies_of_megabytes_pass_both_ways_at_once(invoker):
    text = os.urandom(3_000_000).hex()
    for number in range(4):
        begin(invoker, f"{number}", "echo", text)
    assert {said(report) for report in collect(invoker, 4).values()} == {text}


def test_escaped_exception_is_crash_with_type_and_message(invoker):
    report = ask(invoker, "fail", "no such landmark")
    assert (report.outcome, report.detail) == ("crash", "ValueError: no such landmark")


def test_unsendable_answer_is_crash(invoker):
    report = ask(invoker, "mumble")
    assert (report.outcome, report.body) == ("crash", b"")


def test_module_that_cannot_be_imported_always_crashes(invoker):
    for _ in range(2):
        report = ask(invoker, "echo", "x", function="learner")
        assert report.outcome == "crash"
        assert "No module named 'no_such_module'" in report.detail


def test_exiting_function_crashes_and_next_task_works(invoker):
    report = ask(invoker, "exit", 3)
    assert report.outcome == "crash"
    assert "exit status 3" in report.detail
    assert "about to exit" in report.detail
    assert said(ask(invoker, "echo", "on")) == "on"


def test_hanging_task_times_out_and_next_works(invoker):
    assert said(ask(invoker, "echo", "warm")) == "warm"
    report = ask(invoker, "sleep", 60, timeout_s=0.3)
    assert (report.outcome, report.body) == ("timeout", b"")
    assert 300 <= report.duration_ms < 10_000
    assert "no answer within 0.3 s" in report.detail
    assert said(ask(invoker, "echo", "on")) == "on"


def test_every_attempt_is_reported_exactly_once(invoker):
    deeds = [
        ("echo", "x", "answered"),
        ("sleep", 60, "timeout"),
        ("exit", 1, "crash"),
        ("fail", "x", "crash"),
        ("segfault", None, "crash"),
        ("leave", 1, "crash"),
        ("echo", "y", "answered"),
        ("sleep", 60, "timeout"),
        ("echo", "z", "answered"),
    ]
    for number, (deed, argument, _) in enumerate(deeds):
        begin(invoker, f"{number}", deed, argument, timeout_s=0.5 if deed == "sleep" else 30.0)
    outcomes = {id: report.outcome for id, report in collect(invoker, len(deeds)).items()}
    assert [outcomes[f"{number}"] for number in range(len(deeds))] == [outcome for _, _, outcome in deeds]
    assert invoker.wait(0.2) == []


def test_printed_text_does_not_disturb_answer(invoker):
    assert said(ask(invoker, "talk")) == "done"
    assert said(ask(invoker, "echo", "on")) == "on"


@pytest.mark.parametrize("invokers", ALONE, indirect=True)
def test_only_first_task_pays_for_environment_start(invoker):
    assert ask(invoker, "echo", "x").init_ms > 10
    assert ask(invoker, "echo", "x").init_ms == 0


def test_the_duration_is_that_of_the_function_alone(invoker):
    report = ask(invoker, "sleep", 0.2)
    assert 200 <= report.duration_ms < 5000


def test_clock_of_queued_task_has_not_begun(invoker):
    for number in range(2):  # both environments are warm
        begin(invoker, f"{number}", "sleep", 0.1)
    collect(invoker, 2)
    for number in range(20):  # 0.3 s each, so the last begins after 2.7 s
        begin(invoker, f"{number}", "fill", 1, timeout_s=2.5)
    assert {said(report) for report in collect(invoker, 20).values()} == {"x"}


@pytest.mark.parametrize("invokers", ALONE, indirect=True)
def test_peak_memory_is_of_function_not_coordinator(invoker):
    coordinator = b"x" * (150 << 20)
    assert 5 < ask(invoker, "echo", "x").peak_mb < 100
    assert ask(invoker, "allocate", 120).peak_mb > 120
    del coordinator


def test_an_unknown_function_is_a_key_error(invoker):
    with pytest.raises(KeyError):
        begin(invoker, "task", "echo", "x", function="critic")


def test_closing_ignores_running_tasks_and_repeats_harmlessly(invokers):
    invoker = invokers.open()
    for number in range(3):
        begin(invoker, f"{number}", "sleep", 20.0)
    assert invoker.wait(0.2) == []
    start = time.monotonic()
    invoker.close()
    invoker.close()
    assert time.monotonic() - start < 15
