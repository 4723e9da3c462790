"""Invokes actions of `echo` through any invoker and waits for their reports."""

import json
import time

from attempts import attempt_of


def task(deed, argument=None, timeout_s=30.0):
    return json.dumps({"deed": deed, "argument": argument, "timeout_s": timeout_s}).encode()


def begin(invoker, id, deed, argument=None, timeout_s=30.0, function="actor", attempt=0):
    invoker.invoke(attempt_of(function, id, attempt, task(deed, argument, timeout_s), timeout_s))


def collect(invoker, count, limit_s=60.0):
    reports, until = {}, time.monotonic() + limit_s
    while len(reports) < count:
        assert time.monotonic() < until, f"only {sorted(reports)} were reported"
        for report in invoker.wait(1.0):
            assert report.id not in reports, f"{report.id} was reported twice"
            reports[report.id] = report
    assert invoker.wait(0.0) == []
    return reports


def ask(invoker, deed, argument=None, function="actor", timeout_s=30.0):
    begin(invoker, "task", deed, argument, timeout_s, function)
    return collect(invoker, 1)["task"]


def said(report):
    assert report.outcome == "answered", report.detail
    return json.loads(report.body)
