"""Names in place of the classes and functions that Python is given, so that a configuration is data.

An object that other processes can import becomes ``module:name``. Another one travels by its source
(`marless.reports.user_code.captured_source`), if its functions run on this machine.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from marless.coordinator.config.schema import RunConfig
from marless.coordinator.errors import UserError
from marless.reports.user_code.captured_source import captured, import_path, modules_of

# The back-ends that run functions in processes of this machine.
_HERE = ("local", "inline")


def with_names(document: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the settings with a name for each class and function. Raises `UserError` for one without source."""
    return {key: _name_of(value, f"{prefix}{key}") for key, value in document.items()}


def _name_of(value: Any, key: str) -> Any:
    if isinstance(value, type) and issubclass(value, dict):
        return value()  # settings, such as `marless.MAPPO`
    if isinstance(value, Mapping):
        return with_names(value, f"{key}.")
    if isinstance(value, list | tuple):
        return [_name_of(item, key) for item in value]
    if not callable(value):
        return value
    family = "pettingzoo:" if key.removesuffix(".name").endswith("task") else ""
    return f"{family}{import_path(value) or captured(value)}"


def require_importable(config: RunConfig, backend: str) -> None:
    """Raise `UserError` if the configuration names captured source, and functions run elsewhere."""
    if backend not in _HERE and modules_of(msgspec.to_builtins(config)):
        raise UserError(
            f"the back-end {backend} imports your code, and a class of a notebook or a script cannot be imported:"
            " write it into a file such as my_env.py, and pass task='pettingzoo:my_env:MyEnv'"
        )
