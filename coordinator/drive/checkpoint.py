"""A run as it is kept: the state's bytes in the ledger, and the objects that it refers to."""

import zlib
from collections.abc import Iterable

import msgspec

from coordinator.core.state import State
from coordinator.drive.ports import Ledger, Storage
from functions import codec
from functions.contract import CorruptObject, NoSuchObject, Ref

STATE, CHECKPOINT = "state", "checkpoint"

_ENCODER = msgspec.json.Encoder()
_STATES = msgspec.json.Decoder(State)


class Unresumable(Exception):
    """What the run stored cannot be continued from; the message is one line for the user."""


def stored(ledger: Ledger, item: str = STATE) -> State | None:
    """The run as it was committed last (or its last checkpoint), for who only looks; None before the first commit.

    Raises `Unresumable` when another version of the program wrote it.
    """
    record = ledger.load(item)
    try:
        return None if record is None else decoded(record.body)
    except (msgspec.MsgspecError, zlib.error) as error:
        raise Unresumable(f"the ledger was written by another version of marless: {error}") from error


def encoded(state: State) -> bytes:
    """The state as the ledger keeps it: its writes are billed by the kilobyte."""
    return zlib.compress(_ENCODER.encode(state), 1)


def decoded(body: bytes) -> State:
    """The state of such bytes, however they are filled up; raises `msgspec.MsgspecError` and `zlib.error`."""
    return _STATES.decode(zlib.decompress(body))


def passing(state: State) -> list[Ref]:
    """What the tasks of the round in flight stored."""
    return [ref for slot in state.slots.values() if slot.done for ref in slot.done.objects.values()]


def trouble(storage: Storage, refs: Iterable[Ref]) -> str:
    """What is wrong with the first of the objects that is not whole; '' when all are."""
    for ref in refs:
        try:
            codec.verified(ref, storage.get(ref.key))
        except CorruptObject as error:
            return str(error)
        except NoSuchObject:
            return f"{ref.key} is missing"
    return ""
