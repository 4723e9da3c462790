"""The emulated Lambda service, with real awslambdaric processes and real SDK clients."""

import base64
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from botocore.awsrequest import AWSRequest
from botocore.exceptions import ClientError
from botocore.httpsession import URLLib3Session
from emulated_accounts import Caller
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.wrappers import Response

from aws_emulator.lambda_service import async_events, environments, platform_log, pool, runtime
from aws_emulator.lambda_service.environment_variables import AccountContext
from aws_emulator.lambda_service.invocation_result import Refused
from aws_emulator.lambda_service.lambda_api import LambdaApi
from aws_emulator.lambda_service.lambdas import Lambdas
from aws_emulator.lambda_service.platform_log import ErrorStatus, Output
from aws_emulator.lambda_service.recursion import follow
from aws_emulator.lambda_service.schedules import Schedule, Schedules
from aws_emulator.lambda_service.versions import FunctionVersion, Registry

HERE = Path(__file__).parent
ARN = "arn:aws:lambda:us-east-1:123456789012:function:deeds"
DEEDS = FunctionVersion(
    name="deeds",
    version="1",
    handler="deeds.handler",
    code=(HERE,),
    timeout_s=20.0,
    role_arn="arn:aws:iam::123456789012:role/deeds",
    log_group="/marless/deeds",
    dead_letter_arn="arn:aws:sqs:us-east-1:123456789012:dead",
)


class Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_request(self, *_):
        pass


# What functions inherit of the account's process: by which instructions libraries calculate.
KERNEL = {"OPENBLAS_CORETYPE": "Haswell", "NPY_DISABLE_CPU_FEATURES": "X86_V4", "MKL_CBWR": "AVX2"}


class Service:
    """The emulated service on its own port, and the arguments of its callbacks."""

    def __init__(self, **limits):
        self.logs, self.buried, self.sessions = [], [], []
        self.letter = threading.Event()
        self.server = make_server("127.0.0.1", 0, self.answer, threaded=True, request_handler=Quiet)
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        account = AccountContext("us-east-1", "123456789012", self.endpoint, self.credentials, tuple(KERNEL))
        self.lambdas = Lambdas(account, lambda *log: self.logs.append(log), self.bury, **limits)
        self.front = LambdaApi(Response("another service"), self.lambdas)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        self.client = Caller(self.endpoint).client("lambda")

    def answer(self, environ, start_response):
        return self.front(environ, start_response)

    def credentials(self, role, session):
        self.sessions.append((role, session))
        return "key", "secret", "token"

    def bury(self, letter):
        self.buried.append(letter)
        self.letter.set()

    def invoke(self, name="deeds", **event):
        """The answer of a synchronous call, its payload decoded."""
        answer = self.client.invoke(FunctionName=name, Payload=json.dumps(event), LogType="Tail")
        answer["Payload"] = json.loads(answer["Payload"].read())
        answer["Log"] = base64.b64decode(answer["LogResult"]).decode()
        return answer

    def submit(self, name="deeds", **event):
        return self.client.invoke(FunctionName=name, InvocationType="Event", Payload=json.dumps(event))

    def close(self):
        self.lambdas.close()
        self.server.shutdown()
        self.server.server_close()


@contextmanager
def serving(**limits):
    service = Service(**limits)
    try:
        yield service
    finally:
        service.close()


@pytest.fixture(scope="module")
def shared():
    """One service for all tests that do not change it."""
    with serving() as service:
        service.lambdas.publish(DEEDS)
        yield service


class Meeting:
    """An action that signals its start and waits for permission to end."""

    def __init__(self, folder):
        self.here, self.go = folder / "here", folder / "go"
        os.mkfifo(self.here)
        os.mkfifo(self.go)
        self.event = {"do": "meet", "here": str(self.here), "go": str(self.go)}

    def begun(self):
        assert self.here.read_text() == "here"

    def release(self):
        self.go.write_text("go")


@pytest.fixture
def meeting(tmp_path):
    return Meeting(tmp_path)


def wait_for_end(pid, limit_s=10.0):
    """Returns when the process has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], limit_s)[0], f"process {pid} still runs"
    finally:
        os.close(descriptor)


def wait_until(true, limit_s=10.0):
    until = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < until, "it did not come to that"
        time.sleep(0.005)


def refusal(call, **arguments):
    """Status, code and body of the SDK's error for the answer."""
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    response = caught.value.response
    return response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Code"], response


# Names and versions


