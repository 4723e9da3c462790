"""Gives resources to the factories of environments that take them."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

_RESOURCES = "resources"


def resources_for(factory: Callable[..., Any], options: Mapping[str, object] = {}) -> dict[str, Any]:
    """The keyword argument `resources` of a factory that has this parameter, unless it is one of the task's `options`.
    Otherwise {}. A parameter with another default than None has another meaning."""
    try:
        parameters = inspect.signature(factory, follow_wrapped=False).parameters
    except (TypeError, ValueError):  # it is not written in Python
        return {}
    parameter = parameters.get(_RESOURCES)
    if parameter is None or _RESOURCES in options:
        return {}
    if parameter.default is not parameter.empty and parameter.default is not None:
        return {}
    from marless.functions.resources.port import RESOURCES

    return {_RESOURCES: RESOURCES}
