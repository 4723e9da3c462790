"""The manifest of a run in the cloud: written once into its ledger, read by all who drive or watch it."""

import msgspec

from coordinator.config.schema import RunConfig
from coordinator.core.opponents import Fixed
from coordinator.core.state import Plan
from coordinator.drive.ports import Ledger
from coordinator.pricing.prices import load_prices
from functions.contract import Platform, Ref
from functions.encoding import JsonDecoder, to_json

MANIFEST = "plan"


class RunManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A run's configuration, and the versions of the deployed functions that it keeps to the end."""

    run: str
    tenant: str
    config: RunConfig
    # The hash of the program that began the run.
    code: str
    # The plan.json of the run's folder, from which another machine can make the folder.
    identity: msgspec.Raw
    # Qualified names of the actor, the learner, the evaluator and the coordinator.
    functions: dict[str, str]
    platform: Platform
    opponents: Fixed | None = None
    dataset: Ref | None = None
    # The study whose governor began the run and says what it may use; '' without one.
    study: str = ""

    def plan(self) -> Plan:
        """The run's plan."""
        return Plan(
            run=self.run,
            config=self.config,
            code=self.code,
            prices=load_prices(self.config.pricing.region),
            platform=self.platform,
            opponents=self.opponents,
            dataset=self.dataset,
        )


_DECODER = JsonDecoder(RunManifest)
_NAME = "its manifest"


def write(ledger: Ledger, manifest: RunManifest) -> None:
    """Writes the manifest, or replaces it where the user changed the limits of a run that stands still.

    A run that was begun by a study stays in it.
    """
    record = ledger.load(MANIFEST)
    if record is not None:
        manifest = msgspec.structs.replace(manifest, study=_DECODER.decode(record.body, _NAME).study)
    ledger.commit(MANIFEST, to_json(manifest), record.version if record else 0)


def read(ledger: Ledger) -> RunManifest | None:
    """The run's manifest; None when the ledger has no such run. Raises `Undecodable`."""
    record = ledger.load(MANIFEST)
    return _DECODER.decode(record.body, _NAME) if record else None