@pytest.mark.parametrize(
    ("name", "qualifier", "arn"),
    [
        ("deeds", None, ARN),
        ("deeds", "live", f"{ARN}:live"),
        ("deeds:live", None, f"{ARN}:live"),
        ("123456789012:function:deeds", None, ARN),
        (ARN, None, ARN),
        (f"{ARN}:1", None, f"{ARN}:1"),
        (f"{ARN}:1", "1", f"{ARN}:1"),
        (ARN, "$LATEST", f"{ARN}:$LATEST"),
    ],
)
def test_every_form_of_a_name_finds_the_function(shared, name, qualifier, arn):
    arguments = {"Qualifier": qualifier} if qualifier else {}
    answer = shared.client.invoke(FunctionName=name, **arguments)
    assert answer["StatusCode"] == 200
    assert answer["ExecutedVersion"] == "1"
    described = json.loads(answer["Payload"].read())
    assert described["arn"] == arn
    assert described["request"] == answer["ResponseMetadata"]["RequestId"]
    assert described["event"] == {}


@pytest.mark.parametrize(
    "arguments",
    [
        {"FunctionName": "nobody"},
        {"FunctionName": "deeds", "Qualifier": "2"},
        {"FunctionName": "deeds:old"},
        {"FunctionName": ARN.replace("us-east-1", "eu-west-1")},
        {"FunctionName": ARN.replace("123456789012", "210987654321")},
    ],
)
@pytest.mark.parametrize("kind", ["RequestResponse", "Event", "DryRun"])
def test_who_is_not_there_is_not_found(shared, arguments, kind):
    status, code, response = refusal(shared.client.invoke, InvocationType=kind, **arguments)
    assert (status, code) == (404, "ResourceNotFoundException")
    assert response["Error"]["Message"].startswith("Function not found: ")
    assert response["Type"] == "User"


def test_two_qualifiers_that_differ_are_refused(shared):
    status, code, _ = refusal(shared.client.invoke, FunctionName="deeds:live", Qualifier="1")
    assert (status, code) == (400, "InvalidParameterValueException")


def test_the_newest_version_is_live_and_older_ones_stay():
    registry = Registry("us-east-1", "123456789012", 1000)
    registry.publish(DEEDS)
    registry.publish(replace(DEEDS, version="2"))
    versions = [registry.resolve("deeds", qualifier).function.version for qualifier in (None, "live", "1", "2")]
    assert versions == ["2", "2", "1", "2"]


def test_a_published_version_does_not_change():
    registry = Registry("us-east-1", "123456789012", 1000)
    registry.publish(DEEDS)
    with pytest.raises(ValueError, match="version 1 of deeds is published"):
        registry.publish(replace(DEEDS, memory_mb=256))
    registry.publish(replace(DEEDS, max_retries=2))  # set beside the versions
    assert registry.resolve("deeds", "1").function.max_retries == 2


def test_a_hundred_executions_stay_unreserved():
    registry = Registry("us-east-1", "123456789012", 1000)
    registry.reserve("deeds", 900)
    registry.reserve("deeds", 900)
    with pytest.raises(ValueError, match=r"function other .* below its minimum value of \[100\]"):
        registry.reserve("other", 1)
    assert (registry.shared_concurrency(), registry.reservation("other")) == (100, None)
    registry.reserve("deeds", 899)
    registry.reserve("other", 1)
    registry.reserve("deeds", None)
    registry.remove("other")
    assert registry.shared_concurrency() == 1000


def test_an_account_of_ten_executions_reserves_none():
    registry = Registry("us-east-1", "123456789012", 10)
    with pytest.raises(ValueError, match=r"below its minimum value of \[10\]"):
        registry.reserve("deeds", 1)
    registry.reserve("deeds", 0)  # which only stops the function
    assert registry.shared_concurrency() == 10


# Environments


def test_an_environment_is_cold_once_and_then_warm():
    with serving() as service:
        service.lambdas.publish(DEEDS)
        first, second = service.invoke(), service.invoke()
    assert first["Payload"]["pid"] == second["Payload"]["pid"]
    assert (first["Payload"]["calls"], second["Payload"]["calls"]) == (1, 2)
    assert "Init Duration" in first["Log"]
    assert "Init Duration" not in second["Log"]
    assert 0 < second["Payload"]["left_ms"] <= 20_000


