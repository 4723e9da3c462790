"""Secrets that are planted in the environment never appear in output, files of a run or logs of a function."""

import re
from pathlib import Path

import pytest
from commands import SMALL

from marless.cloud.emulated_account import cloud_at

PLANTED = "planted-0123456789abcdef"
# Raises with all that is secret in the environment of its process, as values and as Python writes them.
TELLING = """
import os
from faulty_environments import Sound

NAMES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "PLANTED_API_KEY")

class Tells(Sound):
    def reward(self, action):
        raise RuntimeError("told " + " ".join(f"{name}={os.environ.get(name)!r}" for name in NAMES))

def tells():
    return Tells()
"""
# The access keys of users and of sessions, and the text after a secret's name (IAM user guide, "IAM identifiers").
SECRETS = (
    r"(AKIA|ASIA)[A-Z0-9]{16}",
    r"(AWS_SECRET_ACCESS_KEY|AWS_SESSION_TOKEN|PLANTED_API_KEY)=(?!None|'?<|'?\.\.\.)",
    PLANTED,
)


@pytest.fixture
def planted(place, as_aws, shell):
    (place.home / "telling.py").write_text(TELLING)
    shell.import_from(place.home)
    shell.export(PLANTED_API_KEY=PLANTED)
    return place.account.whereabouts.secret


def assert_hidden(text, secret, where):
    assert secret not in text, where
    for pattern in SECRETS:
        assert re.search(pattern, text) is None, (where, re.search(pattern, text))


@pytest.mark.parametrize("backend", ["local", "aws"])
def test_what_a_failing_environment_tells_is_redacted(place, marless, planted, finished, backend):
    name = f"telling-{backend}"
    said = marless.train(name, "task.name=pettingzoo:telling:tells", "attempts=1", "--backend", backend)
    assert said.code == 1 and "told AWS_ACCESS_KEY_ID=" in "\n".join(said.err)
    commands = [("status", name), ("status", name, "--json"), ("resume", name), ("runs", "verify", name)]
    if backend == "aws":
        commands += [("cloud", "logs", name), ("cloud", "logs", "--function", "actor", "--json", "--backend", "aws")]
        assert any("told" in line for line in marless("cloud", "logs", name).out)
    for command in commands:
        said = marless(*command)
        assert_hidden("\n".join([*said.out, *said.err]), planted, command)
    for path in (path for path in Path("runs", name).rglob("*") if path.is_file()):
        assert_hidden(path.read_bytes().decode("utf-8", "replace"), planted, path)


def test_a_detached_run_that_fails_tells_nothing(place, marless, planted, finished):
    command = ("train", *SMALL, "task.name=pettingzoo:telling:tells", "attempts=1", "--backend", "aws", "--detach")
    assert marless(*command, "--run", "telling-detached").code == 0
    said = marless("status", "--follow", "telling-detached")
    assert said.code == 1 and "told AWS_ACCESS_KEY_ID=" in "\n".join(said.err)
    shown = marless("status", "telling-detached")
    assert_hidden("\n".join([*said.out, *said.err, *shown.out, *shown.err]), planted, "watch and status")
    logs = place.cloud.client("logs").get_paginator("filter_log_events")
    for role in ("actor", "coordinator"):
        pages = logs.paginate(logGroupName=f"/marless/{place.deployment.stack}/{role}")
        assert_hidden("\n".join(event["message"] for page in pages for event in page["events"]), planted, role)


@pytest.mark.parametrize("host", ["127.0.0.1:1", "[bad"])
def test_an_address_with_a_password_is_shown_without(marless, planted, shell, host):
    shell.export(AWS_ENDPOINT_URL=f"http://user:{PLANTED}@{host}")
    said = marless("cloud", "deploy", "--backend", "aws", "--yes")
    assert said.code == 2
    assert_hidden("\n".join([*said.out, *said.err]), planted, "deploy")


def test_proxy_and_missing_profile_block_no_one(place, shell):
    shell.export(AWS_PROFILE="of-nobody", http_proxy="http://127.0.0.1:9", HTTP_PROXY="http://127.0.0.1:9")
    cloud = cloud_at(place.account.whereabouts)
    assert cloud.client("sts").get_caller_identity()["Account"] == "123456789012"
