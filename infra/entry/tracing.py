"""Traces of invocations, in deployments that have them (the template's parameter Tracing)."""

from collections.abc import Callable, Mapping
from typing import Any

from aws_lambda_powertools import Tracer

Handler = Callable[[dict[str, Any], Any], Any]


def traced(handler: Handler, environment: Mapping[str, str]) -> Handler:
    """`handler`, and with it what it asks of AWS, as X-Ray is to see it; `handler` itself where nobody traces.

    The SDK keeps quiet where Lambda gave no trace header or nothing listens for segments (AWS X-Ray SDK for Python,
    "Configuring the recorder"); answers are not put into traces, for they may be long.
    """
    if environment.get("MARLESS_TRACING") != "Active":
        return handler

    def invocation(event: dict[str, Any], context: Any) -> Any:
        return handler(event, context)

    # Only a Tracer that is made imports the SDK, which takes its time.
    return Tracer(patch_modules=["botocore"]).capture_lambda_handler(invocation, capture_response=False)
