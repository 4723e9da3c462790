"""The ports of detached runs, opened from the coordinator function's environment variables."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from marless.infra.aws.awslambda import EventInvoker
from marless.infra.aws.clients import Cloud
from marless.infra.aws.completion_sets import DynamoCompletions, wake
from marless.infra.aws.dynamodb import DynamoLedger
from marless.infra.aws.error_messages import storage_errors
from marless.infra.aws.function_settings import Settings
from marless.infra.aws.s3 import S3Heads, S3Storage

# Events sent at once. An invocation is accepted in some ten milliseconds.
_SENDING = 16


@dataclass(frozen=True)
class RunPorts:
    """The ports of one run."""

    storage: S3Storage
    ledger: DynamoLedger
    completions: DynamoCompletions
    heads: S3Heads


class Deployed:
    """A tenant's deployment. It keeps the ports of a run open for the next event."""

    def __init__(self, settings: Settings, cloud: Cloud) -> None:
        self.settings, self._cloud, self.retries = settings, cloud, cloud.retries
        spill = S3Storage(cloud, settings.bucket, settings.listing)
        self.live = DynamoLedger(cloud, settings.table, settings.live, spill)
        self.budget = DynamoLedger(cloud, settings.table, settings.budget, spill)
        self._lambda = cloud.client("lambda")
        self._open: dict[str, RunPorts] = {}
        self._senders: dict[frozenset[tuple[str, str]], EventInvoker] = {}

    def wake(self, coordinator: str, run: str) -> None:
        """Wake the qualified function `coordinator` for the run. Raises `StorageFault`."""
        with storage_errors("wake", coordinator):
            wake(self._lambda, coordinator, self.settings.tenant, run)

    def outside(self, run: str) -> RunPorts:
        """The ports of a run."""
        if run not in self._open:
            cloud, settings = self._cloud, self.settings
            storage = S3Storage(cloud, settings.bucket, settings.objects(run))
            self._open[run] = RunPorts(
                storage=storage,
                ledger=DynamoLedger(cloud, settings.table, settings.ledger(run), storage),
                completions=DynamoCompletions(cloud, settings.table, settings.completions(run)),
                heads=S3Heads(cloud, settings.bucket, settings.objects(run)),
            )
        return self._open[run]

    def sender(self, functions: Mapping[str, str]) -> EventInvoker:
        """The invoker that starts these qualified functions without waiting for them."""
        if (key := frozenset(functions.items())) not in self._senders:
            self._senders[key] = EventInvoker(self._cloud, functions, _SENDING)
        return self._senders[key]


def own_deployment(environment: Mapping[str, str] = os.environ) -> Deployed:
    """The deployment of the function that has these environment variables."""
    return Deployed(Settings.from_environment(environment), Cloud.here())
