"""All loggers by name: ours, and other packages' by an entry point of the group `marless.loggers`.

The value of an entry point is a `Logger` object, such as ``my_package.my_module:LOGGER``.
"""

from collections.abc import Iterable

from marless import extras
from marless.coordinator.errors import UserError
from marless.functions.plug_in_registry import Registry
from marless.loggers.base import Logger

BUILT_IN: dict[str, Logger | str] = {
    "csv": "marless.loggers.progress_csv",
    "tensorboard": "marless.loggers.tensorboard_events",
    "wandb": "marless.loggers.weights_and_biases",
    "mlflow": "marless.loggers.mlflow_tracking",
}
LOGGERS: Registry[Logger] = Registry(
    "marless.loggers",
    BUILT_IN,
    label=lambda name: f"logger {name}",
    problem=lambda value: "" if isinstance(value, Logger) else "is no Logger object; see marless.loggers",
    error=UserError,
    attribute="LOGGER",
)


def names() -> list[str]:
    """The names of all loggers, ours first."""
    return list(LOGGERS)


def logger(name: str) -> Logger:
    """The logger of that name. Raises `UserError` if it is unknown or cannot be loaded."""
    return LOGGERS.lookup(name)


def require(loggers: Iterable[str]) -> None:
    """Raises `UserError` unless all loggers are known and their packages installed."""
    for name in loggers:
        if extra := logger(name).extra:
            extras.require(extra, f"the logger {name}")