def test_a_function_finds_what_lambda_sets_and_nothing_of_its_host(monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_HOST", "x")
    own = {"MARLESS_TENANT": "default", "PYTHONPATH": "/own", "AWS_REGION": "elsewhere", "TZ": "Europe/Vienna"}
    with serving() as service:
        service.lambdas.publish(replace(DEEDS, memory_mb=512, environment=own))
        found = service.invoke(do="variables")["Payload"]
    expected = {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_SESSION_TOKEN": "token",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": service.endpoint,
        "AWS_EXECUTION_ENV": f"AWS_Lambda_python{sys.version_info.major}.{sys.version_info.minor}",
        "AWS_LAMBDA_FUNCTION_NAME": "deeds",
        "AWS_LAMBDA_FUNCTION_VERSION": "1",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512",
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_LAMBDA_LOG_GROUP_NAME": "/marless/deeds",
        "LAMBDA_TASK_ROOT": str(HERE),
        "_HANDLER": "deeds.handler",
        "MARLESS_TENANT": "default",
        "PYTHONPATH": f"{HERE}:/own",
        "TZ": "Europe/Vienna",
    }
    assert {name: found.get(name) for name in expected} == expected
    group, stream, _ = service.logs[0]
    assert (group, stream) == ("/marless/deeds", found["AWS_LAMBDA_LOG_STREAM_NAME"])
    assert re.fullmatch(r"\d{4}/\d\d/\d\d/\[1\][0-9a-f]{32}", stream)
    assert service.sessions == [("arn:aws:iam::123456789012:role/deeds", "deeds")]
    assert "SECRET_OF_THE_HOST" not in found
    assert not Path(found["TMPDIR"]).exists()  # ended with the environment


def test_a_function_calculates_with_the_instructions_that_its_host_is_set_to_use(monkeypatch):
    for name, value in {**KERNEL, "OPENBLAS_NUM_THREADS": "8"}.items():
        monkeypatch.setenv(name, value)
    with serving() as service:
        service.lambdas.publish(DEEDS)
        found = service.invoke(do="variables")["Payload"]
    assert {name: found.get(name) for name in KERNEL} == KERNEL
    assert "OPENBLAS_NUM_THREADS" not in found


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


def test_a_process_that_ends_after_its_answer_is_replaced_unseen():
    with serving() as service:
        service.lambdas.publish(DEEDS)
        wait_for_end(service.invoke(do="die_later")["Payload"])
        answer = service.invoke()
    assert "FunctionError" not in answer
    assert answer["Payload"]["calls"] == 1
    assert "Init Duration" in answer["Log"]


def test_a_removed_function_ends_with_its_environments():
    with serving() as service:
        service.lambdas.publish(DEEDS)
        pid = service.invoke()["Payload"]["pid"]
        service.lambdas.remove("deeds")
        wait_for_end(pid)
        assert refusal(service.client.invoke, FunctionName="deeds")[:2] == (404, "ResourceNotFoundException")
        service.lambdas.publish(replace(DEEDS, memory_mb=256))
        assert service.invoke()["Payload"]["calls"] == 1


def test_the_machine_s_limit_makes_calls_wait_and_ends_what_is_idle(meeting):
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


def test_functions_that_wait_for_others_do_not_keep_those_from_starting(loop):
    with serving(most_processes=1) as service:
        service.lambdas.publish(DEEDS)
        assert service.invoke(**loop, most=3)["Payload"] == "done"  # each runs while the one before waits
        assert len(Path(loop["file"]).read_text().splitlines()) == 3
        pool = service.lambdas._pool
        wait_until(lambda: pool._reserved == 1)  # they are gone again


def test_an_environment_that_cannot_be_started_is_a_fault_of_the_service(tmp_path):
    with serving(most_processes=1) as service:
        service.lambdas.publish(replace(DEEDS, code=(tmp_path / "nowhere",)))
        for _ in range(2):
            assert refusal(service.client.invoke, FunctionName="deeds")[:2] == (500, "ServiceException")
        service.lambdas.publish(replace(DEEDS, version="2"))
        assert service.invoke()["Payload"]["calls"] == 1  # the slot is free again


@pytest.mark.parametrize(("patience_s", "first"), [(60.0, "deeds"), (0.0, "other")])
def test_a_free_environment_goes_to_its_own_version_unless_another_call_has_waited_too_long(
    monkeypatch, meeting, tmp_path, patience_s, first
):
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


# Ends of invocations


def test_an_error_of_the_function_is_its_answer():
    with serving() as service:
        service.lambdas.publish(DEEDS)
        answer = service.invoke(do="fail", text="no such thing")
        assert service.invoke()["Payload"]["calls"] == 2  # the environment survives
    assert (answer["StatusCode"], answer["FunctionError"]) == (200, "Unhandled")
    assert answer["Payload"]["errorType"] == "ValueError"
    assert answer["Payload"]["errorMessage"] == "no such thing"
    assert answer["Payload"]["requestId"] == answer["ResponseMetadata"]["RequestId"]
    assert "[ERROR] ValueError: no such thing\nTraceback" in answer["Log"]


def test_a_time_out_kills_the_environment_and_all_it_started(tmp_path):
    with serving() as service:
        service.lambdas.publish(replace(DEEDS, timeout_s=1.0))
        answer = service.invoke(do="hang", file=str(tmp_path / "pids"))
        for pid in (tmp_path / "pids").read_text().split():
            wait_for_end(int(pid))
        assert service.invoke()["Payload"]["calls"] == 1
    request = answer["ResponseMetadata"]["RequestId"]
    assert answer["FunctionError"] == "Unhandled"
    assert answer["Payload"] == {
        "errorType": "Sandbox.Timedout",
        "errorMessage": f"RequestId: {request} Error: Task timed out after 1.00 seconds",
    }
    assert re.search(
        rf"\n\d{{4}}-\d\d-\d\dT[\d:.]{{12}}Z {request} Task timed out after 1\.00 seconds\n", answer["Log"]
    )
    assert "\tDuration: 1000.00 ms\t" in answer["Log"]
    assert answer["Log"].endswith("\tStatus: timeout\n")


@pytest.mark.parametrize(
    ("deed", "how"),
    [
        ({"do": "leave", "status": 3}, "Runtime exited with error: exit status 3"),
        ({"do": "leave", "status": 0}, "Runtime exited without providing a reason"),
        ({"do": "die"}, "Runtime exited with error: signal: killed"),
    ],
)
def test_a_process_that_dies_is_reported_and_replaced(deed, how):
    with serving() as service:
        service.lambdas.publish(DEEDS)
        answer = service.invoke(**deed)
        assert service.invoke()["Payload"]["calls"] == 1
    message = f"RequestId: {answer['ResponseMetadata']['RequestId']} Error: {how}"
    assert answer["FunctionError"] == "Unhandled"
    assert answer["Payload"] == {"errorType": "Runtime.ExitError", "errorMessage": message}
    assert f"\n{message}\nRuntime.ExitError\nEND RequestId" in answer["Log"]
    assert answer["Log"].endswith("\tStatus: error\tError Type: Runtime.ExitError\n")


def test_a_module_that_cannot_be_imported_fails_twice_and_is_no_init_to_bill():
    with serving() as service:
        service.lambdas.publish(replace(DEEDS, handler="nowhere.handler"))
        answer = service.invoke()
    assert answer["FunctionError"] == "Unhandled"
    assert answer["Payload"]["errorType"] == "Runtime.ImportModuleError"
    assert "No module named 'nowhere'" in answer["Payload"]["errorMessage"]
    log = "\n".join(service.logs[0][2])
    failures = re.findall(
        r"INIT_REPORT Init Duration: \d+\.\d\d ms\tPhase: (\w+)\tStatus: error\tError Type: (.+)", log
    )
    assert failures == [("init", "Runtime.ImportModuleError"), ("invoke", "Runtime.ImportModuleError")]
    assert "\tInit Duration" not in log


def test_an_init_that_takes_too_long_is_repeated_within_the_invocation(monkeypatch, tmp_path):
    monkeypatch.setattr(environments, "INIT_LIMIT_S", 1.0)
    mark = {"SLOW_MARK": str(tmp_path / "mark")}
    with serving() as service:
        service.lambdas.publish(replace(DEEDS, handler="start_deeds.handler", environment=mark))
        answer = service.invoke()
    assert answer["Payload"] == "awake"
    assert answer["Log"].startswith("slow\nINIT_REPORT Init Duration: 1")
    assert " ms\tPhase: init\tStatus: timeout\nSTART RequestId" in answer["Log"]
    assert "\tInit Duration" not in answer["Log"]


def test_an_init_that_never_ends_uses_up_the_function_s_time(monkeypatch, tmp_path):
    monkeypatch.setattr(environments, "INIT_LIMIT_S", 0.3)
    always = {"SLOW_MARK": str(tmp_path / "mark"), "SLOW_ALWAYS": "yes"}
    with serving() as service:
        slow = replace(DEEDS, handler="start_deeds.handler", environment=always, timeout_s=0.4)
        service.lambdas.publish(slow)
        answer = service.invoke()
    assert answer["Payload"]["errorType"] == "Sandbox.Timedout"
    assert answer["Payload"]["errorMessage"].endswith("Task timed out after 0.40 seconds")
    assert re.findall(r"Phase: (\w+)\tStatus: (\w+)", answer["Log"]) == [("init", "timeout"), ("invoke", "timeout")]


# Logs and bills


def test_the_log_of_an_invocation_is_what_lambda_writes(shared):
    shared.invoke()
    answer = shared.invoke(do="speak", text="one\ntwo")
    request = answer["ResponseMetadata"]["RequestId"]
    start, one, two, end, report = answer["Log"].removesuffix("\n").split("\n")
    assert start == f"START RequestId: {request} Version: 1"
    assert (one, two) == ("one", "two")
    assert end == f"END RequestId: {request}"
    figures = re.fullmatch(
        rf"REPORT RequestId: {request}\tDuration: (\d+\.\d\d) ms\tBilled Duration: (\d+) ms\t"
        r"Memory Size: 128 MB\tMax Memory Used: (\d+) MB\t",
        report,
    )
    assert figures is not None
    duration, billed, memory = map(float, figures.groups())
    assert billed - 1 < duration <= billed
    assert 5 < memory < 128
    assert shared.logs[-1] == ("/marless/deeds", shared.logs[-1][1], [start, one, two, end, report])


def test_a_cold_start_is_billed_with_its_init():
    with serving() as service:
        service.lambdas.publish(DEEDS)
        log = service.invoke()["Log"]
    duration, billed, init = (
        float(re.search(rf"\t{name}: ([\d.]+) ms\t", log)[1])
        for name in ("Duration", "Billed Duration", "Init Duration")
    )
    assert init > 10
    assert billed - 1 < duration + init <= billed


def test_report_lines_are_those_that_lambda_wrote():
    """Lines written by the AWS service: a time-out after a cold start, and a function out of memory."""
    assert platform_log.report("1f60b20c", 3000.0, 402.04, 128, 73, ErrorStatus("timeout", "Sandbox.Timedout")) == (
        "REPORT RequestId: 1f60b20c\tDuration: 3000.00 ms\tBilled Duration: 3403 ms\tMemory Size: 128 MB\t"
        "Max Memory Used: 73 MB\tInit Duration: 402.04 ms\tStatus: timeout"
    )
    assert platform_log.report("595dc20a", 103085.64, None, 128, 126, ErrorStatus("error", "Runtime.OutOfMemory")) == (
        "REPORT RequestId: 595dc20a\tDuration: 103085.64 ms\tBilled Duration: 103086 ms\tMemory Size: 128 MB\t"
        "Max Memory Used: 126 MB\tStatus: error\tError Type: Runtime.OutOfMemory"
    )


def test_the_tail_is_the_last_four_kilobytes_and_comes_when_asked_for(shared):
    answer = shared.invoke(do="speak", text="x" * 5000)
    assert len(answer["Log"]) == 4096
    assert answer["Log"].startswith("xxx")
    assert answer["Log"].endswith(" MB\t\n")
    assert len(shared.logs[-1][2][1]) == 5000
    assert "LogResult" not in shared.client.invoke(FunctionName="deeds")


def test_memory_that_was_used_is_reported():
    with serving() as service:
        service.lambdas.publish(replace(DEEDS, memory_mb=512))
        assert service.invoke(do="swell", mib=100)["Payload"] == 100 << 20
        log = service.invoke()["Log"]  # the environment's peak so far
    assert 100 < int(re.search(r"Max Memory Used: (\d+) MB", log)[1]) < 250


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not report the memory of a process")
@pytest.mark.parametrize("deed", [{"do": "swell", "mib": 200}, {"do": "swell", "mib": 200, "s": 60}])
def test_a_function_out_of_memory_is_killed_without_a_word_of_its_own(deed):
    """Once at its answer, and once while it goes on; its next call finds a new environment."""
    with serving() as service:
        service.lambdas.publish(DEEDS)
        assert service.invoke(do="swell", mib=20)["Payload"] == 20 << 20
        answer = service.invoke(**deed)
        assert service.invoke()["Payload"]["calls"] == 1
    message = f"RequestId: {answer['ResponseMetadata']['RequestId']} Error: Runtime exited with error: signal: killed"
    assert answer["FunctionError"] == "Unhandled"
    assert answer["Payload"] == {"errorType": "Runtime.ExitError", "errorMessage": message}
    _, *said, _, report = answer["Log"].removesuffix("\n").split("\n")
    assert said == [message, "Runtime.ExitError"]
    assert "\tMemory Size: 128 MB\tMax Memory Used: 128 MB\t" in report
    assert report.endswith("\tStatus: error\tError Type: Runtime.OutOfMemory")


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not report the memory of a process")
def test_children_count_but_not_what_they_share_with_the_function():
    """80 MiB are within the 128 of the function, whoever shares them; three times 80 MiB are not."""
    with serving() as service:
        service.lambdas.publish(DEEDS)
        assert service.invoke(do="fork", mib=80, own=False)["Payload"] == "forked"
        assert service.invoke(do="fork", mib=80, own=True)["Payload"]["errorType"] == "Runtime.ExitError"


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not report the memory of a process")
def test_a_module_that_is_too_large_for_its_function_fails_at_its_start():
    with serving() as service:
        large = replace(DEEDS, handler="start_deeds.handler", environment={"LARGE_MIB": "200"})
        service.lambdas.publish(large)
        answer = service.invoke()
        service.lambdas.publish(replace(large, version="2", memory_mb=512))
        assert service.invoke()["Payload"] == "awake"
    assert answer["Payload"]["errorMessage"].endswith("Error: Runtime exited with error: signal: killed")
    assert re.findall(r"Phase: (\w+)\tStatus: error\tError Type: (.+)", answer["Log"]) == [
        ("init", "Runtime.OutOfMemory"),
        ("invoke", "Runtime.OutOfMemory"),
    ]


def test_talkative_functions_lose_the_beginning_of_what_they_said():
    output = Output()
    os.write(output.descriptor, b"a\n" + b"x" * (5 << 20))
    (kept,) = output.take()
    assert kept == "x" * (4 << 20)
    os.write(output.descriptor, b"b\nc\rd")
    assert output.take() == ["b", "c\nd"]
    assert os.fstat(output.descriptor).st_size < 10
    assert output.take() == []
    output.close()


def test_functions_run_though_their_log_cannot_be_written(caplog):
    with serving() as service:
        service.lambdas.publish(DEEDS)
        service.logs = None  # appending to it raises
        assert service.invoke()["StatusCode"] == 200
        assert service.invoke()["Payload"]["calls"] == 2
    assert "cannot write the log of deeds" in caplog.text


# Sizes


def sized(length):
    """An event of `length` bytes that requests no action."""
    head, foot = b'{"do":"nothing","x":"', b'"}'
    return head + b"a" * (length - len(head) - len(foot)) + foot


def test_requests_may_have_six_megabytes_and_not_a_byte_more(shared):
    payload = sized(6 * 1024 * 1024)
    assert shared.client.invoke(FunctionName="deeds", Payload=payload)["Payload"].read() == b"null"
    status, code, response = refusal(shared.client.invoke, FunctionName="deeds", Payload=payload + b" ")
    assert (status, code) == (413, "RequestEntityTooLargeException")
    assert response["Error"]["Message"] == (
        "6291457 byte payload is too large for the RequestResponse invocation type (limit 6291456 bytes)"
    )


def test_events_may_have_one_megabyte_and_not_a_byte_more(shared):
    payload = sized(1024 * 1024)
    arguments = {"FunctionName": "deeds", "InvocationType": "Event"}
    assert shared.client.invoke(**arguments, Payload=payload)["StatusCode"] == 202
    status, code, response = refusal(shared.client.invoke, **arguments, Payload=payload + b" ")
    assert (status, code) == (413, "RequestEntityTooLargeException")
    assert response["Error"]["Message"] == (
        "1048577 byte payload is too large for the Event invocation type (limit 1048576 bytes)"
    )


def test_an_answer_may_have_six_megabytes_and_no_more():
    with serving() as service:
        service.lambdas.publish(DEEDS)
        assert len(service.invoke(do="fill", length=6_291_000)["Payload"]) == 6_291_000
        answer = service.invoke(do="fill", length=6_291_600)
        assert service.invoke()["Payload"]["calls"] == 1
    assert answer["FunctionError"] == "Unhandled"
    assert answer["Payload"]["errorType"] == "Function.ResponseSizeTooLarge"
    assert "(6291556 bytes)" in answer["Payload"]["errorMessage"]


def test_a_payload_that_is_no_json_is_refused(shared):
    for kind in ("RequestResponse", "Event"):
        status, code, _ = refusal(shared.client.invoke, FunctionName="deeds", Payload=b"{", InvocationType=kind)
        assert (status, code) == (400, "InvalidRequestContentException")


# Concurrency


@pytest.mark.parametrize(
    ("reserved", "limit", "reason"),
    [
        (1, 1000, "ReservedFunctionConcurrentInvocationLimitExceeded"),
        (None, 1, "ConcurrentInvocationLimitExceeded"),
    ],
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


def test_the_quota_of_the_account_throttles_and_the_machine_s_limit_does_not(meeting, tmp_path):
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


# Asynchronous events


def test_an_event_is_accepted_at_once_and_runs_once(tmp_path, shared):
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


def test_an_event_that_is_throttled_until_it_is_too_old_becomes_a_dead_letter():
    with serving() as service:
        service.lambdas.publish(replace(DEEDS, max_event_age_s=0.5))
        service.lambdas.reserve("deeds", 0)
        began = time.monotonic()
        request = service.submit(do="describe")["ResponseMetadata"]["RequestId"]
        assert service.letter.wait(10)
        assert 0.5 <= time.monotonic() - began < 5
    (letter,) = service.buried
    assert (letter.arn, letter.request_id) == ("arn:aws:sqs:us-east-1:123456789012:dead", request)
    assert json.loads(letter.body) == {"do": "describe"}
    assert (letter.error_code, letter.error_message) == (429, "Rate Exceeded.")


@pytest.mark.parametrize("retries", [0, 2])
def test_an_event_that_fails_is_tried_again_as_often_as_allowed(monkeypatch, retries):
    monkeypatch.setattr(async_events, "FAILED_S", 0.05)
    with serving() as service:
        service.lambdas.publish(replace(DEEDS, max_retries=retries))
        request = service.submit(do="fail", text="y" * 2000)["ResponseMetadata"]["RequestId"]
        assert service.letter.wait(10)
        starts = [entry for entry in service.logs if f"START RequestId: {request} Version: 1" in entry[2]]
        assert len(starts) == 1 + retries
    (letter,) = service.buried
    assert (letter.error_code, letter.error_message) == (200, "y" * 1024)


def test_pauses_between_attempts_grow_and_end_with_the_event():
    registry = Registry("us-east-1", "123456789012", 1000)
    registry.publish(replace(DEEDS, max_event_age_s=100.0))
    event = async_events.Event(registry.resolve("deeds", None), None, endless=False)
    refused = Refused(429, "TooManyRequestsException", {"message": "Rate Exceeded."})
    assert [event.count_throttle(refused) for _ in range(8)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    event.arrival_s -= 98.0
    assert 1.0 < event.count_throttle(refused) <= 2.0
    event.arrival_s -= 10.0
    assert event.count_throttle(refused) == 0.0


def test_a_thousand_events_run_once_each_in_a_few_processes(tmp_path):
    notes = tmp_path / "notes"
    with serving(most_processes=3) as service:
        service.lambdas.publish(DEEDS)
        service.lambdas.reserve("deeds", 50)
        for index in range(1000):
            event = {"do": "append", "file": str(notes), "text": str(index)}
            service.lambdas.submit("deeds", "live", json.dumps(event).encode())
        wait_until(lambda: len(service.logs) >= 1000, limit_s=20.0)
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


# Recursion


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


@pytest.fixture
def loop(tmp_path):
    return {"do": "again", "file": str(tmp_path / "runs"), "how": "RequestResponse"}


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


def test_an_event_in_a_loop_is_stopped_after_sixteen_runs_and_becomes_a_dead_letter(loop):
    with serving(most_processes=1) as service:
        service.lambdas.publish(DEEDS)
        service.submit(**{**loop, "how": "Event", "most": 20})
        assert service.letter.wait(20)
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


# Other requests


def test_a_dry_run_runs_nothing(shared):
    before = len(shared.logs)
    answer = shared.client.invoke(FunctionName="deeds", InvocationType="DryRun")
    assert (answer["StatusCode"], answer["Payload"].read()) == (204, b"")
    assert len(shared.logs) == before


def test_account_settings_name_the_limits(shared):
    settings = shared.client.get_account_settings()
    assert settings["AccountLimit"]["ConcurrentExecutions"] == 1000
    assert settings["AccountLimit"]["UnreservedConcurrentExecutions"] == 1000
    assert settings["AccountUsage"]["FunctionCount"] == 1


def test_all_else_is_passed_on(shared):
    for method, path in (("GET", "/2015-03-31/functions/deeds"), ("POST", "/2015-03-31/functions"), ("GET", "/")):
        answer = URLLib3Session().send(AWSRequest(method, f"{shared.endpoint}{path}").prepare())
        assert (answer.status_code, answer.text) == (200, "another service")


def test_an_invocation_type_that_is_none_is_refused(shared):
    status, code, _ = refusal(shared.client.invoke, FunctionName="deeds", InvocationType="Sometime")
    assert (status, code) == (400, "InvalidParameterValueException")


# The Runtime API's HTTP


def test_a_request_is_taken_when_it_is_whole():
    whole = b"POST /2018-06-01/runtime/invocation/7/response HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"
    data = bytearray()
    for byte in whole[:-1]:
        data.append(byte)
        assert runtime.take(data) is None
    data += whole[-1:] + b"GET"
    request = runtime.take(data)
    assert (request.method, request.path, request.body) == (
        "POST",
        "/2018-06-01/runtime/invocation/7/response",
        b"hello",
    )
    assert data == b"GET"


@pytest.mark.parametrize(
    "data",
    [
        b"hello\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: many\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"x" * (2 << 20),
    ],
)
def test_what_is_no_request_is_not_taken_for_one(data):
    with pytest.raises(runtime.Garbled):
        runtime.take(bytearray(data))


def test_strangers_at_the_runtime_api_do_no_harm(meeting):
    with serving() as service, ThreadPoolExecutor(1) as threads:
        service.lambdas.publish(DEEDS)
        address = service.invoke(do="variables")["Payload"]["AWS_LAMBDA_RUNTIME_API"].split(":")
        call = threads.submit(service.invoke, **meeting.event)
        meeting.begun()
        with socket.create_connection((address[0], int(address[1]))) as stranger:
            stranger.sendall(b"nonsense\r\n\r\n")
            assert stranger.recv(1) == b""
        with socket.create_connection((address[0], int(address[1]))) as stranger:
            stranger.sendall(b"POST /2018-06-01/runtime/invocation/other/response HTTP/1.1\r\n\r\n")
            assert stranger.recv(12) == b"HTTP/1.1 400"
        meeting.release()
        assert isinstance(call.result()["Payload"], int)


# Shutdown


def test_closing_ends_what_runs_and_turns_away_who_waits(tmp_path, meeting):
    service = Service(most_processes=1)
    service.lambdas.publish(DEEDS)
    service.lambdas.publish(replace(DEEDS, name="other"))
    with ThreadPoolExecutor(2) as threads:
        running = threads.submit(service.invoke, do="hang", file=str(tmp_path / "pids"))
        wait_until(lambda: (tmp_path / "pids").exists() and (tmp_path / "pids").read_text().endswith("\n"))
        waiting = threads.submit(service.invoke, name="other")
        wait_until(lambda: service.lambdas._pool._waiting)
        service.submit(do="append", file=str(tmp_path / "late"), text="late")
        service.lambdas.close()
        assert running.result()["Payload"]["errorType"] == "Runtime.ExitError"
        assert refusal(waiting.result)[:2] == (500, "ServiceException")
    for pid in (tmp_path / "pids").read_text().split():
        wait_for_end(int(pid), limit_s=1.0)
    service.close()
    assert not (tmp_path / "late").exists()
    assert service.buried == []


def test_environments_die_with_an_emulator_that_is_killed(tmp_path):
    source = f"""
from pathlib import Path
from aws_emulator.lambda_service.lambdas import Lambdas
from aws_emulator.lambda_service.environment_variables import AccountContext
from aws_emulator.lambda_service.versions import FunctionVersion
account = AccountContext("us-east-1", "123456789012", "http://127.0.0.1:9", lambda role, session: ("k", "s", "t"))
lambdas = Lambdas(account, lambda *log: None, print)
lambdas.publish(FunctionVersion("deeds", "1", "deeds.handler", (Path({str(HERE)!r}),), timeout_s=600.0))
print(lambdas.invoke("deeds", None, b'{{"do": "describe"}}').payload.decode(), flush=True)
lambdas.invoke("deeds", None, b'{{"do": "hang", "file": {json.dumps(str(tmp_path / "pids"))}}}')
"""
    variables = {**os.environ, "TMPDIR": str(tmp_path)}  # files that a killed emulator leaves stay inside
    emulator = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, env=variables)
    try:
        idle = json.loads(emulator.stdout.readline())["pid"]
        wait_until(lambda: (tmp_path / "pids").exists() and (tmp_path / "pids").read_text().endswith("\n"))
        started = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
        assert idle in started
    finally:
        emulator.send_signal(signal.SIGKILL)
        emulator.communicate()
    for pid in started:
        wait_for_end(pid, limit_s=5.0)


# Schedules


def test_schedules_fire_every_period_until_they_are_removed_or_all_is_closed(tmp_path):
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
