"""What a run in the cloud was asked to be: written once into its ledger, read by whoever drives or watches it."""

import msgspec

from coordinator.config.schema import RunConfig
from coordinator.core.opponents import Fixed
from coordinator.core.state import Plan
from coordinator.drive.ports import Ledger
from coordinator.pricing.prices import load_prices
from functions.contract import Platform

MANIFEST = "plan"


class RunManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A run's configuration, and the deployed functions, by qualified name, that it keeps to the end.

    `functions` has the actor, the learner, the evaluator and the coordinator; `identity` is what the run's folder says
    of itself (plan.json), for a folder made elsewhere.
    """

    run: str
    tenant: str
    config: RunConfig
    code: str
    identity: msgspec.Raw
    functions: dict[str, str]
    platform: Platform
    opponents: Fixed | None = None

    def plan(self) -> Plan:
        """The run's plan."""
        return Plan(
            run=self.run,
            config=self.config,
            code=self.code,
            prices=load_prices(self.config.pricing.region),
            platform=self.platform,
            opponents=self.opponents,
        )


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(RunManifest)


def write(ledger: Ledger, manifest: RunManifest) -> None:
    """Writes the charter, or replaces it where the user changed the limits of a run that stands still."""
    record = ledger.load(MANIFEST)
    ledger.commit(MANIFEST, _ENCODER.encode(manifest), record.version if record else 0)


def read(ledger: Ledger) -> RunManifest | None:
    """The run's charter; None when the ledger knows no such run. Raises `msgspec.MsgspecError`."""
    record = ledger.load(MANIFEST)
    return _DECODER.decode(record.body) if record else None
