"""Accounts that end with the process of the tests, and clients of them."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from botocore.config import Config
from botocore.session import Session, get_session
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

from aws_emulator import account as accounts
from aws_emulator.account import Account
from aws_emulator.iam.authorization import IamAuthorization
from aws_emulator.iam.role_policies import Rules
from aws_emulator.listener import listen
from aws_emulator.settings import AccountSettings

ACCOUNT, REGION = "123456789012", "us-east-1"
OPERATOR = "AKIAOPERATOR"


class Caller:
    """A caller of the account at `endpoint`: key, secret and token. A client answers or fails at the first attempt."""

    def __init__(self, endpoint: str, key: str = OPERATOR, secret: str = "secret", token: str | None = None) -> None:
        self._settings = {
            "region_name": REGION,
            "endpoint_url": endpoint,
            "aws_access_key_id": key,
            "aws_secret_access_key": secret,
            "aws_session_token": token,
            "config": Config(s3={"addressing_style": "path"}, proxies={}, retries={"total_max_attempts": 1}),
        }

    def client(self, service: str) -> Any:
        return _session().create_client(service, **self._settings)


@cache  # it reads each service's model once
def _session() -> Session:
    return get_session()


def operator(account: Account) -> Caller:
    where = account.whereabouts
    return Caller(where.endpoint, where.key, where.secret)


@contextmanager
def living(folder: Path, code: Path, **settings: Any) -> Iterator[Account]:
    """An account in `folder` that cannot outlive this process. Its functions import from `code`."""
    far, lifeline = os.pipe()
    try:
        started = accounts.start(folder, AccountSettings(code=(code,), **settings), lifeline=far)
    finally:
        os.close(far)
    try:
        yield started
    finally:
        started.stop()
        os.close(lifeline)


class Place:
    """An account in this process with these authorization rules, and clients of the operator and of others."""

    def __init__(self, endpoint: str, authorization: IamAuthorization) -> None:
        self.endpoint, self.authorization = endpoint, authorization
        self._operator = Caller(endpoint)
        self._clients: dict[str, Any] = {}

    def operator(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = self._operator.client(service)
        return self._clients[service]

    def client_of(self, credentials: tuple[str, str, str | None], service: str) -> Any:
        return Caller(self.endpoint, *credentials).client(service)


def functions_before(app: Any) -> Any:
    """Replaces the emulated Lambda: answers invocations without a function."""

    def answer(environ: dict[str, Any], start: Any) -> Any:
        if not environ["PATH_INFO"].endswith("/invocations"):
            return app(environ, start)
        start("200 OK", [("Content-Type", "application/json"), ("Content-Length", "2")])
        return [b"{}"]

    return answer


@contextmanager
def account_of_rules(rules: Rules) -> Iterator[Place]:
    authorization = IamAuthorization(
        functions_before(DomainDispatcherApplication(create_backend_app)), OPERATOR, rules, ACCOUNT
    )
    server = listen(authorization)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Place(f"http://127.0.0.1:{server.server_port}", authorization)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
