"""The items of the ledger, where a run's state and rounds are."""

from functions.messages.message import Message


class Record(Message, frozen=True, kw_only=True):
    """An item of the ledger."""

    version: int
    """How often the item was written; conditional writes compare it."""
    body: bytes
    """The item's bytes."""
    at: float = 0.0
    """When it was written, in seconds since 1970; 0 if the back-end does not report it."""
