"""The ports of the coordinator: storage, ledger, invoker and journal."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from marless.coordinator.core.state import RoundLine
from marless.coordinator.pricing.bill import Meter
from marless.functions.messages.exchange import Report
from marless.functions.messages.message import Record
from marless.functions.messages.order import Attempt
from marless.functions.storage_port import Blobs

if TYPE_CHECKING:
    from marless.coordinator.drive.attempt_record import AttemptRecord


class Storage(Blobs, Protocol):
    """The run's objects, with the operations that only the coordinator needs."""

    def persist(self, keys: Iterable[str]) -> None:
        """Returns once the objects would survive a power loss."""

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects. Keys without an object are skipped."""

    def list(self, prefix: str) -> list[str]:
        """The keys that start with `prefix`, sorted."""


class Ledger(Protocol):
    """Named items of one run. Each write names the version that it replaces."""

    def load(self, item: str) -> Record | None:
        """Return the newest version of an item, or None. Raises `StorageFault`."""

    def commit(self, item: str, body: bytes, version: int) -> int:
        """Replaces version `version` of `item` (0: it must not exist yet) and returns the new version.

        Raises `StaleVersion` when the item has another version. Survives kill -9 of this process when it returns.
        """

    def persist(self) -> None:
        """Returns once all commits so far would survive a power loss."""

    def now(self) -> float:
        """Seconds since 1970 by the ledger's own clock, which all machines that open it share."""

    def close(self) -> None:
        """Release open files and connections."""


class Invoker(Protocol):
    """Starts functions for one caller, and reports the end of every started attempt exactly once."""

    def invoke(self, attempt: Attempt) -> None:
        """Start the attempt, and do not wait for it."""

    def wait(self, timeout_s: float) -> list[Report]:
        """The reports that have arrived, at once if there are any, else after the first or after `timeout_s`."""

    def close(self) -> None:
        """Ends all functions that still run where the platform can end them, and abandons the others."""


class Journal(Protocol):
    """The record of finished rounds. `record` is called at least once for every round and must be idempotent."""

    def record(self, line: RoundLine) -> None:
        """Record a finished round. Recording the same round again changes nothing."""

    def persist(self) -> None:
        """Returns once the recorded lines would survive a power loss."""


@dataclass(frozen=True)
class Ports:
    """The outside world of a run. `repeated` returns the use of repeated requests since its last call. `attempts` takes
    the records of ended attempts."""

    storage: Storage
    ledger: Ledger
    invoker: Invoker
    journal: Journal
    repeated: Callable[[], Meter] = Meter
    attempts: Callable[["list[AttemptRecord]"], None] = lambda records: None
