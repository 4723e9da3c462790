"""Runs in the emulated account that learn from a dataset, which the bucket's own deletions spare."""

import pytest
from emulated_runs import same, summary

from marless.functions.function_specs import NAMES

BC = ("algorithm.name=bc", "offline.dataset=recorded")


# The invoker soon gives up a killed function.
QUICK = tuple(f"functions.{function}.timeout_s=2" for function in NAMES)


@pytest.fixture(scope="module")
def recorded(place):
    """Episodes of a local run in the folder of the account, which is made by `marless`."""

    def make(marless):
        if not (place.home / "recorded").exists():
            assert marless.train("recording").code == 0
            assert marless("export", "recording", "--to", "npz", "--episodes", "50", "--out", "recorded").code == 0

    return make


def expire(place):
    """Delete the objects that the bucket's lifecycle rules select, as if all were old. Returns their keys."""
    s3, bucket = place.cloud.client("s3"), place.deployment.bucket
    rules = s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    chosen = [rule["Filter"]["Tag"] for rule in rules if "Expiration" in rule]
    assert chosen
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    found = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
    old = [
        key for key in found if any(tag in chosen for tag in s3.get_object_tagging(Bucket=bucket, Key=key)["TagSet"])
    ]
    for key in old:
        s3.delete_object(Bucket=bucket, Key=key)
    return old


@pytest.mark.slow
@pytest.mark.parametrize("placement", ["split", "whole"])
def test_a_run_outlives_its_expired_trajectories(place, marless, expected, recorded, placement):
    recorded(marless)
    name = f"offline-{placement}"
    settings = (*BC, *QUICK, f"placement.rule={placement}", "placement.chain=1")
    assert marless.train(name, *settings, "--backend", "emulated", "stop.rounds=2").code == 0
    # A trajectory of another run, so that there is something to expire.
    place.cloud.client("s3").put_object(
        Bucket=place.deployment.bucket,
        Key=f"tenants/default/runs/{name}-left/rounds/000000/sample/0.trajectory.safetensors",
        Body=b"x",
        Tagging="marless-kind=trajectory",
        IfNoneMatch="*",
    )
    assert any("-left/" in key for key in expire(place))
    # Warm functions would still hold the dataset.
    place.inject(
        {"service": "s3", "action": "PUT", "functions": True, "key": f"{name}/rounds/000002/", "fault": "kill"}
    )
    said = marless("resume", name, "stop.rounds=4")
    assert said.code == 0, said.err
    same(summary(place.home, name), expected(marless, *BC, "stop.rounds=4"))
    assert [fault["fault"] for fault in place.struck()] == ["kill"]
