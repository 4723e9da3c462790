"""Names in place of the classes and functions that Python is given, so that a configuration is data.

An object that other processes can import becomes ``module:name``. Another one travels by its source
(`marless.reports.user_code.captured_source`), if its functions run on this machine.
"""

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from marless.coordinator.config.config_keys import RULES
from marless.coordinator.config.schema import ConfigError
from marless.coordinator.errors import UserError
from marless.functions.algorithms.registry import implementation
from marless.functions.algorithms.specification import AlgorithmSpec
from marless.functions.errors import BadRequest
from marless.functions.plug_in_registry import Rule
from marless.reports.user_code.captured_source import captured, import_path, modules_of
from marless.reports.user_code.decorators import DECORATED

# The back-ends that run functions in processes of this machine.
_HERE = ("local", "inline")
# The kind of the objects that a key names.
_KINDS = {
    "task": "environment",
    "task.name": "environment",
    "algorithm": "algorithm",
    "algorithm.name": "algorithm",
    "task.judge": "judge",
    **dict.fromkeys(RULES, "rule"),
}


def with_names(document: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the settings with a name for each class and function. Raises `UserError` for one without source."""
    return {key: _name_of(value, f"{prefix}{key}") for key, value in document.items()}


def _name_of(value: Any, key: str) -> Any:
    kind = next((kind for end, kind in _KINDS.items() if f".{key}".endswith(f".{end}")), "")
    value = DECORATED.get((kind, value), value) if isinstance(value, str) else value
    if isinstance(value, type) and issubclass(value, dict):
        return value()  # settings, such as `marless.MAPPO`
    if isinstance(value, Mapping):
        return with_names(value, f"{key}.")
    if isinstance(value, list | tuple):
        return [_name_of(item, key) for item in value]
    if kind == "environment" and hasattr(value, "reset") and not isinstance(value, type):
        raise UserError(f"{key} is an environment: pass {type(value).__name__}, or a function that makes one")
    if not callable(value) and not isinstance(value, AlgorithmSpec | Rule):
        return value
    family = _family(value) if kind == "environment" else ""
    return f"{family}{import_path(value) or captured(_with_stages(value))}"


def _family(value: Any) -> str:
    return "text:" if next(iter(inspect.signature(value).parameters), "") == "tokenizer" else "pettingzoo:"


def _with_stages(value: Any) -> Any:
    """The object, with the stages of a notebook's algorithm in place of the name of the notebook's module."""
    if not isinstance(value, AlgorithmSpec) or value.implementation != "__main__":
        return value
    try:
        return replace(value, implementation=implementation(value))
    except BadRequest as error:
        raise ConfigError(str(error)) from error


def require_importable(settings: msgspec.Struct, backend: str) -> None:
    """Raise `UserError` if the settings of a run or a study name captured source, and functions run elsewhere."""
    if backend not in _HERE and (modules := modules_of(msgspec.to_builtins(settings))):
        raise UserError(
            f"the back-end {backend} imports your code, and {modules[0]} is source of a notebook or a script:"
            " write it into a file such as my_code.py, and import it from there"
        )
