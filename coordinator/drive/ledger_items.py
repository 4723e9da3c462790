"""A run's items in the ledger: its state, its last checkpoint, and the lines of a run that no process watches."""

import zlib
from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol

from msgspec import UNSET
from msgspec.structs import replace

from marless.coordinator.core.state import RoundLine, State
from marless.coordinator.drive.ports import Ledger, Storage
from marless.functions import codec
from marless.functions.encoding import JsonDecoder, Undecodable, WrittenByNewer, own_format, to_json
from marless.functions.errors import CorruptObject, NoSuchObject, StaleVersion
from marless.functions.messages.message import Ref

STATE, CHECKPOINT = "state", "checkpoint"
_LINES = "line/"
# More bytes are compressed at once rather than well.
_QUICK_BYTES = 256 << 10
# A state of 10^5 tasks in flight takes less. A damaged or hostile state may expand without end.
_MOST_BYTES = 256 << 20

_EMPTY = State(format_version=UNSET)
_STATE_DECODER = JsonDecoder(State)
_LINE_DECODER = JsonDecoder(RoundLine)


class Unresumable(Exception):
    """The run cannot be continued from its stored state. The message is one line for the user."""


def load_state(ledger: Ledger, item: str = STATE) -> State | None:
    """Return the last committed state (or the last checkpoint), for readers that do not drive.

    None before the first commit. Raises `Unresumable` when another version of the program wrote it.
    """
    record = ledger.load(item)
    try:
        return None if record is None else decode_state(record.body)
    except WrittenByNewer as error:
        raise Unresumable(str(error)) from error
    except Undecodable as error:
        raise Unresumable(f"the ledger was written by another version of marless: {error}") from error


# The fields from the bill on. Most of a state's bytes are in the slots before the bill.
_FROM_BILL = State.__struct_fields__[State.__struct_fields__.index("meter") :]
_TO_BILL = State.__struct_fields__[: State.__struct_fields__.index("meter")]


class StateEncoder:
    """Encodes a state as the ledger keeps it, compressed because writes are billed by the kilobyte.

    The write itself is on the bill that is written. So a state is encoded with several bills, and its part before the
    bill is encoded once.
    """

    def __init__(self, state: State) -> None:
        self._start = to_json(_without(state, _FROM_BILL)).removesuffix(b"}")
        self._stream = _compressor(len(self._start))
        self._compressed = self._stream.compress(self._start)

    def encode(self, state: State) -> bytes:
        """The body of `state`, which is the encoder's but for its bill."""
        rest = to_json(_without(state, _TO_BILL)).removeprefix(b"{")
        comma = b"," if len(self._start) > 1 and len(rest) > 1 else b""
        stream = self._stream.copy()
        return self._compressed + stream.compress(comma + rest) + stream.flush()


def _compressor(size: int) -> "zlib._Compress":
    """Return a compressor for so many bytes of JSON. Numbers repeat little, so it leaves out short matches."""
    return zlib.compressobj(9, strategy=zlib.Z_FILTERED) if size < _QUICK_BYTES else zlib.compressobj(1)


def line_body(line: RoundLine) -> bytes:
    """The line as the ledger keeps it, compressed."""
    text = to_json(line)
    stream = _compressor(len(text))
    return stream.compress(text) + stream.flush()


def _without(state: State, fields: tuple[str, ...]) -> State:
    return replace(state, **{name: getattr(_EMPTY, name) for name in fields})


def decode_state(body: bytes) -> State:
    """Return the state without its padding. Raises `Undecodable`."""
    try:
        return replace(_STATE_DECODER.decode(_decompressed(body)), format_version=own_format())
    except WrittenByNewer as error:
        raise WrittenByNewer(f"the ledger{str(error).removeprefix('it')}") from error


def _decompressed(body: bytes) -> bytes:
    stream = zlib.decompressobj()
    try:
        text = stream.decompress(body, _MOST_BYTES)
    except zlib.error as error:
        raise Undecodable(str(error)) from error
    if not stream.eof:
        raise Undecodable(
            "it is cut short" if not stream.unconsumed_tail else f"it has more than {_MOST_BYTES:,} bytes"
        )
    return text


def find_damaged(storage: Storage, refs: Iterable[Ref]) -> str:
    """Return the problem of the first missing or damaged object, or '' if all are intact."""
    for ref in refs:
        try:
            codec.fetch(storage, ref)
        except (CorruptObject, NoSuchObject) as error:
            return str(error)
    return ""


class Items(Protocol):
    """A ledger that can list its items by a prefix of their names."""

    def commit(self, item: str, body: bytes, version: int) -> int:
        """See `Ledger.commit`."""

    def items(self, prefix: str, after: str = "") -> list[tuple[str, bytes]]:
        """Return the name and body of each item, sorted. Names start with `prefix` and are greater than `after`."""


class LedgerJournal:
    """Finished rounds, one item each. A round that was repeated after a loss keeps its first line."""

    def __init__(self, ledger: Items) -> None:
        self._ledger = ledger

    def record(self, line: RoundLine) -> None:
        """Writes the round's line unless there is one already."""
        with suppress(StaleVersion):
            self._ledger.commit(_line_name(line.round), line_body(line), 0)

    def persist(self) -> None:
        """Does nothing: a commit is durable when it returns."""

    def lines_after(self, round_: int) -> list[RoundLine]:
        """The lines of the rounds after `round_`, in order."""
        return [
            # Earlier programs wrote lines as they are.
            _LINE_DECODER.decode(body if body.startswith(b"{") else _decompressed(body), f"the ledger's {name}")
            for name, body in self._ledger.items(_LINES, _line_name(round_))
        ]


def _line_name(round_: int) -> str:
    return f"{_LINES}{round_:06d}"
