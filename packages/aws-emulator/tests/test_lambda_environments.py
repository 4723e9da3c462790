"""The environments of emulated functions: their contents, replacement and end."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from emulated_service import CODE, DEEDS, KERNEL, Service, refusal, serving, wait_for_end, wait_until

from aws_emulator.lambda_service import runtime


def test_an_environment_is_cold_once_and_then_warm():
    with serving() as service:
        service.lambdas.publish(DEEDS)
        first, second = service.invoke(), service.invoke()
    assert first["Payload"]["pid"] == second["Payload"]["pid"]
    assert (first["Payload"]["calls"], second["Payload"]["calls"]) == (1, 2)
    assert "Init Duration" in first["Log"]
    assert "Init Duration" not in second["Log"]
    assert 0 < second["Payload"]["left_ms"] <= 20_000


def test_function_sees_lambda_variables_and_none_of_host():
    own = {"MARLESS_TENANT": "default", "PYTHONPATH": "/own", "AWS_REGION": "elsewhere", "TZ": "Europe/Vienna"}
    with patch.dict(os.environ, {"SECRET_OF_THE_HOST": "x"}), serving() as service:
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
        "LAMBDA_TASK_ROOT": str(CODE),
        "_HANDLER": "deeds.handler",
        "MARLESS_TENANT": "default",
        "PYTHONPATH": f"{CODE}:/own",
        "TZ": "Europe/Vienna",
    }
    assert {name: found.get(name) for name in expected} == expected
    group, stream, _ = service.logs[0]
    assert (group, stream) == ("/marless/deeds", found["AWS_LAMBDA_LOG_STREAM_NAME"])
    assert re.fullmatch(r"\d{4}/\d\d/\d\d/\[1\][0-9a-f]{32}", stream)
    assert service.sessions == [("arn:aws:iam::123456789012:role/deeds", "deeds")]
    assert "SECRET_OF_THE_HOST" not in found
    assert not Path(found["TMPDIR"]).exists()  # ended with the environment


def test_function_computes_with_instructions_chosen_by_host():
    with patch.dict(os.environ, {**KERNEL, "OPENBLAS_NUM_THREADS": "8"}), serving() as service:
        service.lambdas.publish(DEEDS)
        found = service.invoke(do="variables")["Payload"]
    assert {name: found.get(name) for name in KERNEL} == KERNEL
    assert "OPENBLAS_NUM_THREADS" not in found


def test_process_that_ends_after_answer_is_replaced_silently():
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


def test_files_of_added_folders_hide_no_library_module(tmp_path):
    folder = tmp_path / "at 12:30"
    folder.mkdir()
    (folder / "random.py").write_text("raise RuntimeError('this is not the library')")
    (folder / "further.py").write_text("import random\n\n\ndef handler(*_): return random.random() < 0")
    with serving() as service:
        service.lambdas.publish(replace(DEEDS, code=(CODE, folder), handler="further.handler"))
        assert service.invoke()["Payload"] is False


def test_failed_environment_start_is_service_fault(tmp_path):
    with serving(most_processes=1) as service:
        service.lambdas.publish(replace(DEEDS, code=(tmp_path / "nowhere",)))
        for _ in range(2):
            assert refusal(service.client.invoke, FunctionName="deeds")[:2] == (500, "ServiceException")
        service.lambdas.publish(replace(DEEDS, version="2"))
        assert service.invoke()["Payload"]["calls"] == 1  # the slot is free again


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
def test_malformed_request_is_not_accepted(data):
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


def test_closing_ends_running_calls_and_refuses_waiting_calls(tmp_path, meeting):
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
        wait_for_end(int(pid))
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
lambdas.publish(FunctionVersion("deeds", "1", "deeds.handler", (Path({str(CODE)!r}),), timeout_s=600.0))
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
        wait_for_end(pid)
