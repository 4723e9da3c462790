"""Invocations of Lambda, against a service with scripted responses.

The contract of every invoker is in tests/contracts, tested against real functions.
"""

import base64
import json
import re
import socket
import threading
import time

import pytest
from attempts import attempt_of
from stand_in import answer, json_error, standing, unheard

from marless.infra.aws.awslambda import EventInvoker, LambdaInvoker
from marless.infra.aws.clients import Cloud

# From the developer guide, "Log and monitor Python Lambda functions".
REPORT = (
    "REPORT RequestId: 8f507cfc-xmpl-4697-b07a-ac58fc914c95\tDuration: 15.74 ms\tBilled Duration: 147 ms\t"
    "Memory Size: 128 MB\tMax Memory Used: 56 MB\tInit Duration: 130.49 ms\t"
)
ACTOR = "arn:aws:lambda:us-east-1:123456789012:function:marless-one-Actor:7"
FUNCTIONS = {"actor": ACTOR, "learner": "marless-one-Learner"}


def ended(payload, log="", failed=False):
    headers = [("X-Amz-Log-Result", base64.b64encode(log.encode()).decode())] if log else []
    return answer("200 OK", payload, *headers, *([("X-Amz-Function-Error", "Unhandled")] if failed else []))


def error(kind, message):
    return json.dumps({"errorType": kind, "errorMessage": message}).encode()


def throttle():
    return json_error("429 Too Many Requests", "TooManyRequestsException", "Rate Exceeded.")


class Service:
    def __init__(self):
        self.lock, self.requests = threading.Lock(), []

    def __call__(self, environ, start):
        body = environ["wsgi.input"].read()
        with self.lock:
            self.requests.append((environ["PATH_INFO"], environ.get("HTTP_X_AMZ_INVOCATION_TYPE"), body))
        start("202 Accepted" if environ.get("HTTP_X_AMZ_INVOCATION_TYPE") == "Event" else "200 OK", [])
        return [b'"yes"']


@pytest.fixture
def service():
    with standing(Service()) as service:
        yield service


@pytest.fixture
def invoker(service):
    invoker = LambdaInvoker(service.cloud, FUNCTIONS, 4, patience_s=0.0)
    yield invoker
    invoker.close()


@pytest.fixture
def events(service):
    return EventInvoker(service.cloud, FUNCTIONS, 4)


def ask(invoker, body=b"{}", timeout_s=10.0, function="actor"):
    invoker.invoke(attempt_of(function, "task", 2, body, timeout_s))
    (report,) = invoker.wait(10.0)
    assert invoker.wait(0.0) == []
    return report


def test_invocation_uses_function_version_and_requests_log(service, invoker):
    heard = []

    def deed(environ, start, app):
        heard.append(environ)
        return app(environ, start)

    service.do("POST", deed)
    report = ask(invoker, b'{"a":1}')
    assert (report.id, report.attempt, report.function, report.outcome) == ("task", 2, "actor", "answered")
    assert (report.body, report.detail) == (b'"yes"', "")
    assert heard[0]["PATH_INFO"] == f"/2015-03-31/functions/{ACTOR}/invocations"
    assert heard[0]["HTTP_X_AMZ_LOG_TYPE"] == "Tail"
    assert service._app.requests[0][2] == b'{"a":1}'


def test_report_has_figures_of_report_line(service, invoker):
    log = f"START RequestId: 1 Version: 7\nREPORT RequestId: 1\tDuration: 99.00 ms\nEND RequestId: 1\n{REPORT}\n"
    service.do("POST", ended(b"1", log))
    report = ask(invoker)
    assert (report.duration_ms, report.init_ms, report.peak_mb) == (15.74, 130.49, 56.0)


def test_a_warm_function_has_no_start_to_pay(service, invoker):
    service.do("POST", ended(b"1", REPORT.partition("Init")[0]))
    assert ask(invoker).init_ms == 0.0


def test_local_time_counts_without_report_line(service, invoker):
    def slow(environ, start, app):
        time.sleep(0.2)
        return app(environ, start)

    service.do("POST", throttle(), slow)
    assert 200 <= ask(invoker).duration_ms < 10_000


