"""Behaviour specific to Lambda invokers, with real functions. `test_invoker` has the common contract.

Slow, unresponsive and throttling services are in tests/infra/test_awslambda.py.
"""

import time

from asking import ask, begin, collect, said, task
from attempts import attempt_of

from marless.infra.aws.awslambda import EventInvoker, LambdaInvoker


def opened(account, handler="echo.on_lambda", timeout_s=30, width=2):
    (actor,) = account.functions(handler, timeout_s=timeout_s)
    return LambdaInvoker(account.cloud, {"actor": actor}, width)


def test_function_ended_by_lambda_is_a_timeout(account):
    invoker = opened(account, timeout_s=1)
    report = ask(invoker, "sleep", 60, timeout_s=30.0)
    assert (report.outcome, report.body) == ("timeout", b"")
    assert "Task timed out after 1.00 seconds" in report.detail
    assert 1000 <= report.duration_ms < 10_000
    assert said(ask(invoker, "echo", "on")) == "on"
    invoker.close()


def test_exited_function_is_reported_in_lambda_words(account):
    invoker = opened(account)
    detail = ask(invoker, "exit", 3).detail
    assert detail.startswith("Runtime.ExitError: RequestId: ")
    assert detail.endswith("Runtime exited with error: exit status 3; its log ends: about to exit")
    assert "signal: segmentation fault" in ask(invoker, "segfault").detail
    invoker.close()


def test_a_handler_that_does_not_exist_is_reported(account):
    invoker = opened(account, "echo.no_such_handler")
    assert "no_such_handler" in ask(invoker, "echo").detail
    invoker.close()


def test_requested_number_of_functions_runs_at_once(account, tmp_path):
    invoker = opened(account, width=4)
    for number in range(4):
        begin(invoker, f"{number}", "meet", [str(tmp_path), 4])
    assert {said(report) for report in collect(invoker, 4).values()} == {"met"}
    invoker.close()


def test_functions_of_closed_invoker_run_to_their_end(account, tmp_path):
    invoker = opened(account)
    begin(invoker, "task", "leave a note", str(tmp_path / "note"))
    assert invoker.wait(0.1) == []
    invoker.close()
    await_file(tmp_path / "note")


def test_events_run_without_anybody_waiting(account, tmp_path):
    (actor,) = account.functions("echo.on_lambda")
    events = EventInvoker(account.cloud, {"actor": actor}, 4)
    for number in range(3):
        events.invoke(attempt_of("actor", f"{number}", 0, task("leave a note", str(tmp_path / f"{number}")), 10.0))
    assert events.flush(30.0) == []
    for number in range(3):
        await_file(tmp_path / f"{number}")


def await_file(path, limit_s=60.0):
    until = time.monotonic() + limit_s
    while not path.exists():
        assert time.monotonic() < until, f"nobody wrote {path.name}"
        time.sleep(0.01)
