"""What deployed functions know of external resources: environment variables that a deployment fills in."""

import msgspec

from functions.encoding import JsonDecoder
from functions.resources.settings import Resource

ASKABLE = "MARLESS_RESOURCES"
"""The environment variable with what a worker's tasks may ask: `AskableFunction` by a resource's name, as JSON."""
SERVES = "MARLESS_RESOURCE"
"""The environment variable with what the function of a resource serves: `OwnResource` as JSON."""


class AskableFunction(msgspec.Struct, frozen=True):
    """The function of a resource: the ARN of its version, and how many of it run at once."""

    function: str
    slots: int


class OwnResource(msgspec.Struct, frozen=True):
    """The resource that a function serves."""

    name: str
    resource: Resource


ASKABLE_FUNCTIONS = JsonDecoder[dict[str, AskableFunction]](dict[str, AskableFunction])
OWN_RESOURCE = JsonDecoder[OwnResource](OwnResource)
