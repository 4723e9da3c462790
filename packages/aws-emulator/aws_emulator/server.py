"""The process of an emulated account: ``python -m aws_emulator.server FOLDER``.

moto keeps buckets, tables, queues and roles. Our own Lambda runs the functions. Our own CloudFormation makes stacks.
One server on a free port of 127.0.0.1 answers for all services. FOLDER/account.json holds its endpoint once it answers.
"""

import argparse
import logging
import os
import secrets
import select
import signal
import string
import sys
import threading
import time
from pathlib import Path

from aws_emulator.account_folder import ACCOUNT_NUMBER, AccountFolder, Whereabouts
from aws_emulator.clients import Clients
from aws_emulator.cloudformation import sam_translation
from aws_emulator.cloudformation.cloudformation_api import CloudFormation
from aws_emulator.cloudformation.prerequisites import Packages
from aws_emulator.cloudformation.resources.catalogue import kinds
from aws_emulator.cloudformation.resources.functions import Functions
from aws_emulator.cloudformation.stacks import Stacks
from aws_emulator.iam.authorization import IamAuthorization
from aws_emulator.iam.bucket_policy_api import BucketPolicyApi
from aws_emulator.iam.role_policies import Rules
from aws_emulator.lambda_service.environment_variables import AccountContext
from aws_emulator.lambda_service.lambda_api import LambdaApi
from aws_emulator.lambda_service.lambdas import DeadLetter, Lambdas
from aws_emulator.lambda_service.schedules import Schedules
from aws_emulator.listener import listen
from aws_emulator.middleware.atomic import Atomic
from aws_emulator.middleware.faults import Faults
from aws_emulator.middleware.log_events import LogEvents, LogFiles, LogsApi
from aws_emulator.middleware.request_counter import RequestCounter
from aws_emulator.moto_services import MotoServices
from aws_emulator.network import MANAGEMENT, Network
from aws_emulator.settings import AccountSettings
from aws_emulator.wsgi import App, Environ, Start

# A process that checks whether an account runs holds the account's lock for a moment, so taking it is retried.
_CLAIM_S = 2.0


class EmulatedAccount:
    """All services of an account behind one server."""

    def __init__(self, folder: AccountFolder, settings: AccountSettings) -> None:
        network = Network()
        self._server = listen(_drop_early_request, network, self._admits)
        self._manageable = settings.faults
        endpoint = f"http://127.0.0.1:{self._server.server_port}"
        region, key, secret = settings.region, _key(), secrets.token_urlsafe(30)
        self._client = Clients(endpoint, region, key, secret)
        self.whereabouts = Whereabouts(endpoint, region, key, secret, os.getpid())
        rules = Rules()
        context = AccountContext(region, ACCOUNT_NUMBER, endpoint, self._credentials, settings.inherited_variables)
        logs = LogEvents(LogFiles(folder.functions).write)
        self._lambdas = Lambdas(
            context, logs.write, self._bury, concurrency=settings.concurrency, most_processes=settings.processes
        )
        self._schedules = Schedules(self._lambdas)
        resource_kinds = kinds(
            self._client, Functions(self._lambdas, settings.code, settings.memory_mb), self._schedules, rules
        )
        app: App = LogsApi(Atomic(MotoServices()), logs)
        packages = Packages(settings.runtime, settings.architecture)
        app = CloudFormation(app, Stacks(resource_kinds, region, ACCOUNT_NUMBER, packages), region, self._object)
        app = BucketPolicyApi(LambdaApi(app, self._lambdas), rules)
        app = self._authorization = IamAuthorization(app, key, rules, ACCOUNT_NUMBER)
        self._server.app = Faults(RequestCounter(app), network) if settings.faults else app

    def serve(self) -> None:
        """Starts to answer requests on background threads."""
        threading.Thread(target=self._server.serve_forever, name="listener", daemon=True).start()

    def close(self) -> None:
        """Stops all schedules and functions."""
        self._schedules.close()
        self._lambdas.close()

    def _admits(self, environ: Environ) -> bool:
        """Return whether a request's body is read: it has a known key, or it manages the account and tests may do
        so."""
        is_management = self._manageable and environ["PATH_INFO"].startswith(MANAGEMENT)
        return is_management or self._authorization.knows(environ)

    def _credentials(self, role: str, function: str) -> tuple[str, str, str]:
        arn = f"arn:aws:lambda:{self.whereabouts.region}:{ACCOUNT_NUMBER}:function:{function}"
        return self._authorization.issue(role, function, function=arn)

    def _object(self, bucket: str, key: str) -> bytes:
        body: bytes = self._client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
        return body

    def _bury(self, letter: DeadLetter) -> None:
        queues = self._client("sqs")
        url = queues.get_queue_url(QueueName=letter.arn.rpartition(":")[2])["QueueUrl"]
        attributes = {
            "RequestID": {"DataType": "String", "StringValue": letter.request_id},
            "ErrorCode": {"DataType": "Number", "StringValue": str(letter.error_code)},
            "ErrorMessage": {"DataType": "String", "StringValue": letter.error_message or "-"},
        }
        queues.send_message(QueueUrl=url, MessageBody=letter.body.decode(), MessageAttributes=attributes)


