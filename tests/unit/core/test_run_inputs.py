"""Inputs of runs that earlier versions began: their plan.json and their manifests are read, and hash as they did."""

import hashlib
import json

import msgspec
import pytest

from marless.coordinator.config.loading import load
from marless.coordinator.core.opponents import FixedOpponents
from marless.coordinator.core.state import RunInputs
from marless.coordinator.drive import run_manifest
from marless.coordinator.platform import Platform
from marless.functions.encoding import Undecodable
from marless.functions.messages.message import Ref
from marless.infra.local.sqlite_ledger import SqliteLedger
from marless.runs.folder import decode_identity
from marless.runs.integrity.file_hashes import plan_hash

POLICIES = {"key": "rounds/opponents/policies", "sha256": "0" * 64, "size": 5}
DATASET = {"key": "dataset/0", "sha256": "1" * 64, "size": 7}
# The non-empty fields of plan.json in their order.
ORIGIN = {
    "run": "r",
    "backend": "local",
    "code_sha256": "2" * 64,
    "environment_fingerprint": {"python": "3.11.2", "numpy": "2.2.0", "machine": "x86_64"},
    "created": "2026-11-25T10:00:00+00:00",
}


@pytest.mark.parametrize(
    ("given", "inputs"),
    [
        ({"opponents": None, "dataset": None}, RunInputs()),
        (
            {"opponents": {"policies": POLICIES, "greedy": True}, "dataset": None},
            RunInputs(opponents=FixedOpponents(policies=Ref(**POLICIES), greedy=True)),
        ),
        ({"opponents": None, "dataset": DATASET}, RunInputs(dataset=Ref(**DATASET))),
    ],
)
def test_earlier_plan_is_read_with_its_old_hash(given, inputs):
    fingerprint = {**ORIGIN["environment_fingerprint"], "environment": None}
    document = {**ORIGIN, "environment_fingerprint": fingerprint, "commit": None, "configs": ["3" * 64], **given}
    identity = decode_identity(json.dumps(document).encode())
    assert identity.inputs == inputs
    assert decode_identity(msgspec.json.encode(identity)) == identity
    filled = {name: value for name, value in given.items() if value is not None}
    old = json.dumps({**ORIGIN, **filled}, separators=(",", ":")).encode()
    assert plan_hash(identity) == hashlib.sha256(old).hexdigest()


def manifest_with(**fields):
    defaults = {
        "run": "r",
        "tenant": "t",
        "config": load(None, []),
        "code": "",
        "identity": msgspec.Raw(b"{}"),
        "functions": {},
        "platform": Platform(),
    }
    return run_manifest.RunManifest(**{**defaults, **fields})


def test_a_manifest_of_an_earlier_version_is_read(tmp_path):
    config = load(None, ["actors.rollouts=7", "placement.pack=5", "placement.chain=4"])
    manifest = manifest_with(inputs=RunInputs(dataset=Ref(**DATASET)), config=config)
    document = json.loads(msgspec.json.encode(manifest))
    del document["inputs"]
    tables = document["config"]
    tables["scaling"]["rollouts"] = tables["actors"].pop("rollouts")
    tables["placement"]["rounds"] = tables["placement"].pop("chain")
    tables["placement"]["rollouts_per_invocation"] = tables["placement"].pop("pack")
    ledger = SqliteLedger(tmp_path / "ledger")
    ledger.commit(run_manifest.MANIFEST, json.dumps({**document, "opponents": None, "dataset": DATASET}).encode(), 0)
    assert run_manifest.read(ledger) == manifest


@pytest.mark.parametrize("latency", ["aws", "emulated", ""])
def test_manifest_with_all_fixed_abilities_is_read(tmp_path, latency):
    """Programs before the abilities of a platform had names wrote one of that name for them all."""
    manifest = manifest_with(platform=Platform(concurrency=7, init_limit_ms=10_000, cpu_scaling=latency != "aws"))
    document = json.loads(msgspec.json.encode(manifest))
    document["platform"] |= {"fixed_sizes": True} if latency else {}
    ledger = SqliteLedger(tmp_path / "ledger")
    ledger.commit(run_manifest.MANIFEST, json.dumps(document).encode(), 0)
    # They told the emulated account which clock measures durations.
    expected = manifest.platform.on_lambda(latency) if latency else manifest.platform
    stored = run_manifest.read(ledger)
    assert stored == msgspec.structs.replace(manifest, platform=expected)
    run_manifest.write(ledger, stored)
    assert run_manifest.read(ledger) == stored


def test_damaged_plan_is_refused_on_reading():
    with pytest.raises(Undecodable, match=r"plan\.json cannot be read: "):
        decode_identity(b'{"run": ', "plan.json")
