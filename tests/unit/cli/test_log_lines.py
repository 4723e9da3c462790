"""Lines of an invocation are joined by its request id: ours, which name the run, and Lambda's, which have its figures.

Lambda's lines are from the developer guide, "Viewing CloudWatch logs for Lambda functions". Our lines are in
Powertools' format. `tests/emulated` reads the lines of an account.
"""

import json

from marless.cloud.log_lines import Reader
from marless.infra.aws.cloudwatch import Event

FIRST, SECOND = "11111111-aaaa", "22222222-bbbb"


def start(request_id):
    return f"START RequestId: {request_id} Version: 7"


def report(request_id, rest=""):
    figures = "Duration: 12.30 ms\tBilled Duration: 13 ms\tMemory Size: 1769 MB\tMax Memory Used: 70 MB"
    return f"REPORT RequestId: {request_id}\t{figures}\t{rest}"


def own(request_id, task, message="answered", level="DEBUG"):
    context = {"function_request_id": request_id, "correlation_id": task, "function_version": "7"}
    return json.dumps({"level": level, "message": message, "service": "actor", **context})


def events(*texts, stream="one", at=0.0):
    return [Event(at + number, "actor", stream, text) for number, text in enumerate(texts)]


def read(run, *batches):
    reader = Reader(run)
    return [(line.request_id, line.correlation_id, line.message) for batch in batches for line in reader.read(batch)]


RAN = "ran 12.30 ms, billed 13 ms, 70 of 1769 MB"


def test_invocation_report_belongs_to_named_task():
    lines = events(start(FIRST), own(FIRST, "r/000001/sample/000"), f"END RequestId: {FIRST}", report(FIRST))
    named = (FIRST, "r/000001/sample/000")
    assert read("r", lines) == read(None, lines) == [(*named, "answered"), (*named, RAN)]
    assert read("another", lines) == []
    (_, line) = Reader("r").read(lines)
    assert (line.run, line.level, line.fields["billed_ms"], line.fields["function_version"]) == ("r", "", 13, "7")


def test_invocations_are_distinguished_by_environment_ids():
    one = events(start(FIRST), own(FIRST, "r/1"), report(FIRST), stream="one")
    two = events(start(SECOND), own(SECOND, "other/1"), report(SECOND), stream="two", at=0.5)
    mixed = sorted([*one, *two], key=lambda event: event.at)
    assert read("r", mixed) == [(FIRST, "r/1", "answered"), (FIRST, "r/1", RAN)]
    assert [id for id, *_ in read(None, mixed)] == [FIRST, SECOND, FIRST, SECOND]


def test_early_lines_wait_until_run_is_named():
    before, after = events(start(FIRST), "a warning of a library"), events(own(FIRST, "r/1"), at=9.0)
    assert read("r", before, after) == [(FIRST, "r/1", "a warning of a library"), (FIRST, "r/1", "answered")]
    assert read("another", before, after) == []


def test_environment_serving_other_run_keeps_lines_apart():
    lines = events(start(FIRST), own(FIRST, "r/1"), report(FIRST), start(SECOND), "of nobody yet", report(SECOND))
    assert read("r", lines) == [(FIRST, "r/1", "answered"), (FIRST, "r/1", RAN)]


def test_process_end_belongs_to_last_invocation():
    died = f"RequestId: {FIRST} Error: Runtime exited with error: signal: killed"
    failed = report(FIRST, "Status: error\tError Type: Runtime.ExitError")
    lines = events(start(FIRST), own(FIRST, "r/1"), f"END RequestId: {FIRST}", failed, died, "Runtime.ExitError")
    assert read("r", lines)[1:] == [
        (FIRST, "r/1", f"{RAN}, Status: error, Error Type: Runtime.ExitError"),
        (FIRST, "r/1", "Error: Runtime exited with error: signal: killed"),
        (FIRST, "r/1", "Runtime.ExitError"),
    ]


def test_unnamed_error_is_shown_to_every_run():
    timed_out = f"2026-01-01T00:00:00.000Z {FIRST} Task timed out after 300.00 seconds"
    assert read("r", events(start(FIRST), timed_out, report(FIRST, "Status: timeout"))) == [
        (FIRST, "", "Task timed out after 300.00 seconds"),
        (FIRST, "", f"{RAN}, Status: timeout"),
    ]
    assert read("r", events(start(FIRST), report(FIRST))) == []
    assert read("r", events("INIT_REPORT Init Duration: 9.00 ms\tPhase: init\tStatus: error")) == [
        ("", "", "INIT_REPORT Init Duration: 9.00 ms\tPhase: init\tStatus: error")
    ]
