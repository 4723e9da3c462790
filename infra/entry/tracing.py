"""Traces invocations in deployments with tracing (the template's parameter Tracing)."""

from collections.abc import Callable, Mapping
from typing import Any

from aws_lambda_powertools import Tracer

Handler = Callable[[dict[str, Any], Any], Any]


def traced(handler: Handler, environment: Mapping[str, str]) -> Handler:
    """Wraps `handler` so that X-Ray traces it and its calls to AWS; returns `handler` itself if tracing is off.

    The SDK raises no error without a trace header or an X-Ray daemon (AWS X-Ray SDK for Python, "Configuring the
    recorder"). Traces leave out answers, which may be long.
    """
    if environment.get("MARLESS_TRACING") != "Active":
        return handler

    def invocation(event: dict[str, Any], context: Any) -> Any:
        return handler(event, context)

    # An instance of Tracer imports the SDK, which is slow.
    return Tracer(patch_modules=["botocore"]).capture_lambda_handler(invocation, capture_response=False)