def _drop_early_request(environ: Environ, start: Start) -> list[bytes]:
    raise ConnectionAbortedError


def _key() -> str:
    return "AKIA" + "".join(secrets.choice(string.ascii_uppercase + string.digits) for _ in range(16))


def _wait_for_end(lifeline: int | None) -> None:
    """Returns at SIGTERM or SIGINT, or when the write end of the pipe `lifeline` closes."""
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    select.select([woken] if lifeline is None else [woken, lifeline], [], [])


def _claim(folder: AccountFolder) -> bool:
    """Takes the folder's lock until this process ends. Returns False if another account holds it."""
    give_up, lock = time.monotonic() + _CLAIM_S, folder.living()
    while not lock.take():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.02)
    return True


def _parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description="Run an emulated account.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--region", default="us-east-1")
    parser.add_argument("--code", type=Path, action="append", required=True, help="folders that functions import from")
    parser.add_argument("--concurrency", type=int, default=1000, help="the account's concurrent executions")
    parser.add_argument("--memory", type=int, default=10_240, help="the most memory of a function in MB")
    parser.add_argument("--processes", type=int, default=8, help="functions that run at once on this machine")
    parser.add_argument("--runtime", default="", help="the runtime that packages are built for, like python3.12")
    parser.add_argument("--architecture", default="", help="the processor that packages are built for, like arm64")
    parser.add_argument("--inherit", action="append", default=[], help="environment variables that functions inherit")
    parser.add_argument("--faults", action="store_true", help="let tests inject faults")
    parser.add_argument("--lifeline", type=int, help="descriptor of a pipe; the account ends with its other end")
    parser.add_argument(
        "--ready",
        type=int,
        help="descriptor of a pipe; closed once the account answers, or gets the reason why not",
    )
    return parser.parse_args()


def _report_failure(why: str, ready: int | None) -> int:
    """Reports the reason to the process that waits for the start. Returns the exit code."""
    if ready is None:
        print(why, file=sys.stderr)
    else:
        os.write(ready, why.encode())
    return 1


def main() -> int:
    """Runs an account until a signal or its lifeline ends it."""
    options = _parse_arguments()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("samtranslator").setLevel(logging.ERROR)
    folder = AccountFolder(options.folder)
    folder.make()
    if not _claim(folder):
        print(f"an emulated account lives in {folder.root} already", file=sys.stderr)
        return 1
    folder.forget()
    settings = AccountSettings(
        region=options.region,
        code=tuple(options.code),
        concurrency=options.concurrency,
        memory_mb=options.memory,
        processes=options.processes,
        runtime=options.runtime,
        architecture=options.architecture,
        inherited_variables=tuple(options.inherit),
        faults=options.faults,
    )
    account = EmulatedAccount(folder, settings)
    account.serve()
    try:
        folder.write_whereabouts(account.whereabouts)
    except OSError as error:
        account.close()
        return _report_failure(str(error.strerror), options.ready)
    if options.ready is not None:
        os.close(options.ready)
    threading.Thread(target=sam_translation.prepare, name="prepare", daemon=True).start()
    _wait_for_end(options.lifeline)
    folder.forget()
    account.close()
    # Skips the interpreter's shutdown: the operating system frees the process's memory faster than Python does.
    logging.shutdown()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
