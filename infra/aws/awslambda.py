"""Functions on AWS Lambda: the invokers of the AWS back-end."""

import base64
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Event, Semaphore, Thread

from botocore.exceptions import BotoCoreError, ClientError

from marless.functions.messages.exchange import Report
from marless.functions.messages.order import Attempt
from marless.infra.aws.backoff import retry, until
from marless.infra.aws.clients import Cloud
from marless.infra.aws.error_messages import explain
from marless.infra.aws.lambda_calls import (
    LARGEST,
    LARGEST_EVENT,
    SMALLER,
    InvocationResult,
    Metering,
    invoke,
    invoking_client,
    metering,
    parse_result,
    status,
    turned_away,
    unclear,
)

# A function may run for 15 minutes (developer guide, "Lambda quotas"), and may have to be started first.
_ANSWER_S = 16 * 60.0
# A throttled call is retried for at least this long before it counts as failed: throttled calls are not billed.
PATIENCE_S = 60.0
# Lambda only queues an event, so it answers at once.
_ACCEPT_S = 10.0


@dataclass(frozen=True, slots=True)
class _Call:
    """An attempt to start, with its request in JSON. `name` is the function's name or ARN on Lambda."""

    attempt: Attempt
    name: str
    body: bytes


class LambdaInvoker:
    """Calls functions and waits for their answers, each on a thread. At most `width` run at once, the rest queue here.

    `functions` maps a function's name to its name or ARN on Lambda, preferably of a published version. Only one thread
    may call the invoker. The function enforces its time-out, and the time-out starts together with the function.

    Lambda throttles calls when too many functions run. Throttled calls are retried for `patience_s`, and at least for
    the attempt's time-out. Other errors are not retried: after a broken connection the function runs on, and a second
    invocation would be billed too.
    """

    def __init__(
        self,
        cloud: Cloud,
        functions: Mapping[str, str],
        width: int,
        patience_s: float = PATIENCE_S,
        answer_s: float = _ANSWER_S,
    ) -> None:
        self._functions, self._width, self._patience_s = functions, width, patience_s
        self._client = invoking_client(cloud, width, answer_s)
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._reports: SimpleQueue[Report] = SimpleQueue()
        self._idle = Semaphore(0)
        self._threads = 0
        self._withdrawn, self._closed = Event(), Event()

    def invoke(self, attempt: Attempt) -> None:
        """Starts the attempt or queues it in FIFO order. Raises `KeyError` for an unknown function."""
        self._calls.put(_Call(attempt, self._functions[attempt.function], attempt.body()))
        if self._idle.acquire(blocking=False) or self._threads == self._width:
            return
        self._threads += 1
        # Not joined at exit, because the process would wait for functions with useless results.
        Thread(target=self._serve, name=f"invoker-{self._threads}", daemon=True).start()

    def wait(self, timeout_s: float) -> list[Report]:
        """Return the reports that arrived. If there are none, wait for the first report for at most `timeout_s`."""
        reports: list[Report] = []
        try:
            reports.append(self._reports.get(timeout=timeout_s))
            while True:
                reports.append(self._reports.get_nowait())
        except Empty:
            return reports

    def withdraw(self) -> None:
        """Report queued and throttled calls as withdrawn, because the run is to stop. Calls in progress continue."""
        self._withdrawn.set()

    def close(self) -> None:
        """Drop queued and running calls and return at once. Idempotent.

        Lambda cannot stop a running function, so it ends by itself or at its time-out and is billed. It may still store
        objects, which is harmless because keys are written once.
        """
        self._withdrawn.set()
        self._closed.set()
        for _ in range(self._threads):
            self._calls.put(None)

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None and not self._closed.is_set():
            try:
                report = self._run(call)
            except Exception as error:  # a defect here must not leave the coordinator waiting for ever
                report = _report(call, InvocationResult("crash", detail=f"{type(error).__name__}: {error}"))
            self._reports.put(report)
            self._idle.release()

    def _run(self, call: _Call) -> Report:
        if len(call.body) > LARGEST:
            return _report(call, InvocationResult("crash", detail=_too_large(call, LARGEST)))
        try:
            return retry(
                lambda: self._ask(call),
                lambda error: turned_away(error) and not self._withdrawn.is_set(),
                until(time.monotonic() + max(call.attempt.timeout_s, self._patience_s)),
                self._withdrawn.wait,
            )
        except (ClientError, BotoCoreError) as error:
            if turned_away(error) and self._withdrawn.is_set():
                return _report(call, InvocationResult("withdrawn"))
            return _report_without_answer(call, error)

    def _ask(self, call: _Call) -> Report:
        if self._withdrawn.is_set():
            return _report(call, InvocationResult("withdrawn"))
        began = time.monotonic()
        reply = invoke(self._client, call.name, call.body, LogType="Tail")
        payload = reply["Payload"].read()
        log = base64.b64decode(reply.get("LogResult", "")).decode(errors="replace")
        end = parse_result("FunctionError" in reply, payload, log)
        client_metering = Metering((time.monotonic() - began) * 1000)
        return _report(call, end, metering(log) or client_metering)


