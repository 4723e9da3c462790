"""A host that serves calls in this process, one after the other: for debuggers, which stop in functions that answer.

Functions have no time-out here. Programs and services have theirs.
"""

import time
from collections.abc import Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from marless.functions.encoding import MessagePackDecoder, to_message_pack
from marless.functions.resources.attempts import Attempts, CallBatch, tries
from marless.functions.resources.port import CallAttempt, CallOutcome, ResourceCall, ResourceFault
from marless.functions.resources.serving.answering import handle
from marless.functions.resources.settings import Resource
from marless.functions.storage_port import ClaimedBlobs

_DECODER = MessagePackDecoder[CallOutcome](CallOutcome)


class InProcess:
    """Serves `resources`. Kept answers are objects of `blobs`."""

    def __init__(self, resources: Mapping[str, Resource], blobs: ClaimedBlobs) -> None:
        self._resources, self._blobs = resources, blobs
        self._attempts = Attempts()

    def ask(self, name: str, calls: Sequence[ResourceCall]) -> list[CallOutcome]:
        """See `port.Host`."""
        if name not in self._resources:
            raise ResourceFault(f"resource {name!r}: it has no settings here")
        outcomes, batch, since = [], CallBatch(), time.perf_counter()
        resource = self._resources[name]
        for call in calls:
            queued_ms = (time.perf_counter() - since) * 1000
            outcome = batch.outcome(partial(self._outcome, name, resource, call))
            outcomes.append(replace(outcome, queued_ms=queued_ms))
        return outcomes

    def _outcome(self, name: str, resource: Resource, call: ResourceCall) -> CallOutcome:
        def attempt(failed: Sequence[CallOutcome]) -> CallOutcome:
            failed_ms = sum(each.run_ms for each in failed)
            sent = CallAttempt(name, resource, call, resource.cores[0], tries(failed), failed_ms)
            return _DECODER.decode(handle(to_message_pack(sent), self._blobs))

        return self._attempts.outcome(name, resource.attempts, resource.patience_s, attempt)
