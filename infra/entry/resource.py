"""An external resource as a Lambda function: one call an invocation."""

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from aws_lambda_powertools import Logger
from msgspec.structs import replace

from marless.functions.encoding import MessagePackDecoder, from_json, to_json, to_message_pack
from marless.functions.errors import StorageFault
from marless.functions.resources.port import CallAttempt, CallOutcome
from marless.functions.resources.serving.answering import KINDS, handle
from marless.functions.resources.settings import token_variable
from marless.infra.aws.claimed_storage import ClaimedStorage
from marless.infra.aws.clients import Cloud
from marless.infra.aws.error_messages import storage_errors
from marless.infra.aws.function_settings import Settings
from marless.infra.aws.lambda_calls import LARGEST, MOST_IN_BASE64
from marless.infra.aws.resource_settings import ACTION_EVENTS, OWN_RESOURCE, SERVES
from marless.infra.entry.instrumentation import instrument
from marless.infra.entry.time_limit import AttemptTimedOut, time_limit

# The memory that buys one vCPU (Lambda developer guide, "Configure Lambda function memory").
_MB_PER_VCPU = 1769
# A token is read again after so many seconds, so that a leaked token can be replaced.
_TOKEN_S = 300.0
_OUTCOMES = MessagePackDecoder[CallOutcome](CallOutcome)


class ResourceFunction:
    """The Lambda handler of a resource, one for each execution environment. Its variables name the resource.

    `clock` gives seconds. The handler reads its token again after `_TOKEN_S` of them.
    """

    def __init__(self, environment: Mapping[str, str], clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = Settings.from_environment(environment)
        self._own = OWN_RESOURCE.decode(environment[SERVES])
        self._cloud, self._log = Cloud.here(), Logger()
        self._clock, self._token_until = clock, 0.0

    def __call__(self, event: dict[str, Any], context: Any) -> Any:
        """The `CallOutcome` of one attempt at a call."""
        request = ACTION_EVENTS.decode(to_json(event))
        self._log.set_correlation_id(request.call.asked_by)
        resource = self._own.resource
        attempt = CallAttempt(self._own.name, resource, request.call, max(1, resource.memory_mb // _MB_PER_VCPU))
        # If there is no key, objects are not used.
        blobs = ClaimedStorage(self._cloud, self._settings.bucket, self._settings.objects(request.run or "none"))
        try:
            with time_limit(resource.timeout_s):
                self._read_token()
                outcome = _OUTCOMES.decode(handle(to_message_pack(attempt), blobs))
        except (AttemptTimedOut, StorageFault) as error:
            outcome = CallOutcome(error=str(error))
        outcome = _fitting(replace(outcome, puts=blobs.puts, gets=blobs.gets))
        if outcome.error:
            self._log.error(outcome.error, extra={"resource": self._own.name})
        return from_json(to_json(outcome), Any)

    def _read_token(self) -> None:
        """Put the resource's token into its variable. Raises `StorageFault`."""
        if not self._own.token or self._clock() < self._token_until:
            return
        with storage_errors("read", f"the token {self._own.token}"):
            reply = self._cloud.client("ssm").get_parameter(Name=self._own.token, WithDecryption=True)
        if reply["Parameter"]["Type"] != "SecureString":
            raise StorageFault(f"the token {self._own.token} is no SecureString; store it again as one")
        variable, token = token_variable(self._own.name), reply["Parameter"]["Value"]
        if os.environ.get(variable) != token:
            KINDS.close()  # a service keeps its token
        os.environ[variable] = token
        self._token_until = self._clock() + _TOKEN_S


def _fitting(outcome: CallOutcome) -> CallOutcome:
    if len(to_json(outcome)) <= LARGEST:
        return outcome
    size = f"{len(outcome.answer):,} bytes"
    error = f"its answer has {size}; Lambda takes {MOST_IN_BASE64:,}, as it travels in base64"
    return replace(outcome, answer=b"", error=error)


handler = instrument(ResourceFunction(os.environ), os.environ)
