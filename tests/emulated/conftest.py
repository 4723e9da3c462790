"""Runs in an emulated account: moto, the deployed template, the real Lambda runtime client, permissions enforced."""

import json
import os
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
from commands import Commands
from emulated_runs import summary

from aws_emulator import account
from aws_emulator.middleware.faults import PATH
from aws_emulator.settings import AccountSettings
from marless.cloud.emulated_account import account_folder, cloud_at
from marless.functions import kernel_variables
from marless.infra.aws.detached_ports import Deployed
from marless.infra.aws.function_settings import Settings
from marless.infra.deployment import deploy
from marless.reports import provenance

# Functions inherit the variables that select CPU instructions, like in accounts that a command starts.
SETTINGS = AccountSettings(processes=20, inherited_variables=kernel_variables.VARIABLES, faults=True)


class Place:
    def __init__(self, home, found, deployment):
        self.home, self.account, self.deployment = home, found, deployment
        self._live = []
        self.look_after(deployment)

    def look_after(self, deployment):
        self._live.append(self.deployed(deployment).live)

    def deployed(self, deployment=None):
        found = deployment or self.deployment
        return Deployed(Settings(found.bucket, found.table, found.tenant), self.cloud)

    @property
    def cloud(self):
        return cloud_at(self.account.whereabouts)

    def inject(self, *rules):
        body = json.dumps(rules).encode() if rules else None
        request = urllib.request.Request(
            self.account.whereabouts.endpoint + PATH, body, method="POST" if rules else "DELETE"
        )
        urllib.request.urlopen(request).close()

    def struck(self):
        with urllib.request.urlopen(self.account.whereabouts.endpoint + PATH) as reply:
            return json.load(reply)

    def live(self):
        return {name for listing in self._live for name, _ in listing.items("")}

    def wait(self, names, sweeping=False, limit_s=400.0, deployment=None):
        """Yields the live runs again and again, until none of these names is among them."""
        until = time.monotonic() + limit_s
        while (live := self.live()) & set(names):
            yield live
            began = time.monotonic()
            assert began < until, f"{sorted(live)} did not end"
            if sweeping:
                self.sweep("RequestResponse", deployment)
            # A sweep wakes every run, so a busy machine needs longer between two.
            time.sleep((1.0 if sweeping else 0.2) + min(10.0, time.monotonic() - began))

    def failed_runs(self):
        """Return how often the coordinator emitted the metric of the alarm about failed runs."""
        group = f"/marless/{self.deployment.stack}/coordinator"
        pages = self.cloud.client("logs").get_paginator("filter_log_events").paginate(logGroupName=group)
        return sum('"FailedRuns":[1.0]' in event["message"] for page in pages for event in page["events"])

    def dead_letters(self):
        name, queue = "ApproximateNumberOfMessages", self.deployment.dead_letters
        found = self.cloud.client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=[name])
        return int(found["Attributes"][name])

    def sweep(self, kind="Event", deployment=None):
        coordinator = (deployment or self.deployment).functions["coordinator"]
        self.cloud.client("lambda").invoke(FunctionName=coordinator, InvocationType=kind, Payload=b'{"sweep": true}')


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    home, before = tmp_path_factory.mktemp("home"), Path.cwd()
    os.chdir(home)
    reading, writing = os.pipe()
    account_folder().parent.mkdir()
    settings = replace(SETTINGS, code=(home, Path(__file__).parents[1] / "support" / "environments"))
    found = account.start(account_folder().absolute(), settings, lifeline=reading)
    try:
        deployment = deploy(cloud_at(found.whereabouts), "default", {"Code": provenance.code_sha256()})
        yield Place(home, found, deployment)
    finally:
        found.stop()
        os.close(writing)
        os.chdir(before)


@pytest.fixture
def marless(place, capfd, shell):
    shell.cd(place.home)
    yield Commands(capfd)
    place.inject()


@pytest.fixture
def finished(place, marless):
    """Wait for detached runs to end. With `sweeping`, sweep every few seconds."""

    def wait(*names, sweeping=False, limit_s=400.0):
        list(place.wait(names, sweeping, limit_s))
        here = [name for name in names if (place.home / "runs" / name).exists()]
        return [summary(place.home, name) for name in here if not marless("status", "--follow", name).code]

    return wait


@pytest.fixture(scope="session")
def expected(place):
    known = {}

    def of(marless, *settings):
        if settings not in known:
            name = f"local-{len(known)}"
            assert marless.train(name, *settings).code == 0
            known[settings] = summary(place.home, name)
        return known[settings]

    return of


@pytest.fixture
def as_aws(place, shell):
    """The SDK's own variables, which make the emulated account the user's account."""
    where = place.account.whereabouts
    shell.export(AWS_ENDPOINT_URL=where.endpoint, AWS_DEFAULT_REGION=where.region, NO_PROXY="*")
    shell.export(AWS_ACCESS_KEY_ID=where.key, AWS_SECRET_ACCESS_KEY=where.secret)
