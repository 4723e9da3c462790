"""The parts for your own logger: its base class, and the records of a run that it gets.

A package offers a logger by an entry point of the group ``marless.loggers`` with a `Logger` object as its value.

Examples:
    >>> from marless.loggers import LoggedRun, Logger, Point, Writer
"""

from marless.loggers.base import LoggedRun, Logger, Point, Writer
from marless.loggers.registry import logger, names

__all__ = ["LoggedRun", "Logger", "Point", "Writer", "logger", "names"]

__dir__ = __all__.copy
