"""Runs in an emulated account: moto, the deployed template, the real Lambda runtime client, permissions enforced."""

import json
import os
import sys
import time
import urllib.request
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rounds"))

from commands import Commands

from coordinator import provenance
from coordinator.cli.deployments import account_folder
from infra.deployment import deploy
from infra.emulation import account
from infra.emulation.faults import PATH


class Place:
    """A folder of runs with its account."""

    def __init__(self, home, found, deployment):
        self.home, self.account, self.deployment = home, found, deployment

    @property
    def cloud(self):
        return self.account.cloud

    def trouble(self, *rules):
        """Adds faults; without any, takes all away."""
        body = json.dumps(rules).encode() if rules else None
        request = urllib.request.Request(
            self.account.whereabouts.endpoint + PATH, body, method="POST" if rules else "DELETE"
        )
        urllib.request.urlopen(request).close()

    def struck(self):
        """What the faults did."""
        with urllib.request.urlopen(self.account.whereabouts.endpoint + PATH) as reply:
            return json.load(reply)

    def sweep(self):
        """What the schedule does every minute."""
        self.cloud.client("lambda").invoke(
            FunctionName=self.deployment.functions["coordinator"], InvocationType="Event", Payload=b'{"sweep": true}'
        )


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """The account and the deployment, made once."""
    home, before = tmp_path_factory.mktemp("home"), Path.cwd()
    os.chdir(home)
    reading, writing = os.pipe()
    account_folder().parent.mkdir()
    found = account.start(account_folder().absolute(), processes=8, faults=True, lifeline=reading)
    try:
        deployment = deploy(found.cloud, "default", {"Code": provenance.code_sha256()})
        yield Place(home, found, deployment)
    finally:
        found.stop()
        os.close(writing)
        os.chdir(before)


@pytest.fixture
def marless(place, capfd, monkeypatch):
    """The command line, in the folder of the account."""
    monkeypatch.chdir(place.home)
    yield Commands(capfd)
    place.trouble()


@pytest.fixture
def finished(place, marless):
    """Waits for detached runs to end; `sweeping` lets the schedule come every second instead of every minute."""

    def wait(*names, sweeping=False, limit_s=120.0):
        until, waiting = time.monotonic() + limit_s, list(names)
        while waiting:
            if sweeping:
                place.sweep()
            time.sleep(1.0)
            waiting = [name for name in waiting if _goes_on(marless("status", name, "--json"))]
            assert time.monotonic() < until, f"{waiting} did not end"
        return [summary(place.home, name) for name in names if marless("watch", name).code == 0]

    return wait


def _goes_on(said):
    if said.code:
        assert "has not begun" in said.err[0], said.err
        return True
    return json.loads(said.out[0])["status"] == "running"


def summary(home, name):
    return json.loads((home / "runs" / name / "summary.json").read_text())
