"""An emulated account for principals that deploy and train."""

import os

import pytest

from aws_emulator import account as accounts
from aws_emulator.settings import AccountSettings
from marless.cloud.emulated_account import cloud_at
from marless.infra.packaging.package_build import ROOT


@pytest.fixture(scope="session")
def operator(tmp_path_factory):
    far, lifeline = os.pipe()
    started = accounts.start(tmp_path_factory.mktemp("callers"), AccountSettings(code=(ROOT,)), lifeline=far)
    os.close(far)
    yield cloud_at(started.whereabouts)
    started.stop()
    os.close(lifeline)
