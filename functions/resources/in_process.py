"""A host that serves actions in this process, one after the other: for debuggers, which stop in functions that answer.

Functions have no time-out here; programs and services have theirs.
"""

import time
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from functions.encoding import MessagePackDecoder, to_message_pack
from functions.resources.answering import handle
from functions.resources.attempts import after
from functions.resources.port import Action, ActionCall, Outcome, ResourceFault
from functions.resources.settings import Resource
from functions.storage_port import ClaimedBlobs

_DECODER = MessagePackDecoder[Outcome](Outcome)


class InProcess:
    """Serves `resources`; answers that are kept are objects of `blobs`."""

    def __init__(self, resources: Mapping[str, Resource], blobs: ClaimedBlobs) -> None:
        self._resources, self._blobs = resources, blobs

    def ask(self, name: str, actions: Sequence[Action]) -> list[Outcome]:
        """See `port.Host`."""
        if name not in self._resources:
            raise ResourceFault(f"resource {name!r}: it has no settings here")
        outcomes, since = [], time.perf_counter()
        for action in actions:
            queued_ms = (time.perf_counter() - since) * 1000
            outcomes.append(replace(self._outcome(name, self._resources[name], action), queued_ms=queued_ms))
        return outcomes

    def _outcome(self, name: str, resource: Resource, action: Action) -> Outcome:
        attempts: list[Outcome] = []
        while not attempts or (attempts[-1].error and len(attempts) < resource.attempts):
            failed_ms = sum(attempt.run_ms for attempt in attempts)
            call = ActionCall(name, resource, action, resource.cores[0], len(attempts), failed_ms)
            attempts.append(_DECODER.decode(handle(to_message_pack(call), self._blobs)))
        return after(attempts)
