"""The base of messages between the coordinator and the functions.

Messages are frozen, tagged and refuse unknown fields. This folder holds data only. Handlers define the effects of
messages.
"""

import msgspec


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True, gc=False):
    """Base of all messages. They refer only to older objects, so no garbage is cyclic. With ten thousand tasks in
    flight the collector's search for cycles took most of the coordinator's time."""


class Ref(Message, frozen=True, kw_only=True):
    """An object in storage and the hash of its bytes."""

    key: str
    """The key in storage."""
    sha256: str
    """The hash of the object's bytes, in hexadecimal digits."""
    size: int
    """Bytes."""


class Table(Message, frozen=True, kw_only=True):
    """A small array inside a message: float32, row-major, little-endian. See `marless.functions.codec`."""

    shape: tuple[int, ...]
    """The array's dimensions."""
    data: bytes
    """The numbers."""


class Record(Message, frozen=True, kw_only=True):
    """An item of the ledger."""

    version: int
    """How often the item was written; conditional writes compare it."""
    body: bytes
    """The item's bytes."""
    at: float = 0.0
    """When it was written, in seconds since 1970; 0 if the back-end does not report it."""
