"""Tracing is an option. A deployment without it skips the SDK. With it, functions work even without a listener.

Segments follow the X-Ray developer guide, "Sending trace data to X-Ray" and "X-Ray segment documents".
"""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest
from task_fields import make_task

from marless.functions.messages.actor import DescribeTask
from marless.infra.packaging.package_build import ENTRIES, ROOT
from scripts.functions_at_work import TASK, account, order

# Act like Lambda's runtime: import the entry, then set the trace header for each event.
_PROGRAM = """
import importlib, json, os, sys, types
context = types.SimpleNamespace(
    function_name="marless-default-actor",
    function_version="7",
    memory_limit_in_mb="1769",
    invoked_function_arn="arn:aws:lambda:us-east-1:123456789012:function:marless-default-actor:7",
    aws_request_id="52fdfc07-2182-154f-163f-5f0f9a621d72",
)
handler = importlib.import_module(sys.argv[1]).handler
if len(sys.argv) > 2:
    os.environ["_X_AMZN_TRACE_ID"] = sys.argv[2]
try:
    answer = handler(json.load(sys.stdin), context)
except Exception as error:
    answer = type(error).__name__
print(json.dumps([answer, "aws_xray_sdk" in sys.modules, "wrapt" in sys.modules]))
"""
_ROOT = "1-5759e988-bd862e3fe1be46a994272793"
SAMPLED, SKIPPED = (f"Root={_ROOT};Parent=53995c3f42cd8ad8;Sampled={sampled}" for sampled in (1, 0))
DESCRIBE = msgspec.json.encode(make_task(DescribeTask, environment=TASK, **order("describe")))
SWEEP = b'{"sweep": true}'


@pytest.fixture(scope="module")
def variables() -> Iterator[dict[str, str]]:
    with account() as variables:
        # Without it Powertools assumes a developer's machine.
        yield {**variables, "LAMBDA_TASK_ROOT": str(ROOT)}


@pytest.fixture
def daemon() -> Iterator[socket.socket]:
    """The socket of Lambda's X-Ray daemon, which buffers the segments that a function sent before it ended."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.setblocking(False)
        yield listening


def call(entry: str, event: bytes, variables: Mapping[str, str], *trace: str) -> Any:
    """The answer of an entry in a new process, and whether the SDK and its patching library were imported."""
    command = [sys.executable, "-c", _PROGRAM, entry, *trace]
    done = subprocess.run(command, input=event, env=dict(variables), cwd=ROOT, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout.splitlines()[-1])


def traced(variables: Mapping[str, str], daemon: socket.socket) -> dict[str, str]:
    return {**variables, "MARLESS_TRACING": "Active", "AWS_XRAY_DAEMON_ADDRESS": f"127.0.0.1:{daemon.getsockname()[1]}"}


def segments(daemon: socket.socket) -> list[dict[str, Any]]:
    found = []
    while True:
        try:
            header, document = daemon.recv(1 << 16).split(b"\n", 1)
        except BlockingIOError:
            return found
        assert json.loads(header) == {"format": "json", "version": 1}
        found.append(json.loads(document))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("entry", [ENTRIES["actor"], ENTRIES["coordinator"]])
@pytest.mark.parametrize("tracing", [{}, {"MARLESS_TRACING": "Disabled"}])
def test_without_tracing_its_sdk_is_not_imported(
    variables: dict[str, str], entry: str, tracing: dict[str, str]
) -> None:
    event = DESCRIBE if entry == ENTRIES["actor"] else SWEEP
    answer, *imported = call(entry, event, {**variables, **tracing}, SAMPLED)
    assert isinstance(answer, dict)
    assert imported == [False, False]


def test_sampled_invocation_is_traced_under_platform_trace(variables: dict[str, str], daemon: socket.socket) -> None:
    answer, *imported = call(ENTRIES["actor"], DESCRIBE, traced(variables, daemon), SAMPLED)
    assert answer["type"] == "done"
    assert imported == [True, True]
    (invocation,) = segments(daemon)
    assert invocation["name"] == "## invocation"
    assert (invocation["trace_id"], invocation["parent_id"]) == (_ROOT, "53995c3f42cd8ad8")
    assert invocation["annotations"] == {"ColdStart": True, "Service": variables["POWERTOOLS_SERVICE_NAME"]}
    assert "metadata" not in invocation


def test_aws_calls_of_invocation_are_traced_too(variables: dict[str, str], daemon: socket.socket) -> None:
    answer, *_ = call(ENTRIES["coordinator"], SWEEP, traced(variables, daemon), SAMPLED)
    assert answer == {"woken": 0}
    found = {segment["name"]: segment for segment in segments(daemon)}
    assert set(found) == {"## invocation", "dynamodb"}
    assert found["dynamodb"]["parent_id"] == found["## invocation"]["id"]
    assert found["dynamodb"]["aws"]["operation"] == "Query"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("trace", [[], [SKIPPED], ["Root=nonsense"], [""]], ids=["none", "skipped", "torn", "empty"])
def test_unsampled_invocation_works_untraced(
    variables: dict[str, str], daemon: socket.socket, trace: list[str]
) -> None:
    assert call(ENTRIES["coordinator"], SWEEP, traced(variables, daemon), *trace)[0] == {"woken": 0}
    assert segments(daemon) == []


def test_missing_daemon_causes_no_wait(variables: dict[str, str], daemon: socket.socket) -> None:
    alone = traced(variables, daemon)
    daemon.close()
    assert call(ENTRIES["coordinator"], SWEEP, alone, SAMPLED)[0] == {"woken": 0}


def test_failing_invocation_is_traced_as_fault(variables: dict[str, str], daemon: socket.socket) -> None:
    event = b'{"run": "r", "tenant": "another"}'
    assert call(ENTRIES["coordinator"], event, traced(variables, daemon), SAMPLED)[0] == "ValueError"
    (segment,) = segments(daemon)
    assert segment["fault"] is True
    assert segment["cause"]["exceptions"][0]["type"] == "ValueError"
