"""Runs packaged functions as Lambda would: in a fresh interpreter that imports only from their package.

Storage and table are emulated by moto in this process.
"""

import json
import logging
import os
import secrets
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from moto.moto_server.threaded_moto_server import ThreadedMotoServer

from marless.functions import keys
from marless.functions.environments.base import EnvTask
from marless.functions.errors import KeyTaken
from marless.functions.messages.exchange import Answer, Done, Request
from marless.infra.aws.clients import Cloud
from marless.infra.aws.function_settings import Settings
from marless.infra.aws.s3 import S3Storage
from marless.infra.packaging.package_build import ENTRIES
from scripts.events import EVENTS, RUN

_START = """
import json, sys, time, types
context = types.SimpleNamespace(function_name="audit", function_version="1", memory_limit_in_mb="1769",
                                invoked_function_arn="arn", aws_request_id="1")
wall, processor = time.perf_counter(), time.process_time()
sys.path.insert(0, sys.argv[1])
from importlib import import_module
entry = import_module(sys.argv[2])
took = time.perf_counter() - wall, time.process_time() - processor
print(json.dumps([*took, entry.handler(json.load(sys.stdin), context) if len(sys.argv) > 3 else None]))
"""
TASK = EnvTask(name="mpe/simple_spread", agents=3)


class Functions:
    """Packages by function, started one call at a time with `python` and the template's variables `environment`."""

    def __init__(self, python: str, packages: Mapping[str, Path], environment: Mapping[str, str]) -> None:
        self._python, self._packages, self._environment = python, packages, environment

    def imported(self, function: str, package: Path | None = None, module: str | None = None) -> tuple[float, float]:
        """Wall and processor seconds of the import of the function's entry or another `module`, from the copy `package`
        of its package if one is given."""
        wall, processor, _ = self._start(function, package or self._packages[function], module or ENTRIES[function])
        return wall, processor

    def call(self, function: str, event: bytes) -> Any:
        """The function's result for an event in JSON."""
        return self._start(function, self._packages[function], ENTRIES[function], event)[2]

    def _start(self, function: str, package: Path, module: str, event: bytes | None = None) -> Any:
        """Return the output of the program `_START`. Raises `RuntimeError`."""
        call = [] if event is None else ["call"]
        # -I -S exclude the current folder and installed packages. -B: a package is read-only on Lambda.
        command = [self._python, "-I", "-S", "-B", "-c", _START, str(package), module, *call]
        variables = {"PATH": os.defpath, **self._environment}
        done = subprocess.run(command, input=event or b"", env=variables, capture_output=True, timeout=120)
        if done.returncode:
            raise RuntimeError(f"{function} failed: {done.stderr.decode(errors='replace').strip()}")
        return json.loads(done.stdout.splitlines()[-1])


@contextmanager
def account() -> Iterator[dict[str, str]]:
    """An emulated bucket and table, as the environment variables that the template gives to the functions.

    They have unique names, because all accounts of a process share moto's memory.
    """
    place = f"audit-{secrets.token_hex(4)}"
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        cloud = Cloud(region="us-east-1", endpoint=f"http://{host}:{port}", credentials=("audit", "audit", None))
        cloud.client("s3").create_bucket(Bucket=place)
        cloud.client("dynamodb").create_table(
            TableName=place,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("scope", "item")],
            KeySchema=[{"AttributeName": "scope", "KeyType": "HASH"}, {"AttributeName": "item", "KeyType": "RANGE"}],
        )
        yield {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1769",
            "AWS_ACCESS_KEY_ID": "audit",
            "AWS_SECRET_ACCESS_KEY": "audit",
            "MARLESS_BUCKET": place,
            "MARLESS_TABLE": place,
            "MARLESS_TENANT": "default",
            "MARLESS_CODE": "audit",
            "POWERTOOLS_SERVICE_NAME": "audit",
            "POWERTOOLS_METRICS_NAMESPACE": "MARLess",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
    finally:
        server.stop()


def work(functions: Functions, names: Iterable[str], environment: Mapping[str, str]) -> None:
    """Answer every sample event of the functions `names` with their packages. Raises `RuntimeError` if one fails.

    The objects of the events' messages are in storage instead, like in most runs.
    """
    cloud = Cloud(environment["AWS_REGION"], environment["AWS_ENDPOINT_URL"], ("audit", "audit", None))
    settings = Settings.from_environment(environment)
    storage = S3Storage(cloud, settings.bucket, settings.objects(RUN))
    for function in names:
        for path in sorted((EVENTS / function).iterdir()):
            result = functions.call(function, path.read_bytes())
            if function != "coordinator":
                _require_done(path.name, result)
                result = functions.call(function, _stored(path.read_bytes(), storage))
                _require_done(path.name, result)


def _stored(event: bytes, storage: S3Storage) -> bytes:
    """The event without the objects of its message, which are stored."""
    task = msgspec.json.decode(event, type=Request)
    for key, body in task.inlined.items():
        with suppress(KeyTaken):
            storage.put(key, body)
    return msgspec.json.encode(msgspec.structs.replace(task, inlined={}, inline_objects=False))


def _require_done(name: str, result: object) -> None:
    answer: Answer = msgspec.convert(result, Answer)
    if not isinstance(answer, Done):
        raise RuntimeError(f"{name} failed: {answer.message}")


def sweep(functions: Functions) -> None:
    """Run the coordinator's sweep without any runs. Raises `RuntimeError`."""
    if functions.call("coordinator", b'{"sweep": true}') != {"woken": 0}:
        raise RuntimeError("coordinator failed: there is no run to wake")


def traced(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of an invocation with tracing on. No X-Ray daemon receives its segments."""
    trace = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
    return {**environment, "MARLESS_TRACING": "Active", "LAMBDA_TASK_ROOT": "/var/task", "_X_AMZN_TRACE_ID": trace}


def order(work: str) -> dict[str, Any]:
    """The common members of the requests for the audit's run."""
    return {
        "id": keys.task_id("audit", 0, work),
        "run": "audit",
        "round": 0,
        "output": keys.output_prefix(0, work),
        "timeout_s": 60.0,
        "seed": 1,
    }
