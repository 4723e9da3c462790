"""Finished rounds as items of the ledger: the journal of a run that nobody watches."""

from contextlib import suppress
from typing import Protocol

import msgspec

from coordinator.core.state import RoundLine
from functions.contract import StaleVersion

_PREFIX = "line/"
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(RoundLine)


class Items(Protocol):
    """A ledger whose items can be read by the beginning of their names."""

    def commit(self, item: str, body: bytes, version: int) -> int: ...

    def items(self, prefix: str, after: str = "") -> list[tuple[str, bytes]]: ...


class Lines:
    """One item for each round; a round that was done again after a loss keeps its first line."""

    def __init__(self, ledger: Items) -> None:
        self._ledger = ledger

    def record(self, line: RoundLine) -> None:
        """Writes the round's line, unless it stands there already."""
        with suppress(StaleVersion):
            self._ledger.commit(_name(line.round), _ENCODER.encode(line), 0)

    def persist(self) -> None:
        """A commit is durable when it returns."""

    def after(self, round_: int) -> list[RoundLine]:
        """The lines of the rounds after `round_`, in order."""
        return [_DECODER.decode(body) for _, body in self._ledger.items(_PREFIX, _name(round_))]


def _name(round_: int) -> str:
    return f"{_PREFIX}{round_:06d}"
