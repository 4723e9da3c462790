"""The number of concurrent emulated functions: quotas, reservations, and the limit of this machine."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from emulated_service import DEEDS, refusal, serving, wait_for_end, wait_until


def test_machine_limit_delays_calls_and_ends_idle_environments(meeting):
    with serving(most_processes=1) as service, ThreadPoolExecutor(2) as threads:
        service.lambdas.publish(DEEDS)
        service.lambdas.publish(replace(DEEDS, name="other"))
        first = threads.submit(service.invoke, **meeting.event)
        meeting.begun()
        second = threads.submit(service.invoke, name="other")
        wait_until(lambda: service.lambdas._pool._waiting)  # it is queued, not throttled
        assert not second.done()
        meeting.release()
        pid = first.result()["Payload"]
        assert second.result()["Payload"]["pid"] != pid
        wait_for_end(pid)


def test_waiting_functions_do_not_block_functions_they_call(loop):
    with serving(most_processes=1) as service:
        service.lambdas.publish(DEEDS)
        assert service.invoke(**loop, most=3)["Payload"] == "done"  # each runs while the one before waits
        assert len(Path(loop["file"]).read_text().splitlines()) == 3
        pool = service.lambdas._pool
        wait_until(lambda: pool._reserved == 1)  # they are gone again


@pytest.mark.parametrize(
    ("reserved", "limit", "reason"),
    [(1, 1000, "ReservedFunctionConcurrentInvocationLimitExceeded"), (None, 1, "ConcurrentInvocationLimitExceeded")],
)
def test_a_call_too_many_is_throttled(meeting, reserved, limit, reason):
    with serving(concurrency=limit) as service, ThreadPoolExecutor(1) as threads:
        service.lambdas.publish(DEEDS)
        service.lambdas.reserve("deeds", reserved)
        first = threads.submit(service.invoke, **meeting.event)
        meeting.begun()
        status, code, response = refusal(service.client.invoke, FunctionName="deeds")
        assert (status, code) == (429, "TooManyRequestsException")
        assert response["Error"]["Message"] == "Rate Exceeded."
        assert (response["Reason"], response["Type"]) == (reason, "User")
        meeting.release()
        first.result()
        assert service.invoke()["StatusCode"] == 200


def test_account_quota_throttles_but_machine_limit_does_not(meeting, tmp_path):
    """Two executions in the account, one process: one runs, one waits for the process, all others are throttled."""
    notes = tmp_path / "notes"
    with serving(concurrency=2, most_processes=1) as service:
        service.lambdas.publish(DEEDS)
        service.submit(**meeting.event)
        meeting.begun()
        for text in ("second", "third"):
            service.submit(do="append", file=str(notes), text=text)
        wait_until(lambda: service.lambdas._pool._waiting)
        status, code, response = refusal(service.client.invoke, FunctionName="deeds")
        assert (status, code, response["Reason"]) == (
            429,
            "TooManyRequestsException",
            "ConcurrentInvocationLimitExceeded",
        )
        assert service.client.get_account_settings()["AccountLimit"]["ConcurrentExecutions"] == 2
        time.sleep(0.3)  # longer than the first pause of an event that is throttled
        assert (len(service.lambdas._pool._waiting), notes.exists()) == (1, False)
        meeting.release()
        wait_until(lambda: notes.exists() and len(notes.read_text().splitlines()) == 2)
        assert service.buried == []


def test_a_reservation_is_not_for_others(meeting):
    """101 executions, one reserved for another function: 100 run at once, and the reserved one can still start."""
    with serving(concurrency=101) as service, ThreadPoolExecutor(1) as threads:
        service.lambdas.publish(DEEDS)
        service.lambdas.reserve("deeds", 1)
        service.lambdas.publish(replace(DEEDS, name="other"))
        assert service.client.get_account_settings()["AccountLimit"]["UnreservedConcurrentExecutions"] == 100
        first = threads.submit(service.invoke, **meeting.event)
        meeting.begun()
        assert service.invoke(name="other")["StatusCode"] == 200
        meeting.release()
        first.result()


def test_a_reservation_of_none_stops_a_function():
    with serving() as service:
        service.lambdas.publish(DEEDS)
        service.lambdas.reserve("deeds", 0)
        assert refusal(service.client.invoke, FunctionName="deeds")[:2] == (429, "TooManyRequestsException")
