"""The emulated account that tests share; it ends with the test process."""

import dataclasses
import os
from contextlib import contextmanager
from pathlib import Path

import pytest

from aws_emulator import account as accounts
from aws_emulator.settings import AccountSettings
from infra.aws import clients

HERE = Path(__file__).parent


@contextmanager
def living(folder, **settings):
    """An account in `folder` that cannot outlive this process."""
    far, lifeline = os.pipe()
    try:
        started = accounts.start(folder, AccountSettings(code=(HERE,), **settings), lifeline=far)
    finally:
        os.close(far)
    try:
        yield started
    finally:
        started.stop()
        os.close(lifeline)


@pytest.fixture(scope="session")
def account(tmp_path_factory):
    with living(tmp_path_factory.mktemp("account"), faults=True) as started:
        yield started


@pytest.fixture(scope="session")
def account_in():
    """Starts an account in a folder, for a module."""
    return living


@pytest.fixture
def start(tmp_path):
    """Starts an account for one test."""
    return lambda **settings: living(tmp_path / "account", **settings)


@pytest.fixture
def give_up_after(service, monkeypatch):
    """Limits new clients to `attempts` calls of a service."""

    def limit(attempts):
        monkeypatch.setattr(clients, "ATTEMPTS", attempts)
        monkeypatch.setattr(service, "cloud", dataclasses.replace(service.cloud))

    return limit
