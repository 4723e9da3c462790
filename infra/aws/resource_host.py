"""External resources that are functions: the host of a worker on Lambda (`marless.functions.resources.port`)."""

import base64
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from msgspec.structs import replace

from marless.functions.encoding import Undecodable, to_json
from marless.functions.resources.attempts import Attempts, CallBatch
from marless.functions.resources.port import CallOutcome, ResourceCall, ResourceFault
from marless.infra.aws import lambda_calls
from marless.infra.aws.backoff import SLOT_PAUSE_S, retry, until
from marless.infra.aws.clients import Cloud
from marless.infra.aws.error_messages import explain
from marless.infra.aws.resource_settings import OUTCOMES, AskableFunction, CallEvent

# A function may have to be started first, and ends by itself some seconds after its time limit.
_START_S = 30.0
# Threads of one function. Further calls wait for a thread.
_MOST_THREADS = 64


class LambdaResources:
    """Asks `functions`, by the name of the resource. Calls go side by side, each on a thread, as many as there are
    slots.

    A resource's function has its slots reserved, so Lambda throttles calls beyond them. They are repeated within the
    time limit of an attempt, and cost nothing. Other failures are attempts.
    """

    def __init__(self, cloud: Cloud, functions: Mapping[str, AskableFunction]) -> None:
        self._cloud, self._functions = cloud, functions
        self._clients: dict[str, Any] = {}
        self._attempts = Attempts()

    def ask(self, name: str, calls: Sequence[ResourceCall]) -> list[CallOutcome]:
        """See `port.Host`."""
        if name not in self._functions:
            raise ResourceFault(
                f"resource {name!r} is not deployed: marless cloud deploy --resource {name}=FILE:FUNCTION"
            )
        function = self._functions[name]
        if name not in self._clients:
            self._clients[name] = lambda_calls.invoking_client(
                self._cloud, _MOST_THREADS, function.timeout_s + _START_S
            )
        threads, is_over = ThreadPoolExecutor(min(len(calls), function.slots, _MOST_THREADS)), Event()
        try:
            since, batch = time.monotonic(), CallBatch()
            ask = partial(self._outcome, name, since, batch, is_over)
            return list(threads.map(lambda call: batch.outcome(partial(ask, call)), calls))
        finally:
            # A caller that is interrupted at its time limit neither waits for useless answers nor asks for more.
            is_over.set()
            threads.shutdown(wait=False, cancel_futures=True)

    def _outcome(self, name: str, since: float, batch: CallBatch, is_over: Event, call: ResourceCall) -> CallOutcome:
        function = self._functions[name]
        outcome = self._attempts.outcome(
            name,
            function.attempts,
            function.attempts * function.timeout_s,
            lambda _: self._attempt(name, call, is_over),
            is_over.wait,
            lambda: is_over.is_set() or batch.is_over(),
        )
        return replace(outcome, queued_ms=max(0.0, (time.monotonic() - since) * 1000 - outcome.run_ms))

    def _attempt(self, name: str, call: ResourceCall, is_over: Event) -> CallOutcome:
        function = self._functions[name]
        body = to_json(CallEvent(call, call.asked_by.partition("/")[0]))
        if len(body) > lambda_calls.LARGEST:
            most = f"Lambda takes {lambda_calls.MOST_IN_BASE64:,}, as it travels in base64"
            error = f"a question of {len(call.question):,} bytes is too large: {most}"
            return CallOutcome(error=error, attempts=0)
        waits = until(time.monotonic() + function.timeout_s, SLOT_PAUSE_S)
        try:
            reply = retry(
                lambda: lambda_calls.invoke(self._clients[name], function.function, body, LogType="Tail"),
                lambda error: lambda_calls.turned_away(error) and not is_over.is_set(),
                waits,
                sleep=is_over.wait,
            )
            return _of_reply(reply)
        except (ClientError, BotoCoreError) as error:
            return _without_answer(function, error)


def _of_reply(reply: Mapping[str, Any]) -> CallOutcome:
    log = base64.b64decode(reply.get("LogResult", "")).decode(errors="replace")
    result = lambda_calls.parse_result("FunctionError" in reply, reply["Payload"].read(), log)
    billed_ms = float((lambda_calls.metering(log) or lambda_calls.Metering()).billed_ms)
    if result.outcome != "answered":
        return CallOutcome(error=result.detail, run_ms=billed_ms)
    try:
        return replace(OUTCOMES.decode(result.body), run_ms=billed_ms, attempts=1)
    except Undecodable as error:
        return CallOutcome(error=f"its function answered what is no outcome: {error}", run_ms=billed_ms)


def _without_answer(function: AskableFunction, error: Exception) -> CallOutcome:
    if lambda_calls.turned_away(error):
        slots = f"{function.slots} slot{'s' * (function.slots != 1)}"
        reason = f"none of its {slots} became free within {function.timeout_s:g} s: {explain(error)}"
        return CallOutcome(error=reason, attempts=0, is_down=True)
    if lambda_calls.unclear(error):
        return CallOutcome(error=explain(error), run_ms=function.timeout_s * 1000)
    return CallOutcome(error=explain(error), attempts=0)
