"""Values <-> JSON: the one place of the account that knows in how many ways the library refuses bytes."""

from typing import Any, TypeVar

import msgspec

_T = TypeVar("_T")


class Undecodable(ValueError):
    """The bytes are no JSON of the expected type. The message says why."""


def from_json(body: bytes | str, kind: type[_T]) -> _T:
    """The value of a JSON text. Raises `Undecodable`, for text that is not UTF-8 and for deep nesting too."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise Undecodable(str(error)) from error


def to_json(value: Any) -> bytes:
    """A value as JSON on one line."""
    return msgspec.json.encode(value)
