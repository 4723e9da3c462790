"""The settings of external resources in deployed functions, and the event by which one asks another.

A deployment sets environment variables with the resources that each function serves and may ask. Events name no code.
"""

import msgspec

from marless.functions.encoding import JsonDecoder
from marless.functions.resources.port import CallOutcome, ResourceCall
from marless.functions.resources.settings import Resource

SERVES = "MARLESS_RESOURCE"
"""The environment variable with what the function of a resource serves: `OwnResource` as JSON."""


class AskableFunction(msgspec.Struct, frozen=True):
    """The function of a resource: the ARN of its version, its concurrency, and the time limit and attempts of
    `Resource`."""

    function: str
    slots: int
    timeout_s: float
    attempts: int


class OwnResource(msgspec.Struct, frozen=True):
    """The resource that a function serves. `token` is the name of a parameter in Systems Manager, '' without one."""

    name: str
    resource: Resource
    token: str = ""


class CallEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One attempt at a call. The answer is kept among the objects of `run`, if it is kept. Encoded as JSON."""

    call: ResourceCall = msgspec.field(name="action")
    run: str = ""


ACTION_EVENTS = JsonDecoder[CallEvent](CallEvent)
OUTCOMES = JsonDecoder[CallOutcome](CallOutcome)
ASKABLE_FUNCTIONS = JsonDecoder[dict[str, AskableFunction]](dict[str, AskableFunction])
OWN_RESOURCE = JsonDecoder[OwnResource](OwnResource)
