"""Traces of invocations, in deployments that have them (the template's parameter Tracing)."""

from collections.abc import Callable, Mapping
from typing import Any

from aws_lambda_powertools import Tracer

Handler = Callable[[dict[str, Any], Any], Any]


def traced(handler: Handler, environment: Mapping[str, str]) -> Handler:
    """`handler`, and its calls to AWS, traced by X-Ray; `handler` itself where tracing is off.

    The SDK keeps quiet where Lambda gave no trace header or nothing listens for segments (AWS X-Ray SDK for Python,
    "Configuring the recorder"); answers are not put into traces, for they may be long.
    """
    if environment.get("MARLESS_TRACING") != "Active":
        return handler

    def invocation(event: dict[str, Any], context: Any) -> Any:
        return handler(event, context)

    # Importing the SDK is slow, so only an instance of Tracer does.
    return Tracer(patch_modules=["botocore"]).capture_lambda_handler(invocation, capture_response=False)
