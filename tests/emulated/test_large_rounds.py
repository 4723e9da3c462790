"""Rounds with far more rollouts than concurrent functions: each rollout runs once, however often it was throttled."""

import json
import subprocess
import sys

import pytest
from commands import SMALL, Commands
from emulated_runs import summary

from aws_emulator import account
from marless.cloud.emulated_account import CONCURRENCY, account_folder
from marless.infra.deployment import deploy
from marless.reports import provenance

ROOM = 3
# More than two sets of 64 reports, so that sets report to a set.
ROLLOUTS = 150
CROWDED = ("--backend", "emulated", "--tenant", "crowded")
SETTINGS = ("actors.num_envs=1", "stop.rounds=1", f"actors.rollouts={ROLLOUTS}")


@pytest.fixture(scope="module")
def crowded(place):
    made = deploy(place.cloud, "crowded", {"Code": provenance.code_sha256(), "WorkerConcurrency": str(ROOM)})
    place.look_after(made)
    return made


def one_round(place, name):
    (line,) = (place.home / "runs" / name / "metrics.jsonl").read_text().splitlines()
    return json.loads(line)


def all_once(place, name, local, rollouts=ROLLOUTS):
    """Every rollout was sampled exactly once, and the weights equal a local run's."""
    assert summary(place.home, name)["weights_sha256"] == summary(place.home, local)["weights_sha256"]
    line = one_round(place, name)
    assert (line["rollouts"], line["invocations"]) == (rollouts, rollouts + line["learners"])
    assert line["env_steps"] == one_round(place, local)["env_steps"]


def environments(place, deployment):
    group = f"/marless/{deployment.stack}/actor"
    pages = place.cloud.client("logs").get_paginator("filter_log_events").paginate(logGroupName=group)
    return len({event["logStreamName"] for page in pages for event in page["events"]})


@pytest.mark.conformance
def test_events_without_room_are_done_later_once(place, crowded, marless, finished):
    assert marless.train("roomy", *SETTINGS).code == 0
    assert marless.train("far", *SETTINGS, *CROWDED, "--detach").code == 0
    finished("far")
    all_once(place, "far", "roomy")
    assert environments(place, crowded) == ROOM


@pytest.mark.conformance
def test_two_drivers_without_room_wait_and_lose_nothing(place, crowded, marless):
    command = [sys.executable, "-m", "marless.cli.app", "train", *SMALL, *SETTINGS, *CROWDED, "--run"]
    assert marless.train("here", *SETTINGS).code == 0
    # Each run assumes the whole concurrency for itself, so Lambda throttles many calls.
    both = [subprocess.Popen([*command, name], stderr=subprocess.PIPE, text=True) for name in ("left", "right")]
    for process, name in zip(both, ("left", "right"), strict=True):
        _, err = process.communicate(timeout=600)
        assert process.returncode == 0, err
        all_once(place, name, "here")


@pytest.mark.conformance
def test_thousand_rollouts_lose_and_double_none(place, marless, finished):
    settings = ("actors.num_envs=1", "stop.rounds=1", "actors.rollouts=1000")
    assert marless.train("thousand", *settings).code == 0
    # The first tasks run alone, and a task that is throttled for minutes has failed.
    turned_away = {"service": "lambda", "action": "POST", "fault": "too_many", "count": 200, "skip": 4}
    # The coordinator is throttled when it starts actors, the command when it invokes.
    far, near = {**turned_away, "key": "far-thousand", "functions": True}, {**turned_away, "key": "near-thousand"}
    place.inject(far, near)
    assert marless.train("far-thousand", *settings, "--backend", "emulated", "--detach").code == 0
    assert marless.train("near-thousand", *settings, "--backend", "emulated").code == 0
    finished("far-thousand")
    for name in ("far-thousand", "near-thousand"):
        all_once(place, name, "thousand", 1000)
    assert len(place.struck()) == 400


@pytest.fixture
def new_account(tmp_path, capfd, shell):
    """The command line in a folder with an account of ten concurrent executions, like new accounts."""
    shell.cd(tmp_path)
    shell.export(**{CONCURRENCY: "10"})
    yield Commands(capfd)
    if running := account.find(account_folder()):
        running.stop()


@pytest.mark.conformance
def test_ten_executions_suffice_for_two_large_runs(tmp_path, new_account):
    settings = ("actors.num_envs=1", "stop.rounds=1", "actors.rollouts=200")
    assert new_account.train("local", *settings).code == 0
    # The detached run alone has more work than the account runs at once, so calls of the driven one are throttled.
    assert new_account.train("far", *settings, "--backend", "emulated", "--detach").code == 0
    assert new_account.train("near", *settings, "--backend", "emulated").code == 0
    assert new_account("status", "--follow", "far").code == 0
    weights = {name: summary(tmp_path, name)["weights_sha256"] for name in ("local", "far", "near")}
    assert set(weights.values()) == {weights["local"]}
    for name in ("far", "near"):
        (line,) = (tmp_path / "runs" / name / "metrics.jsonl").read_text().splitlines()
        assert json.loads(line)["rollouts"] == 200
