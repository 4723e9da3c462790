"""Asynchronous events of the emulated Lambda service, loops of functions that call themselves, and schedules."""

import json
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from emulated_service import ARN, DEEDS, refusal, serving, wait_until

from aws_emulator.lambda_service.recursion import follow
from aws_emulator.lambda_service.schedules import Schedule, Schedules


def test_event_is_accepted_immediately_and_runs_once(tmp_path, shared):
    answer = shared.submit(do="append", file=str(tmp_path / "notes"), text="ran")
    assert (answer["StatusCode"], answer["Payload"].read()) == (202, b"")
    request = answer["ResponseMetadata"]["RequestId"]
    wait_until(lambda: any(f"END RequestId: {request}" in entry[2] for entry in shared.logs))
    assert len((tmp_path / "notes").read_text().splitlines()) == 1


def test_a_throttled_event_comes_again(meeting, tmp_path):
    notes = tmp_path / "notes"
    with serving() as service:
        service.lambdas.publish(DEEDS)
        service.lambdas.reserve("deeds", 1)
        service.submit(**meeting.event)
        meeting.begun()
        service.submit(do="append", file=str(notes), text="second")
        assert refusal(service.client.invoke, FunctionName="deeds")[0] == 429
        meeting.release()
        wait_until(notes.exists)
        assert service.buried == []


def test_thousand_events_run_once_in_few_processes(tmp_path):
    notes = tmp_path / "notes"
    with serving(most_processes=3) as service:
        service.lambdas.publish(DEEDS)
        service.lambdas.reserve("deeds", 50)
        for index in range(1000):
            event = {"do": "append", "file": str(notes), "text": str(index)}
            service.lambdas.submit("deeds", "live", json.dumps(event).encode())
        wait_until(lambda: len(service.logs) >= 1000, limit_s=120.0)
        assert service.buried == []
    ran = [line.split() for line in notes.read_text().splitlines()]
    assert sorted(int(index) for index, _ in ran) == list(range(1000))
    assert 1 <= len({pid for _, pid in ran}) <= 3


def test_events_of_a_removed_function_are_dropped(meeting, tmp_path):
    with serving(most_processes=1) as service:
        service.lambdas.publish(DEEDS)
        service.submit(**meeting.event)
        meeting.begun()
        service.submit(do="append", file=str(tmp_path / "notes"), text="late")
        service.lambdas.remove("deeds")
        meeting.release()
        wait_until(lambda: not service.lambdas._queue._due)
    assert not (tmp_path / "notes").exists()
    assert service.buried == []


def test_the_trail_counts_a_function_s_own_runs():
    first = follow(None, ARN)
    assert re.fullmatch(
        r"Root=1-[0-9a-f]{8}-[0-9a-f]{24};Parent=[0-9a-f]{16};Sampled=0;Lineage=[0-9a-f]{8}:0", first.header
    )
    other = follow(first.header, f"{ARN}-other")
    second = follow(other.header.replace("|", "%7C"), ARN)  # as the SDK quotes it
    assert (first.runs_before, other.runs_before, second.runs_before) == (0, 0, 1)
    assert {trail.header.split(";")[0] for trail in (first, other, second)} == {first.header.split(";")[0]}
    assert [count.split(":")[1] for count in second.header.split("Lineage=")[1].split("|")] == ["1", "0"]


def test_a_trail_that_makes_no_sense_begins_anew():
    for header in ("", "nonsense", "Root=;Lineage=|:|x:-1|y:z", "Lineage=" + ARN):
        trail = follow(header, ARN)
        assert trail.runs_before == 0
        assert trail.header.startswith("Root=1-")


def test_a_synchronous_call_after_sixteen_runs_is_refused(loop):
    trace = None
    for _ in range(15):
        trace = follow(trace, ARN).header
    payload = json.dumps({**loop, "most": 20}).encode()
    with serving() as service:
        service.lambdas.publish(DEEDS)
        result = service.lambdas.invoke("deeds", None, payload, trace)
    assert result.payload == b'"RecursiveInvocationException"'
    (run,) = Path(loop["file"]).read_text().splitlines()
    assert run.split(";")[0] == trace.split(";")[0]


def test_looping_event_becomes_dead_letter_after_sixteen_runs(loop):
    with serving(most_processes=1) as service:
        service.lambdas.publish(DEEDS)
        service.submit(**{**loop, "how": "Event", "most": 20})
        assert service.letter.wait(60)
    (letter,) = service.buried
    assert letter.error_code == 400
    assert "recursive loop" in letter.error_message
    assert json.loads(letter.body)["most"] == 4
    trails = Path(loop["file"]).read_text().splitlines()
    assert len(trails) == 16
    assert len({trail.split(";")[0] for trail in trails}) == 1


def test_a_function_that_may_call_itself_goes_on(loop):
    with serving(most_processes=1) as service:
        service.lambdas.publish(replace(DEEDS, recursion_allowed=True))
        service.submit(**{**loop, "how": "Event", "most": 20})
        runs = Path(loop["file"])
        wait_until(lambda: len(service.logs) == 20)
        assert len(runs.read_text().splitlines()) == 20
        assert service.buried == []


def test_schedules_fire_until_removed_or_closed(tmp_path):
    notes = tmp_path / "notes"

    def event(text):
        return json.dumps({"do": "append", "file": str(notes), "text": text}).encode()

    def ran():
        return [line.split()[0] for line in notes.read_text().splitlines()] if notes.exists() else []

    with serving(most_processes=1) as service:  # so that events run in their order
        service.lambdas.publish(DEEDS)
        schedules = Schedules(service.lambdas)
        began = time.monotonic()
        schedules.put("tick", Schedule("deeds", "live", event("tick"), period_s=0.1))
        wait_until(lambda: len(ran()) >= 3)
        assert time.monotonic() - began >= 0.3
        schedules.remove("tick")
        service.lambdas.submit("deeds", None, event("removed"))
        schedules.put("nobody", Schedule("nobody", None, b"{}", period_s=0.01))  # which does not stop the others
        schedules.put("tock", Schedule("deeds", None, event("tock"), period_s=0.2))
        wait_until(lambda: "tock" in ran())
        schedules.close()
        service.lambdas.submit("deeds", None, event("closed"))
        time.sleep(0.3)  # longer than any period
        service.lambdas.submit("deeds", None, event("end"))
        wait_until(lambda: "end" in ran())
    assert "tick" not in ran()[ran().index("removed") :]
    assert ran()[-2:] == ["closed", "end"]


def test_a_schedule_without_a_period_is_refused(shared):
    schedules = Schedules(shared.lambdas)
    try:
        with pytest.raises(ValueError, match="period"):
            schedules.put("never", Schedule("deeds", None, b"{}", period_s=0.0))
    finally:
        schedules.close()
