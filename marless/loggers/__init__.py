"""What a logger of yours may use: its base class, and what it is told of a run.

A package offers a logger by an entry point of the group ``marless.loggers`` whose value is a `Logger` object.

Examples:
    >>> from marless.loggers import LoggedRun, Logger, Point, Writer
"""

from marless.loggers.base import LoggedRun, Logger, Point, Writer
from marless.loggers.registry import logger, names

__all__ = ["LoggedRun", "Logger", "Point", "Writer", "logger", "names"]

__dir__ = __all__.copy
