"""The Lambda handler around a function's `handle`: storage, time-out, log and completion report.

An event is a request as JSON. Without `report_to` the invocation is synchronous and returns the answer. With it the
invocation is asynchronous: the answer is stored, and its end is reported to a completion set. The set's last member
wakes the coordinator.

An attempt that times out or crashes is reported in the same way, and the invocation then returns normally. So Lambda
counts an error, and keeps the event as a dead letter, only where the end could not be reported.
"""

import os
import traceback
from collections.abc import Callable, Mapping
from math import ceil
from typing import Any, Literal

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from marless.functions.completion import LONGEST_MESSAGE, CompletionReport, completion_report, report_completion
from marless.functions.encoding import JsonDecoder, from_json, to_json
from marless.functions.messages.exchange import Answer, Failed, Request
from marless.functions.storage_port import Blobs
from marless.functions.text.redaction import redact
from marless.infra.aws.clients import Cloud
from marless.infra.aws.completion_sets import DynamoCompletions, wake
from marless.infra.aws.function_settings import ASKABLE, Settings
from marless.infra.aws.lambda_calls import reported_error
from marless.infra.aws.s3 import S3Storage
from marless.infra.entry.time_limit import AttemptTimedOut, time_limit
from marless.infra.local.own_process import OwnTime, peak_mb

Handle = Callable[[bytes, Blobs], bytes]

_REQUESTS = JsonDecoder[Request](Request)
_ANSWERS = JsonDecoder[Answer](Answer)


class Worker:
    """The Lambda handler around `handle`, one for each execution environment."""

    def __init__(self, handle: Handle, own_time: OwnTime | None = None) -> None:
        self._handle = handle
        self._settings = Settings.from_environment(os.environ)
        self._cloud = Cloud.here()
        self._log, self._metrics = Logger(), Metrics()
        self._metrics.set_default_dimensions(Tenant=self._settings.tenant)
        self._storage: dict[str, S3Storage] = {}
        self._completions: dict[str, DynamoCompletions] = {}
        self._lambda: Any = None
        if ASKABLE in os.environ:
            _ask_functions(self._cloud, os.environ[ASKABLE])
        self._time = own_time or OwnTime()

    def __call__(self, event: dict[str, Any], context: Any) -> Any:
        """Return the answer, or the error that ended the attempt (`lambda_calls.reported_error`). For asynchronous
        calls it is an acknowledgement of the completion report."""
        self._time.begin()
        body = to_json(event)
        request = _REQUESTS.decode(body, "the request")
        self._log.set_correlation_id(request.address.id)
        if request.report_to is None:
            # A synchronous caller reads the metering from the log.
            self._time.waive()
        try:
            with time_limit(request.timeout_s):
                answer = self._handle(body, self._objects(request.address.run))
            end = _ANSWERS.decode(answer)
        except Exception as error:
            return self._end(request, self._report_lost(request, error), reported_error(error))
        self._remark(end)
        if request.report_to is None:
            return from_json(answer, Any)
        return self._end(request, completion_report(end, *self._time.take(), peak_mb()), {})

    def _end(self, request: Request, report: CompletionReport, reply: Mapping[str, str]) -> Mapping[str, Any]:
        if request.report_to is None:
            return reply
        if report_completion(self._sets(request.address.run), request.report_to, report):
            self._lambda = self._lambda or self._cloud.client("lambda")
            wake(self._lambda, request.report_to.coordinator, self._settings.tenant, request.address.run)
        self._time.end()
        return {"reported": True}

    def _objects(self, run: str) -> S3Storage:
        if run not in self._storage:
            self._storage[run] = S3Storage(self._cloud, self._settings.bucket, self._settings.objects(run))
        return self._storage[run]

    def _sets(self, run: str) -> DynamoCompletions:
        if run not in self._completions:
            scope = self._settings.completions(run)
            self._completions[run] = DynamoCompletions(self._cloud, self._settings.table, scope)
        return self._completions[run]

    def _report_lost(self, request: Request, error: Exception) -> CompletionReport:
        kind: Literal["timeout", "crash"] = "timeout" if isinstance(error, AttemptTimedOut) else "crash"
        message = redact(f"{type(error).__name__}: {error}")
        fields: dict[str, Any] = {"kind": kind, "attempt": request.attempt}
        if kind == "crash":
            fields["exception"] = redact("".join(traceback.format_exception(error)))
        self._log.error(message, extra=fields)
        self._count_failure()
        duration_ms, start_ms = self._time.take()
        return CompletionReport(
            attempt=request.attempt,
            duration_ms=ceil(duration_ms),
            start_ms=ceil(start_ms),
            peak_mb=ceil(peak_mb()),
            kind=kind,
            message=message[:LONGEST_MESSAGE],
            again=True,
        )

    def _remark(self, answer: Answer) -> None:
        """Logs and counts failures. Lambda's log lines show successes at no extra cost. With LogLevel=DEBUG there is a
        line for each, which names the task that they belong to."""
        if not isinstance(answer, Failed):
            self._log.debug("answered", extra={"attempt": answer.attempt})
            return
        self._log.error(answer.message, extra={"kind": answer.kind, "attempt": answer.attempt})
        self._count_failure()

    def _count_failure(self) -> None:
        self._metrics.add_metric(name="Failures", unit=MetricUnit.Count, value=1)
        self._metrics.flush_metrics()


def _ask_functions(cloud: Cloud, askable: str) -> None:
    from marless.functions.resources.port import RESOURCES
    from marless.infra.aws.resource_host import LambdaResources
    from marless.infra.aws.resource_settings import ASKABLE_FUNCTIONS

    RESOURCES.host = LambdaResources(cloud, ASKABLE_FUNCTIONS.decode(askable))
