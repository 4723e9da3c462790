"""Fixtures for tests of the AWS adapters."""

import dataclasses

import pytest

from marless.infra.aws import clients


@pytest.fixture
def give_up_after(service, monkeypatch):
    def limit(attempts):
        monkeypatch.setattr(clients, "ATTEMPTS", attempts)
        monkeypatch.setattr(service, "cloud", dataclasses.replace(service.cloud))

    return limit