@pytest.mark.parametrize(
    ("payload", "outcome", "detail"),
    [
        (error("ValueError", "no such landmark"), "crash", "ValueError: no such landmark"),
        (error("AttemptTimedOut", "no answer within 3 s"), "timeout", "no answer within 3 s"),
        (
            error("Sandbox.Timedout", "RequestId: 1 Error: Task timed out after 3.00 seconds"),
            "timeout",
            "RequestId: 1 Error: Task timed out after 3.00 seconds; its log ends: last words",
        ),
        (b'{"errorMessage": "2026-01-01T00:00:00Z 1 Task timed out after 3.00 seconds"}', "timeout", None),
        (
            error("Runtime.ExitError", "RequestId: 1 Error: Runtime exited with error: exit status 3"),
            "crash",
            "Runtime.ExitError: RequestId: 1 Error: Runtime exited with error: exit status 3; its log ends: last words",
        ),
        (b"gibberish", "crash", "gibberish"),
    ],
)
def test_error_is_reported_in_words_of_function(service, invoker, payload, outcome, detail):
    lines = [
        "START RequestId: 1 Version: 7",
        "first words",
        "last words",
        "2026-01-01T00:00:00Z 1 Task timed out after 3.00 seconds",
        "END RequestId: 1",
        REPORT,
        "RequestId: 1 Error: Runtime exited with error: exit status 3",
        "Runtime.ExitError",
    ]
    service.do("POST", ended(payload, "\n".join(lines), failed=True))
    report = ask(invoker)
    assert (report.outcome, report.body) == (outcome, b"")
    assert detail is None or report.detail == detail
    assert (report.duration_ms, report.init_ms) == (15.74, 130.49)


def test_fatal_error_is_reported_before_last_log_line(service, invoker):
    log = "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00 (most recent call first):\n  no Python frame\n"
    service.do("POST", ended(error("Runtime.ExitError", "signal: segmentation fault"), log, failed=True))
    assert ask(invoker).detail.endswith("its log ends: Fatal Python error: Segmentation fault")


def test_too_large_answer_says_what_to_change(service, invoker):
    message = "Response payload size exceeded maximum allowed payload size (6291556 bytes)."
    service.do("POST", ended(error("Function.ResponseSizeTooLarge", message), REPORT, failed=True))
    report = ask(invoker)
    assert (report.outcome, report.duration_ms) == ("crash", 15.74)
    assert "placement.pack" in report.detail
    assert "placement.inline_objects=false" in report.detail


def test_request_of_six_megabytes_is_the_largest_sent(service, invoker):
    assert ask(invoker, b'"' + b"x" * (6_291_456 - 2) + b'"').outcome == "answered"
    service.do("")
    report = ask(invoker, b'"' + b"x" * (6_291_456 - 1) + b'"')
    assert (report.outcome, report.duration_ms, service.seen) == ("crash", 0.0, [])
    assert "6,291,457 bytes" in report.detail
    assert "placement.inline_objects=false" in report.detail


@pytest.mark.parametrize("name", ["RequestTooLargeException", "RequestEntityTooLargeException"])
def test_request_refused_as_too_large_gives_advice(service, invoker, name):
    service.do("POST", json_error("413 Payload Too Large", name))
    report = ask(invoker)
    assert (report.outcome, report.duration_ms) == ("crash", 0.0)
    assert "placement.inline_objects=false" in report.detail


def test_throttled_call_is_repeated_until_it_runs(service, invoker):
    conflict = json_error("409 Conflict", "ResourceConflictException", "The function is in the state Pending")
    service.do("POST", throttle(), throttle(), conflict)
    assert ask(invoker).outcome == "answered"
    assert len(service.seen) == 4


def test_call_throttled_until_timeout_is_reported_throttled(service, invoker):
    service.do("POST", *[throttle()] * 1000)
    start = time.monotonic()
    report = ask(invoker, timeout_s=2.0)
    assert time.monotonic() - start < 30
    assert (report.outcome, report.duration_ms) == ("throttled", 0.0)
    assert "Rate Exceeded." in report.detail
    assert len(service.seen) > 2


def test_pauses_grow(service, invoker):
    service.do("POST", *[throttle()] * 1000)
    ask(invoker, timeout_s=1.5)
    # Without growth, 1.5 s hold about sixty pauses of 25 ms on average.
    assert len(service.seen) < 25


@pytest.mark.parametrize("deed", [unheard, answer("500 Internal Server Error"), answer("503 Unavailable"), "stall"])
def test_unanswered_call_is_sent_once_and_metered_fully(service, deed):
    invoker = LambdaInvoker(service.cloud, FUNCTIONS, 1, patience_s=0.0, answer_s=0.2)
    done = threading.Event()

    def stall(environ, start, app):
        done.wait(30.0)
        return app(environ, start)

    service.do("POST", stall if deed == "stall" else deed)
    report = ask(invoker, timeout_s=3.0)
    done.set()
    assert (report.outcome, report.duration_ms) == ("crash", 3000.0)
    assert report.detail.endswith("the function may have run, and its time-out is billed")
    assert service.seen == ["POST"]
    invoker.close()


