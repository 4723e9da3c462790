"""External resources as options of `marless cloud deploy`, and the settings that a deployment can serve."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from marless.coordinator.errors import UserError
from marless.functions.encoding import mismatch
from marless.functions.resources.settings import NAME, Resource
from marless.reports.user_code.user_modules import function_fault

if TYPE_CHECKING:
    from marless.infra.deployment import Deployment

EXAMPLE = "judge=my_judge:grade,slots=4"
# Settings of `Resource` that a deployment fixes, besides its source.
FIXED = ("slots", "memory_mb", "timeout_s", "attempts")


def parse(text: str) -> tuple[str, Resource]:
    """Return a resource's name and fixed settings, from NAME=MODULE:FUNCTION or NAME=https://... Raises
    `ValueError`."""
    name, separator, rest = text.partition("=")
    source, *settings = rest.split(",")
    if not separator or not NAME.fullmatch(name) or not source:
        raise ValueError(f"{text!r} is not a resource such as {EXAMPLE}")
    is_address = source.startswith(("https://", "http://"))
    if not is_address and ":" not in source:
        raise ValueError(f"{source!r} is neither module:function nor the address of a service")
    values = dict(_setting(setting) for setting in settings)
    try:
        # The values are texts.
        return name, msgspec.convert({"http" if is_address else "serve": source, **values}, Resource, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(f"{name}: {mismatch(error)}") from error


def _setting(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or key not in FIXED:
        raise ValueError(f"{text!r} is none of {', '.join(f'{each}=...' for each in FIXED)}")
    return key, value


def merged(before: Mapping[str, Resource], changes: Mapping[str, Resource | None]) -> dict[str, Resource]:
    """Return the resources of a deployment after `changes`, with None to remove one. Raises `UserError` if it is
    missing."""
    if missing := [name for name, resource in changes.items() if resource is None and name not in before]:
        raise UserError(f"--no-resource {missing[0]}: no such resource is deployed")
    return {name: resource for name, resource in {**before, **changes}.items() if resource is not None}


def require_functions_here(resources: Mapping[str, Resource]) -> None:
    """Raises `UserError` for a function that processes on this machine will not find."""
    for name, resource in resources.items():
        if resource.serve and (fault := function_fault(resource.serve)):
            raise UserError(f"resource {name}: {fault}")


def require_room(resources: Mapping[str, Resource], before: "Deployment | None", free: int, least: int) -> None:
    """Raises `UserError` when an account with `free` functions cannot reserve the slots of all resources and keep
    `least` for others."""
    slots = sum(resource.slots for resource in resources.values())
    there = sum(resource.slots for resource in before.resources.values()) if before else 0
    most = max(0, free + there - least)
    if slots > most:
        raise UserError(
            f"the slots of {' and '.join(resources)} reserve {slots:,} functions and leave less than {least} to the"
            f" others of this account; the most is {most}, or ask for more under Service Quotas, AWS Lambda"
        )
