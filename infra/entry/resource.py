"""An external resource as a Lambda function: one call an invocation."""

import os
from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools import Logger
from msgspec.structs import replace

from marless.functions.encoding import MessagePackDecoder, from_json, to_json, to_message_pack
from marless.functions.resources.port import CallAttempt, CallOutcome
from marless.functions.resources.serving.answering import handle
from marless.infra.aws.claimed_storage import ClaimedStorage
from marless.infra.aws.clients import Cloud
from marless.infra.aws.function_settings import Settings
from marless.infra.aws.lambda_calls import LARGEST, MOST_IN_BASE64
from marless.infra.aws.resource_settings import ACTION_EVENTS, OWN_RESOURCE, SERVES
from marless.infra.entry.instrumentation import instrument
from marless.infra.entry.time_limit import AttemptTimedOut, time_limit

# The memory that buys one vCPU (Lambda developer guide, "Configure Lambda function memory").
_MB_PER_VCPU = 1769
_OUTCOMES = MessagePackDecoder[CallOutcome](CallOutcome)


class ResourceFunction:
    """The Lambda handler of a resource; one for each execution environment. Its variables say what it serves."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._settings = Settings.from_environment(environment)
        self._own = OWN_RESOURCE.decode(environment[SERVES])
        self._cloud, self._log = Cloud.here(), Logger()

    def __call__(self, event: dict[str, Any], context: Any) -> Any:
        """The `CallOutcome` of one attempt at a call."""
        request = ACTION_EVENTS.decode(to_json(event))
        self._log.set_correlation_id(request.call.asked_by)
        resource = self._own.resource
        attempt = CallAttempt(self._own.name, resource, request.call, max(1, resource.memory_mb // _MB_PER_VCPU))
        # Without a key no object is touched.
        blobs = ClaimedStorage(self._cloud, self._settings.bucket, self._settings.objects(request.run or "none"))
        try:
            with time_limit(resource.timeout_s):
                outcome = _OUTCOMES.decode(handle(to_message_pack(attempt), blobs))
        except AttemptTimedOut as error:
            outcome = CallOutcome(error=str(error))
        outcome = _fitting(replace(outcome, puts=blobs.puts, gets=blobs.gets))
        if outcome.error:
            self._log.error(outcome.error, extra={"resource": self._own.name})
        return from_json(to_json(outcome), Any)


def _fitting(outcome: CallOutcome) -> CallOutcome:
    if len(to_json(outcome)) <= LARGEST:
        return outcome
    size = f"{len(outcome.answer):,} bytes"
    error = f"its answer has {size}; Lambda takes {MOST_IN_BASE64:,}, as it travels in base64"
    return replace(outcome, answer=b"", error=error)


handler = instrument(ResourceFunction(os.environ), os.environ)