@pytest.mark.parametrize(
    ("status", "name", "words"),
    [
        ("403 Forbidden", "AccessDeniedException", "lack the permission lambda:InvokeFunction"),
        ("404 Not Found", "ResourceNotFoundException", "deploy with `marless cloud deploy`"),
        ("403 Forbidden", "ExpiredTokenException", "the credentials have expired"),
    ],
)
def test_refusal_of_lambda_is_final_and_gives_advice(service, invoker, status, name, words):
    service.do("POST", json_error(status, name))
    report = ask(invoker)
    assert (report.outcome, report.duration_ms) == ("crash", 0.0)
    assert report.detail.startswith(f"cannot invoke {ACTOR}: ")
    assert words in report.detail
    assert service.seen == ["POST"]


def test_unserved_endpoint_is_tried_until_timeout(service):
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unheard.getsockname()[1]}"
        invoker = LambdaInvoker(Cloud("us-east-1", address, ("a", "b", None)), FUNCTIONS, 1, patience_s=0.0)
        report = ask(invoker, timeout_s=0.3)
    assert report.outcome == "throttled"
    assert "cannot be reached; check the network" in report.detail
    invoker.close()


def test_endpoint_that_starts_in_time_is_used():
    with socket.socket() as late:
        late.bind(("127.0.0.1", 0))  # refuses connections until it listens
        address = f"http://127.0.0.1:{late.getsockname()[1]}"
        invoker = LambdaInvoker(Cloud("us-east-1", address, ("a", "b", None)), FUNCTIONS, 1, patience_s=0.0)
        invoker.invoke(attempt_of("actor", "task", 0, b"{}", 10.0))
        assert invoker.wait(0.3) == []
        late.listen()
        connection, _ = late.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\n1")
            assert [report.outcome for report in invoker.wait(30.0)] == ["answered"]
    invoker.close()


def test_at_most_width_calls_run_while_others_wait(service):
    invoker, meeting = LambdaInvoker(service.cloud, FUNCTIONS, 3), threading.Barrier(3)
    lock, under_way, most = threading.Lock(), [0], [0]

    def meet(environ, start, app):
        with lock:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
        meeting.wait(30.0)
        with lock:
            under_way[0] -= 1
        return app(environ, start)

    service.do("POST", *[meet] * 12)
    for number in range(12):
        invoker.invoke(attempt_of("actor", f"{number}", 0, b"{}", 10.0))
    reports = []
    while len(reports) < 12:
        new = invoker.wait(30.0)
        assert new, f"only {len(reports)} reports came"
        reports += new
    assert {report.id for report in reports} == {f"{number}" for number in range(12)}
    assert {report.outcome for report in reports} == {"answered"}
    assert most == [3]
    invoker.close()


def test_clock_of_queued_call_has_not_begun(service):
    invoker = LambdaInvoker(service.cloud, FUNCTIONS, 1, patience_s=0.0)

    def slow(environ, start, app):
        time.sleep(2.2)
        return app(environ, start)

    service.do("POST", slow, throttle(), throttle())
    invoker.invoke(attempt_of("actor", "first", 0, b"{}", 2.0))
    invoker.invoke(attempt_of("actor", "second", 0, b"{}", 2.0))
    reports = [*invoker.wait(30.0), *invoker.wait(30.0)]
    assert [(report.id, report.outcome) for report in reports] == [("first", "answered"), ("second", "answered")]
    invoker.close()


def invoker_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("invoker-")]


def test_threads_start_on_demand_and_end_at_close(service, invoker):
    before = len(invoker_threads())
    for _ in range(5):
        ask(invoker)
    assert len(invoker_threads()) - before <= 2  # a report may arrive before its thread is free again
    mine = invoker_threads()
    invoker.close()
    for thread in mine:
        thread.join(30.0)
    assert not any(thread.is_alive() for thread in mine)


def test_closing_waits_for_nobody_and_twice_is_harmless(service):
    invoker, held, done = LambdaInvoker(service.cloud, FUNCTIONS, 1), threading.Event(), threading.Event()

    def hold(environ, start, app):
        held.set()
        done.wait(90.0)
        return app(environ, start)

    service.do("POST", hold)
    for number in range(3):
        invoker.invoke(attempt_of("actor", f"{number}", 0, b"{}", 10.0))
    assert held.wait(30.0)
    mine, start = invoker_threads(), time.monotonic()
    invoker.close()
    invoker.close()
    assert time.monotonic() - start < 30  # they are held for a minute and a half
    done.set()
    for thread in mine:
        thread.join(30.0)
    assert service.seen == ["POST"], "what was queued must not be sent any more"


