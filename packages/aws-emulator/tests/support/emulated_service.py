"""The emulated Lambda service for tests, with real awslambdaric processes and real SDK clients."""

import base64
import json
import os
import select
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from emulated_accounts import Caller
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.wrappers import Response

from aws_emulator.lambda_service.environment_variables import AccountContext
from aws_emulator.lambda_service.lambda_api import LambdaApi
from aws_emulator.lambda_service.lambdas import Lambdas
from aws_emulator.lambda_service.versions import FunctionVersion

CODE = Path(__file__).parent  # with `deeds` and `start_deeds`
ARN = "arn:aws:lambda:us-east-1:123456789012:function:deeds"
DEEDS = FunctionVersion(
    name="deeds",
    version="1",
    handler="deeds.handler",
    code=(CODE,),
    timeout_s=20.0,
    role_arn="arn:aws:iam::123456789012:role/deeds",
    log_group="/marless/deeds",
    dead_letter_arn="arn:aws:sqs:us-east-1:123456789012:dead",
)


class Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_request(self, *_):
        pass


# Variables that functions inherit from the account's process: the instructions with which libraries calculate.
KERNEL = {"OPENBLAS_CORETYPE": "Haswell", "NPY_DISABLE_CPU_FEATURES": "X86_V4", "MKL_CBWR": "AVX2"}


class Service:
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


class Meeting:
    def __init__(self, folder):
        self.here, self.go = folder / "here", folder / "go"
        os.mkfifo(self.here)
        os.mkfifo(self.go)
        self.event = {"do": "meet", "here": str(self.here), "go": str(self.go)}

    def begun(self):
        assert self.here.read_text() == "here"

    def release(self):
        self.go.write_text("go")


def wait_for_end(pid, limit_s=60.0):
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], limit_s)[0], f"process {pid} still runs"
    finally:
        os.close(descriptor)


def wait_until(true, limit_s=60.0):
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