class EventInvoker:
    """Sends attempts to Lambda asynchronously, `threads` at once. Completion sets report how they ended.

    Lambda may run an event more than once ("Asynchronous invocation", developer guide), so an event is sent again if
    its acceptance is unknown. `LambdaInvoker` explains `functions`.
    """

    def __init__(self, cloud: Cloud, functions: Mapping[str, str], threads: int) -> None:
        self._functions, self._threads = functions, threads
        self._client = invoking_client(cloud, threads, _ACCEPT_S)
        self._calls: list[_Call] = []

    def invoke(self, attempt: Attempt) -> None:
        """Queues the attempt for `flush`. Raises `KeyError` for an unknown function."""
        self._calls.append(_Call(attempt, self._functions[attempt.function], attempt.body()))

    def flush(self, patience_s: float) -> list[tuple[str, int, str, bool]]:
        """Sends the queued attempts. Returns (task, attempt, one-line reason, whether it may run nevertheless) for
        each attempt that Lambda did not accept within `patience_s`."""
        calls, self._calls = self._calls, []
        deadline = time.monotonic() + patience_s
        with ThreadPoolExecutor(self._threads) as pool:
            refusals = pool.map(lambda call: self._send(call, deadline), calls)
            results = zip(calls, refusals, strict=True)
            return [(call.attempt.id, call.attempt.number, *refusal) for call, refusal in results if refusal]

    def wait(self, timeout_s: float) -> list[Report]:
        """Returns an empty list at once."""
        return []

    def close(self) -> None:
        """Drops the attempts that were not sent."""
        self._calls.clear()

    def _send(self, call: _Call, deadline: float) -> tuple[str, bool] | None:
        """Return the reason why Lambda did not accept the event, and whether it may have. None if it did."""
        if len(call.body) > LARGEST_EVENT:
            return _too_large(call, LARGEST_EVENT), False
        may_run = False

        def passing(error: Exception) -> bool:
            nonlocal may_run
            may_run = may_run or unclear(error)
            return turned_away(error) or unclear(error)

        try:
            retry(lambda: invoke(self._client, call.name, call.body, InvocationType="Event"), passing, until(deadline))
        except (ClientError, BotoCoreError) as error:
            return _refusal(call, error), may_run
        return None


def _report_without_answer(call: _Call, error: Exception) -> Report:
    if turned_away(error):
        return _report(call, InvocationResult("throttled", detail=_refusal(call, error)))
    if unclear(error):
        detail = f"{_refusal(call, error)}; the function may have run, and its time-out is billed"
        return _report(call, InvocationResult("crash", detail=detail), Metering(call.attempt.timeout_s * 1000))
    return _report(call, InvocationResult("crash", detail=_refusal(call, error)))


def _refusal(call: _Call, error: Exception) -> str:
    advice = f": {SMALLER}" if status(error) == 413 else ""
    return f"cannot invoke {call.name}: {explain(error)}{advice}"


def _too_large(call: _Call, limit: int) -> str:
    return f"cannot invoke {call.name}: the request has {len(call.body):,} bytes, Lambda takes {limit:,}: {SMALLER}"


def _report(call: _Call, end: InvocationResult, metering: Metering | None = None) -> Report:
    metering = metering or Metering()
    return Report(
        id=call.attempt.id,
        attempt=call.attempt.number,
        function=call.attempt.function,
        outcome=end.outcome,
        body=end.body,
        duration_ms=metering.duration_ms,
        init_ms=metering.init_ms,
        peak_mb=metering.peak_mb,
        detail=end.detail,
    )
