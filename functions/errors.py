"""Errors of the functions, and of the adapters that store for them and for the coordinator."""

from typing import Self


class KeyTaken(Exception):
    """The key already holds an object. Keys are written once."""


class NoSuchObject(Exception):
    """Nothing is stored under the key."""

    def __str__(self) -> str:
        return f"{super().__str__()} is missing; it was deleted or lost"


class StorageFault(Exception):
    """The store could not write or read an object (full disk, lost permission). The message says which."""


class StaleVersion(Exception):
    """The item changed since it was loaded: another process drives the run.

    `size`: bytes of the present body, which the table bills for the refused write, or 0.
    """

    def __init__(self, message: str, size: int = 0) -> None:
        super().__init__(message)
        self.size = size


class ForeignObject(Exception):
    """Another task than the key's task wrote the object, or it is of another round than a task was promised."""


class CorruptObject(Exception):
    """The object's bytes do not match its reference or its format."""

    @classmethod
    def of_size(cls, key: str, size: int, expected: int) -> Self:
        return cls(f"{key} is not the object the run recorded (it has {size:,} bytes instead of {expected:,})")


class NotFinite(Exception):
    """A number that would have been published is NaN or infinite. The message names the tensor."""


class BadRequest(ValueError):
    """The request cannot be served. The message says which field and why."""


class MissingExtra(Exception):
    """An optional dependency is not installed. The message says how to get it."""


def foreign_errors() -> tuple[type[BaseException], ...]:
    """Errors of foreign code. Some packages end the process, and packages in Rust panic."""
    panics = [kind for kind in BaseException.__subclasses__() if kind.__name__ == "PanicException"]
    return (Exception, SystemExit, *panics)