def test_closing_ends_repetition_of_throttled_calls(service):
    invoker = LambdaInvoker(service.cloud, FUNCTIONS, 1, patience_s=0.0)
    service.do("POST", *[throttle()] * 1000)
    invoker.invoke(attempt_of("actor", "task", 0, b"{}", 60.0))
    while not service.seen:
        time.sleep(0.01)
    mine = invoker_threads()
    invoker.close()
    sent = len(service.seen)
    for thread in mine:
        thread.join(30.0)
    assert not any(thread.is_alive() for thread in mine)
    assert len(service.seen) <= sent + 1


def test_meaningless_reply_is_a_crash(service, invoker):
    service.do("POST", answer("200 OK", b"1", ("X-Amz-Log-Result", "x")))
    report = ask(invoker)
    assert report.outcome == "crash"
    assert re.match(r"\w*Error: ", report.detail)
    assert ask(invoker).outcome == "answered"


def test_an_unknown_function_is_a_key_error(invoker, events):
    for each in (invoker, events):
        with pytest.raises(KeyError):
            each.invoke(attempt_of("critic", "task", 0, b"{}", 1.0))


def test_throttled_short_attempt_is_patient(service):
    invoker = LambdaInvoker(service.cloud, FUNCTIONS, 1, patience_s=30.0)
    service.do("POST", *[throttle()] * 6)
    assert ask(invoker, timeout_s=0.001).outcome == "answered"
    invoker.close()


def test_events_are_sent_on_flush_without_waiting(service, events):
    for number in range(3):
        events.invoke(attempt_of("learner", f"{number}", 0, f"{number}".encode(), 10.0))
    assert (events.wait(10.0), service.seen) == ([], [])
    assert events.flush(30.0) == []
    path = "/2015-03-31/functions/marless-one-Learner/invocations"
    assert sorted(service._app.requests) == [(path, "Event", f"{number}".encode()) for number in range(3)]
    assert (events.flush(30.0), len(service.seen)) == ([], 3)


def test_events_are_sent_side_by_side(service, events):
    meeting = threading.Barrier(4)

    def meet(environ, start, app):
        meeting.wait(30.0)
        return app(environ, start)

    service.do("POST", *[meet] * 8)
    for number in range(8):
        events.invoke(attempt_of("actor", f"{number}", 0, b"{}", 10.0))
    assert events.flush(30.0) == []


@pytest.mark.parametrize("deed", [throttle(), unheard, answer("500 Internal Server Error")])
def test_event_is_resent_until_acknowledged(service, events, deed):
    service.do("POST", deed, deed)
    events.invoke(attempt_of("actor", "task", 0, b"{}", 10.0))
    assert events.flush(30.0) == []
    assert len(service.seen) == 3


def test_event_never_accepted_is_returned_with_reason(service, events):
    service.do("POST", *[throttle()] * 1000)
    events.invoke(attempt_of("actor", "task", 3, b"{}", 10.0))
    start = time.monotonic()
    ((id, attempt, why, unclear),) = events.flush(0.4)
    assert time.monotonic() - start < 30
    assert (id, attempt, unclear) == ("task", 3, False)
    assert "Rate Exceeded." in why


def test_unacknowledged_event_may_still_run(service, events):
    service.do("POST", unheard, *[throttle()] * 1000)
    events.invoke(attempt_of("actor", "task", 3, b"{}", 10.0))
    ((_, _, _, unclear),) = events.flush(0.4)
    assert unclear


def test_refused_event_does_not_delay_others(service, events):
    service.do("POST", json_error("403 Forbidden", "AccessDeniedException"))
    for number in range(5):
        events.invoke(attempt_of("actor", f"{number}", 0, b"{}", 10.0))
    ((_, _, why, _),) = events.flush(30.0)
    assert "lack the permission lambda:InvokeFunction" in why
    assert len(service.seen) == 5


def test_event_of_one_megabyte_is_the_largest_sent(service, events):
    events.invoke(attempt_of("actor", "largest", 0, b'"' + b"x" * (1_048_576 - 2) + b'"', 10.0))
    events.invoke(attempt_of("actor", "too large", 0, b'"' + b"x" * (1_048_576 - 1) + b'"', 10.0))
    ((id, _, why, _),) = events.flush(30.0)
    assert (id, len(service.seen)) == ("too large", 1)
    assert "1,048,577 bytes" in why


def test_unsent_events_are_forgotten_at_close(service, events):
    events.invoke(attempt_of("actor", "task", 0, b"{}", 10.0))
    events.close()
    assert (events.flush(1.0), service.seen) == ([], [])
