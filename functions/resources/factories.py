"""Gives resources to the factories of environments that take them."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

_RESOURCES = "resources"


def resources_for(factory: Callable[..., Any], options: Mapping[str, object] = {}) -> dict[str, Any]:
    """The keyword argument `resources` of a factory that has this parameter, unless it is one of the task's `options`;
    nothing for all others."""
    try:
        parameters = inspect.signature(factory, follow_wrapped=False).parameters
    except (TypeError, ValueError):  # it is not written in Python
        return {}
    if _RESOURCES not in parameters or _RESOURCES in options:
        return {}
    from functions.resources.port import RESOURCES

    return {_RESOURCES: RESOURCES}
