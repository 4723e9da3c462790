"""Logs and traces of an invocation: fields of every line, and X-Ray (parameters LogLevel and Tracing)."""

from collections.abc import Callable, Mapping
from typing import Any

from aws_lambda_powertools import Logger, Tracer

Handler = Callable[[dict[str, Any], Any], Any]

# Keys of Powertools that repeat Lambda's lines or the other keys, because every byte is billed.
_LEFT_OUT = ("function_arn", "function_memory_size")


def instrument(handler: Handler, environment: Mapping[str, str]) -> Handler:
    """Wraps `handler` so that every line of its logger names the invocation: request id, function, version, cold start.

    The request id is also in Lambda's START, END and REPORT lines. Keys that an earlier invocation added to the logger
    are removed. With tracing on, X-Ray traces the invocation and its calls to AWS. Traces leave out answers, which may
    be long. The SDK tolerates a missing trace header or X-Ray daemon (AWS X-Ray SDK for Python, "Configuring the
    recorder").
    """
    log = Logger()

    @log.inject_lambda_context(clear_state=True)
    def invocation(event: dict[str, Any], context: Any) -> Any:
        log.remove_keys(_LEFT_OUT)
        log.append_keys(function_version=context.function_version)
        return handler(event, context)

    if environment.get("MARLESS_TRACING") != "Active":
        return invocation
    # An instance of Tracer imports the SDK, which is slow.
    return Tracer(patch_modules=["botocore"]).capture_lambda_handler(invocation, capture_response=False)
