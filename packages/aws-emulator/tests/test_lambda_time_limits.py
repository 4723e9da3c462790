"""The emulated Lambda service ends, replaces or retries when a time limit is reached."""

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from emulated_service import DEEDS, serving, wait_for_end, wait_until

from aws_emulator.lambda_service import async_events, environments, pool
from aws_emulator.lambda_service.invocation_result import Refused
from aws_emulator.lambda_service.versions import Registry


def test_an_environment_that_nobody_uses_is_ended():
    with serving(idle_s=0.1) as service:
        service.lambdas.publish(DEEDS)
        wait_for_end(service.invoke()["Payload"]["pid"])
        assert service.invoke()["Payload"]["calls"] == 1


def test_an_environment_that_is_too_old_is_replaced(monkeypatch):
    monkeypatch.setattr(pool, "LIFETIME_S", 0.0)
    with serving() as service:
        service.lambdas.publish(DEEDS)
        assert [service.invoke()["Payload"]["calls"] for _ in range(2)] == [1, 1]


@pytest.mark.parametrize(("patience_s", "first"), [(60.0, "deeds"), (0.0, "other")])
def test_a_free_environment_goes_to_its_own_version(monkeypatch, meeting, tmp_path, patience_s, first):
    monkeypatch.setattr(pool, "PATIENCE_S", patience_s)
    note = {"do": "append", "file": str(tmp_path / "order")}
    with serving(most_processes=1) as service, ThreadPoolExecutor(3) as threads:
        service.lambdas.publish(DEEDS)
        service.lambdas.publish(replace(DEEDS, name="other"))
        calls = [threads.submit(service.invoke, **meeting.event)]
        meeting.begun()
        for waiting, name in enumerate(("other", "deeds"), start=1):
            calls.append(threads.submit(service.invoke, name=name, text=name, **note))
            wait_until(lambda count=waiting: len(service.lambdas._pool._waiting) == count)
        meeting.release()
        for call in calls:
            call.result()
    assert (tmp_path / "order").read_text().split()[0] == first


def test_timeout_kills_environment_and_its_children(tmp_path):
    with serving() as service:
        service.lambdas.publish(replace(DEEDS, timeout_s=2.0))
        answer = service.invoke(do="hang", file=str(tmp_path / "pids"))
        for pid in (tmp_path / "pids").read_text().split():
            wait_for_end(int(pid))
        assert service.invoke()["Payload"]["calls"] == 1
    request = answer["ResponseMetadata"]["RequestId"]
    assert answer["FunctionError"] == "Unhandled"
    assert answer["Payload"] == {
        "errorType": "Sandbox.Timedout",
        "errorMessage": f"RequestId: {request} Error: Task timed out after 2.00 seconds",
    }
    assert re.search(
        rf"\n\d{{4}}-\d\d-\d\dT[\d:.]{{12}}Z {request} Task timed out after 2\.00 seconds\n", answer["Log"]
    )
    assert "\tDuration: 2000.00 ms\t" in answer["Log"]
    assert answer["Log"].endswith("\tStatus: timeout\n")


def test_slow_init_is_repeated_within_invocation(monkeypatch, tmp_path):
    monkeypatch.setattr(environments, "INIT_LIMIT_S", 3.0)
    mark = {"SLOW_MARK": str(tmp_path / "mark")}
    with serving() as service:
        service.lambdas.publish(replace(DEEDS, handler="start_deeds.handler", environment=mark))
        answer = service.invoke()
    assert answer["Payload"] == "awake"
    assert answer["Log"].startswith("slow\nINIT_REPORT Init Duration: 3")
    assert " ms\tPhase: init\tStatus: timeout\nSTART RequestId" in answer["Log"]
    assert "\tInit Duration" not in answer["Log"]


def test_endless_init_uses_whole_function_timeout(monkeypatch, tmp_path):
    monkeypatch.setattr(environments, "INIT_LIMIT_S", 0.3)
    always = {"SLOW_MARK": str(tmp_path / "mark"), "SLOW_ALWAYS": "yes"}
    with serving() as service:
        slow = replace(DEEDS, handler="start_deeds.handler", environment=always, timeout_s=0.4)
        service.lambdas.publish(slow)
        answer = service.invoke()
    assert answer["Payload"]["errorType"] == "Sandbox.Timedout"
    assert answer["Payload"]["errorMessage"].endswith("Task timed out after 0.40 seconds")
    assert re.findall(r"Phase: (\w+)\tStatus: (\w+)", answer["Log"]) == [("init", "timeout"), ("invoke", "timeout")]


def test_event_throttled_too_long_becomes_dead_letter():
    with serving() as service:
        service.lambdas.publish(replace(DEEDS, max_event_age_s=0.5))
        service.lambdas.reserve("deeds", 0)
        began = time.monotonic()
        request = service.submit(do="describe")["ResponseMetadata"]["RequestId"]
        assert service.letter.wait(60)
        assert 0.5 <= time.monotonic() - began < 30
    (letter,) = service.buried
    assert (letter.arn, letter.request_id) == ("arn:aws:sqs:us-east-1:123456789012:dead", request)
    assert json.loads(letter.body) == {"do": "describe"}
    assert (letter.error_code, letter.error_message) == (429, "Rate Exceeded.")


@pytest.mark.parametrize("retries", [0, 2])
def test_failed_event_is_retried_up_to_the_limit(monkeypatch, retries):
    monkeypatch.setattr(async_events, "FAILED_S", 0.05)
    with serving() as service:
        service.lambdas.publish(replace(DEEDS, max_retries=retries))
        request = service.submit(do="fail", text="y" * 2000)["ResponseMetadata"]["RequestId"]
        assert service.letter.wait(60)
        starts = [entry for entry in service.logs if f"START RequestId: {request} Version: 1" in entry[2]]
        assert len(starts) == 1 + retries
    (letter,) = service.buried
    assert (letter.error_code, letter.error_message) == (200, "y" * 1024)


def test_retry_pauses_grow_until_event_expires():
    registry = Registry("us-east-1", "123456789012", 1000)
    registry.publish(replace(DEEDS, max_event_age_s=100.0))
    event = async_events.Event(registry.resolve("deeds", None), None, endless=False)
    refused = Refused(429, "TooManyRequestsException", {"message": "Rate Exceeded."})
    assert [event.count_throttle(refused) for _ in range(8)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    event.arrival_s -= 98.0
    assert 1.0 < event.count_throttle(refused) <= 2.0
    event.arrival_s -= 10.0
    assert event.count_throttle(refused) == 0.0
