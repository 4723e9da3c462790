"""All loggers by name: ours, and those that other packages offer by an entry point of the group `marless.loggers`.

The value of an entry point is a `Logger` object, such as ``my_package.my_module:LOGGER``.
"""

from collections.abc import Iterable
from importlib import import_module
from typing import cast

from coordinator.errors import UserError
from functions.plug_ins import plug_ins
from marless import extras
from marless.loggers.base import Logger

GROUP = "marless.loggers"
BUILT_IN = {
    "csv": "marless.loggers.progress_csv",
    "tensorboard": "marless.loggers.tensorboard_events",
    "wandb": "marless.loggers.weights_and_biases",
    "mlflow": "marless.loggers.mlflow_tracking",
}


def names() -> list[str]:
    """The names of all loggers, ours first."""
    return [*BUILT_IN, *sorted(plug_ins(GROUP).keys() - BUILT_IN.keys())]


def logger(name: str) -> Logger:
    """The logger of that name; raises `UserError` for one that nobody knows or that cannot be loaded."""
    if name in BUILT_IN:
        return cast(Logger, import_module(BUILT_IN[name]).LOGGER)
    offers = plug_ins(GROUP).get(name)
    if not offers:
        raise UserError(f"there is no logger {name}; known are {', '.join(names())}")
    try:
        loaded = offers[0].load()
    except Exception as error:
        raise UserError(f"logger {name} ({offers[0].value}) cannot be loaded: {error}") from error
    if not isinstance(loaded, Logger):
        raise UserError(f"logger {name}: {offers[0].value} is no Logger object; see marless.loggers")
    return loaded


def require(wanted: Iterable[str]) -> None:
    """Raises `UserError` unless all loggers are known and their packages installed."""
    for name in wanted:
        if extra := logger(name).extra:
            extras.require(extra, f"the logger {name}")
