"""Runs of a deployment are listed, archived, restored and removed to the last object, in spite of kills."""

import os

import pytest
from emulated_runs import detach, same, summary

from marless.backends import registry
from marless.infra.aws.dynamodb import DynamoLedger
from marless.infra.aws.s3 import S3Storage
from marless_cloud.cloud_runs import CloudRuns

HERE = ("--backend", "emulated")
CHANGES = ((S3Storage, "put"), (S3Storage, "delete"), (DynamoLedger, "commit"), (DynamoLedger, "remove"))


@pytest.fixture
def runs(place, marless):
    return CloudRuns(registry.remote("emulated"), "default", None)


def held(place, run):
    """The objects and items of a run. Its completion sets expire by themselves."""
    bucket, table = place.deployment.bucket, place.deployment.table
    pages = place.cloud.client("s3").get_paginator("list_objects_v2").paginate(Bucket=bucket)
    keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
    pages = place.cloud.client("dynamodb").get_paginator("scan").paginate(TableName=table)
    items = [f"{item['scope']['S']}/{item['item']['S']}" for page in pages for item in page["Items"]]
    return [name for name in (*keys, *items) if run in name.split("/") and not name.startswith("sets/")]


def killed(change, number):
    """Make the change in a separate process that ends at change `number`. True if that came."""
    if (child := os.fork()) == 0:
        count = 0

        def dying(call):
            def counted(*arguments):
                nonlocal count
                if (count := count + 1) == number:
                    os._exit(9)
                return call(*arguments)

            return counted

        for owner, name in CHANGES:
            setattr(owner, name, dying(getattr(owner, name)))
        change(CloudRuns(registry.remote("emulated"), "default", None))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def test_restored_run_continues_as_if_never_removed(place, marless, finished, expected, tmp_path):
    detach(marless, "held", "stop.rounds=2")
    finished("held")
    before, path, folder = {*held(place, "held")}, tmp_path / "held.tar.gz", str(tmp_path / "folder.tar.gz")
    assert [line.split()[1] for line in marless("cloud", "runs", *HERE).out if line[:5] == "held "] == ["finished"]
    assert marless("cloud", "archive", "held", *HERE, "--out", str(path)).out == [str(path)]
    assert marless("cloud", "remove", "held", *HERE, "--yes").out[0].startswith("removed held, ")
    assert held(place, "held") == []
    assert "has no run held" in marless("cloud", "remove", "held", *HERE, "--yes").err[-1]
    assert marless("runs", "archive", "held", "--out", folder).code == 0
    assert "`runs restore` reads it" in marless("cloud", "restore", folder, *HERE).err[-1]
    assert marless("cloud", "restore", str(path), *HERE).code == 0
    assert before - {*held(place, "held")} == {"run/default/held/lease"}
    assert marless("resume", "held", "stop.rounds=4").code == 0
    same(summary(place.home, "held"), expected(marless))


def test_killed_command_is_finished_by_repeating_it(place, marless, runs, tmp_path):
    path = tmp_path / "killed.tar.gz"
    assert marless.train("killed", *HERE, "stop.rounds=1").code == 0
    before, kills = {*held(place, "killed")} - {"run/default/killed/lease"}, 0
    runs.archive("killed", path)
    while killed(lambda again: again.remove("killed"), kills := kills + 1):
        CloudRuns(registry.remote("emulated"), "default", None).remove("killed")
        assert held(place, "killed") == []
        killed(lambda again: again.restore(path), kills)
        if not before <= {*held(place, "killed")}:
            runs.restore(path)
        assert {*held(place, "killed")} == before
    assert kills > 5


@pytest.mark.parametrize("change", ["archive", "remove"])
def test_a_driven_run_is_refused(place, marless, runs, finished, change):
    place.inject({"service": "lambda", "action": "POST", "key": f"driven-{change}", "fault": "swallow"})
    detach(marless, f"driven-{change}")
    said = marless("cloud", change, f"driven-{change}", *HERE, *(["--yes"] if change == "remove" else []))
    assert said.code == 2 and "this run is driven in the cloud" in said.err[-1]
    finished(f"driven-{change}", sweeping=True)
