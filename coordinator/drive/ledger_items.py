"""A run's items in the ledger: its state, its last checkpoint, and the lines of a run that no process watches."""

import zlib
from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol

import msgspec

from coordinator.core.state import RoundLine, State
from coordinator.drive.ports import Ledger, Storage
from functions import codec
from functions.contract import CorruptObject, NoSuchObject, Ref, StaleVersion

STATE, CHECKPOINT = "state", "checkpoint"
_LINES = "line/"

_ENCODER = msgspec.json.Encoder()
_STATE_DECODER = msgspec.json.Decoder(State)
_LINE_DECODER = msgspec.json.Decoder(RoundLine)


class Unresumable(Exception):
    """The run cannot be continued from what it stored; the message is one line for the user."""


def load_state(ledger: Ledger, item: str = STATE) -> State | None:
    """The last committed state (or the last checkpoint), for readers that do not drive; None before the first commit.

    Raises `Unresumable` when another version of the program wrote it.
    """
    record = ledger.load(item)
    try:
        return None if record is None else decode_state(record.body)
    except (msgspec.MsgspecError, zlib.error) as error:
        raise Unresumable(f"the ledger was written by another version of marless: {error}") from error


def encode_state(state: State) -> bytes:
    """The state as the ledger keeps it, compressed because writes are billed by the kilobyte."""
    return zlib.compress(_ENCODER.encode(state), 1)


def decode_state(body: bytes) -> State:
    """The state, whatever padding follows it; raises `msgspec.MsgspecError` and `zlib.error`."""
    return _STATE_DECODER.decode(zlib.decompress(body))


def round_refs(state: State) -> list[Ref]:
    """The objects that the tasks of the round in flight stored."""
    return [ref for slot in state.slots.values() if slot.done for ref in slot.done.objects.values()]


def find_damaged(storage: Storage, refs: Iterable[Ref]) -> str:
    """What is wrong with the first missing or damaged object; '' when all are intact."""
    for ref in refs:
        try:
            codec.fetch(storage, ref)
        except CorruptObject as error:
            return str(error)
        except NoSuchObject:
            return f"{ref.key} is missing"
    return ""


class Items(Protocol):
    """A ledger whose items can be listed by a prefix of their names."""

    def commit(self, item: str, body: bytes, version: int) -> int: ...

    def items(self, prefix: str, after: str = "") -> list[tuple[str, bytes]]: ...


class LedgerJournal:
    """Finished rounds, one item each; a round that was repeated after a loss keeps its first line."""

    def __init__(self, ledger: Items) -> None:
        self._ledger = ledger

    def record(self, line: RoundLine) -> None:
        """Writes the round's line unless there is one already."""
        with suppress(StaleVersion):
            self._ledger.commit(_line_name(line.round), _ENCODER.encode(line), 0)

    def persist(self) -> None:
        """Does nothing: a commit is durable when it returns."""

    def lines_after(self, round_: int) -> list[RoundLine]:
        """The lines of the rounds after `round_`, in order."""
        return [_LINE_DECODER.decode(body) for _, body in self._ledger.items(_LINES, _line_name(round_))]


def _line_name(round_: int) -> str:
    return f"{_LINES}{round_:06d}"
