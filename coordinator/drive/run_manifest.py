"""The manifest of a run in the cloud: written once into its ledger, read by all who drive or watch it."""

from typing import Any

import msgspec

from marless.coordinator.config.schema import RunConfig
from marless.coordinator.core.state import NO_INPUTS, Plan, RunInputs
from marless.coordinator.drive.ports import Ledger
from marless.coordinator.platform import Platform
from marless.coordinator.pricing.prices import load_prices
from marless.functions.encoding import JsonDecoder, Undecodable, from_json, own_format, to_json

MANIFEST = "plan"
STUDY = "study:"
"""What a study's name begins with among the runs of its tenant, whose names have no colon."""
# Older programs wrote each input as a separate field of plan.json and of a manifest.
_ONCE_SEPARATE = ("opponents", "dataset")


class RunManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A run's configuration, and the versions of the deployed functions that it keeps to the end."""

    run: str
    tenant: str
    config: RunConfig
    # The hash of the program that began the run.
    code: str
    # The plan.json of the run's folder. Another machine can make the folder from it.
    identity: msgspec.Raw
    # Qualified names of the actor, the learner, the evaluator and the coordinator.
    functions: dict[str, str]
    platform: Platform
    inputs: RunInputs = NO_INPUTS
    format_version: int | msgspec.UnsetType = msgspec.field(default_factory=own_format)
    # The study that began the run and limits it, or ''.
    study: str = ""

    def plan(self) -> Plan:
        """The run's plan."""
        return Plan(
            run=self.run,
            config=self.config,
            code=self.code,
            prices=load_prices(self.config.pricing.region),
            platform=self.platform,
            inputs=self.inputs,
        )


_DECODER = JsonDecoder(RunManifest)


def write(ledger: Ledger, manifest: RunManifest) -> None:
    """Writes the manifest, or replaces it where the user changed the limits of a run that stands still.

    A run that was begun by a study stays in it.
    """
    if (record := ledger.load(MANIFEST)) is not None:
        manifest = msgspec.structs.replace(manifest, study=_decode(record.body).study)
    ledger.commit(MANIFEST, to_json(manifest), record.version if record else 0)


def read(ledger: Ledger) -> RunManifest | None:
    """Return the run's manifest, or None if the ledger lacks the run. Raises `Undecodable`."""
    record = ledger.load(MANIFEST)
    return _decode(record.body) if record else None


def _decode(body: bytes) -> RunManifest:
    body = _with_abilities(with_inputs_together(body))
    try:
        return _DECODER.decode(body, "its manifest")
    except Undecodable:
        from marless.coordinator.config.renamed_keys import renamed

        fields = from_json(body, dict[str, msgspec.Raw], "its manifest")
        config = renamed(from_json(bytes(fields.get("config", b"{}")), dict[str, Any], "its configuration"))
        return _DECODER.decode(to_json({**fields, "config": config}), "its manifest")


def _with_abilities(body: bytes) -> bytes:
    """Return the manifest with the platform's abilities. Older programs wrote `fixed_sizes` in their place."""
    try:
        fields = from_json(body, dict[str, msgspec.Raw])
        platform = from_json(bytes(fields["platform"]), dict[str, msgspec.Raw])
        if platform.pop("fixed_sizes", None) is None:
            return body
        abilities = from_json(to_json(platform), Platform)
        abilities = abilities.on_lambda("emulated" if abilities.cpu_scaling else "aws")
    except (KeyError, Undecodable):
        return body  # decoding it fails with a description
    return to_json({**fields, "platform": abilities})


def with_inputs_together(body: bytes) -> bytes:
    """The JSON of a plan.json or a manifest with the run's inputs in the field `inputs`, whichever version wrote it."""
    try:
        fields = from_json(body, dict[str, msgspec.Raw])
    except Undecodable:
        return body  # decoding it fails with a description
    separate = {name: fields.pop(name) for name in _ONCE_SEPARATE if name in fields}
    return to_json({**fields, "inputs": separate}) if separate else body
