"""An attempt that times out or crashes is reported. Only an end that cannot be reported is an error of the function.

The worker runs in this process. Storage and table are emulated.
"""

import json
import time
from types import SimpleNamespace

import msgspec
import pytest
from aws_lambda_powertools import Logger
from task_fields import make_task

from marless.functions.actor.handler import handle
from marless.functions.completion import CompletionReport, set_name
from marless.functions.environments.base import EnvSpec
from marless.functions.errors import StorageFault
from marless.functions.messages.actor import DescribeReply, DescribeTask
from marless.functions.messages.exchange import Done
from marless.functions.messages.order import ReportTo
from marless.infra.aws.clients import Cloud
from marless.infra.aws.completion_sets import DynamoCompletions
from marless.infra.aws.lambda_calls import InvocationResult, parse_result
from marless.infra.entry.instrumentation import instrument
from marless.infra.entry.lambda_handler import Worker
from marless.infra.local.own_process import OwnTime
from scripts.functions_at_work import TASK, account, order


def slow(body, blobs):
    time.sleep(60)


def crash(body, blobs):
    raise ValueError("no such landmark")


def context(request_id):
    """The logged fields of Lambda's context object (Lambda developer guide, "Python context object")."""
    return SimpleNamespace(
        function_name="marless-default-actor",
        function_version="7",
        memory_limit_in_mb="1769",
        invoked_function_arn="arn:aws:lambda:us-east-1:123456789012:function:marless-default-actor:7",
        aws_request_id=request_id,
    )


@pytest.fixture(scope="module")
def variables():
    with account() as variables:
        yield variables


@pytest.fixture
def serving(variables, shell):
    """Serves an event with a new worker around a handle. Further events with the same one."""
    shell.export(**variables)

    def of(handle):
        # The process of the tests may be older than a function ever is, which no report may say.
        own_time = OwnTime()
        own_time.waive()
        handler = instrument(Worker(handle, own_time), {})

        def serve(request_id="r-1", **fields):
            limit = {"timeout_s": 0.4} if handle is slow else {}
            task = make_task(DescribeTask, environment=TASK, **{**order("describe"), **limit, **fields})
            return handler(json.loads(msgspec.json.encode(task)), context(request_id))

        return serve

    return of


def members(table, ask):
    sets = DynamoCompletions(Cloud.here(), table, "sets/default/audit")
    return [msgspec.msgpack.decode(one[1:], type=CompletionReport) for one in sets.read([set_name(ask, 0, 0)])[0]]


@pytest.mark.parametrize(
    ("handle", "kind", "message"),
    [(slow, "timeout", "AttemptTimedOut: no answer within 0.4 s"), (crash, "crash", "ValueError: no such landmark")],
)
def test_an_attempt_without_answer_is_reported_once(serving, variables, handle, kind, message):
    ask = {slow: "1", crash: "2"}[handle]
    # The second of two tasks wakes the coordinator. There is none here.
    reply = serving(handle)(report_to=ReportTo(ask=ask, index=0, count=2, coordinator="c:1"))
    assert reply == {"reported": True}
    (report,) = members(variables["MARLESS_TABLE"], ask)
    assert (report.kind, report.message, report.again, report.attempt) == (kind, message, True, 0)
    assert kind == "crash" or report.duration_ms >= 400


def test_unreportable_end_is_function_error(serving, shell):
    shell.export(MARLESS_TABLE="no-such-table")
    with pytest.raises(StorageFault):
        serving(crash)(report_to=ReportTo(ask="3", index=0, count=2, coordinator="c:1"))


def test_time_of_report_is_on_next_report(serving, variables, monkeypatch):
    add = DynamoCompletions.add

    def delayed(self, name, member):
        time.sleep(1.0)
        return add(self, name, member)

    monkeypatch.setattr(DynamoCompletions, "add", delayed)
    serve = serving(crash)
    for ask in ("4", "5"):
        serve(report_to=ReportTo(ask=ask, index=0, count=2, coordinator="c:1"))
    (second,) = members(variables["MARLESS_TABLE"], "5")
    assert second.duration_ms >= 1000


@pytest.mark.parametrize(
    ("handle", "end"),
    [
        (slow, InvocationResult("timeout", detail="no answer within 0.4 s")),
        (crash, InvocationResult("crash", detail="ValueError: no such landmark")),
    ],
)
def test_waiting_caller_reads_end_in_reply(serving, handle, end):
    assert parse_result(False, json.dumps(serving(handle)()).encode(), log="") == end


def test_an_answer_is_never_taken_for_an_error():
    spec = EnvSpec(agents=("errorType",), classes=(), horizon=1)
    answer = msgspec.json.encode(Done(id="errorType", attempt=0, reply=DescribeReply(spec=spec)))
    assert parse_result(False, answer, log="") == InvocationResult("answered", answer)


def test_line_names_only_its_own_invocation(serving, capsys, shell):
    shell.export(POWERTOOLS_SERVICE_NAME="logged")  # a service's logger keeps its first stream
    serve = serving(crash)
    serve("r-1")
    Logger().append_keys(left="behind")
    serve("r-2", id="another/000001/describe")
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    first, second = (line for line in lines if line.get("level") == "ERROR")
    assert (first["function_request_id"], second["function_request_id"]) == ("r-1", "r-2")
    assert (first["correlation_id"], second["correlation_id"]) == ("audit/000000/describe", "another/000001/describe")
    assert {line["function_version"] for line in (first, second)} == {"7"}
    assert "left" not in second
    assert "ValueError: no such landmark" in first["exception"]
    # Lambda's own lines have them.
    assert first.keys().isdisjoint({"function_arn", "function_memory_size"})
    failures = [line["Failures"] for line in lines if "_aws" in line]
    assert failures == [[1.0], [1.0]]


@pytest.mark.parametrize(("level", "messages"), [("DEBUG", ["answered"]), ("INFO", [])])
def test_answer_is_logged_if_deployment_asks_for_it(serving, capsys, shell, level, messages):
    shell.export(POWERTOOLS_SERVICE_NAME=f"logged-{level}")
    shell.export(POWERTOOLS_LOG_LEVEL=level)
    assert serving(handle)("r-3")["type"] == "done"
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["message"], line["function_request_id"]) for line in lines] == [(one, "r-3") for one in messages]
