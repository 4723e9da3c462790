"""Invocations of the emulated Lambda service: their ends, logs and billed times."""

import os
import re
import sys
from dataclasses import replace

import pytest
from emulated_service import DEEDS, serving

from aws_emulator.lambda_service import platform_log
from aws_emulator.lambda_service.platform_log import ErrorStatus, Output


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


def test_failing_import_fails_twice_without_billed_init():
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


def test_invocation_log_matches_lambda(shared):
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


def test_tail_holds_last_four_kilobytes_on_request(shared):
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
def test_function_out_of_memory_is_killed_silently(deed):
    """Once at its answer, and once while it continues. Its next call finds a new environment."""
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
def test_children_memory_counts_without_pages_shared_with_function():
    """Shared memory counts once: 80 MiB fit into the function's 128, but three times 80 MiB do not."""
    with serving() as service:
        service.lambdas.publish(DEEDS)
        assert service.invoke(do="fork", mib=80, own=False)["Payload"] == "forked"
        assert service.invoke(do="fork", mib=80, own=True)["Payload"]["errorType"] == "Runtime.ExitError"


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not report the memory of a process")
def test_too_large_module_fails_at_function_start():
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


def test_long_logs_lose_their_beginning():
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
