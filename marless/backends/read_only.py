"""A connection that refuses changes, for commands that look at a run."""

from collections.abc import Iterable
from typing import NoReturn

from marless.coordinator.drive.ports import Ledger, Storage
from marless.functions.errors import StorageFault
from marless.functions.messages.exchange import Report
from marless.functions.messages.message import Record
from marless.functions.messages.order import Attempt


class ReadOnlyStorage:
    """Storage that raises `StorageFault` on writes."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def get(self, key: str, size: int | None = None) -> bytes:
        return self._storage.get(key, size)

    def list(self, prefix: str) -> list[str]:
        return self._storage.list(prefix)

    def put(self, key: str, body: bytes) -> None:
        _refuse(f"write {key}")

    def persist(self, keys: Iterable[str]) -> None:
        _refuse("persist objects")

    def delete(self, keys: Iterable[str]) -> None:
        _refuse("delete objects")


class ReadOnlyLedger:
    """A ledger that raises `StorageFault` on writes."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def load(self, item: str) -> Record | None:
        return self._ledger.load(item)

    def now(self) -> float:
        return self._ledger.now()

    def close(self) -> None:
        self._ledger.close()

    def commit(self, item: str, body: bytes, version: int) -> int:
        _refuse(f"write {item}")

    def persist(self) -> None:
        _refuse("persist the ledger")


class NoInvoker:
    """Invokes nothing."""

    def invoke(self, attempt: Attempt) -> None:
        _refuse(f"invoke the {attempt.function}")

    def wait(self, timeout_s: float) -> list[Report]:
        return []

    def close(self) -> None:
        """Nothing to release."""


def _refuse(what: str) -> NoReturn:
    raise StorageFault(f"cannot {what}: the run is open for reading")
