"""The package for workers of other machines that dial in: an entry point of the group `marless.dial_in`."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from marless.backends.badge import Badge
from marless.backends.base import WorkerListener
from marless.coordinator.errors import UserError
from marless.functions.plug_in_registry import Registry


class DriverOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A profile of workers on other machines: the driver's HOST:PORT, the files of its token, certificate and key, and
    whether processors may round differently. `head` is the address of a Ray cluster."""

    listen: str | None = None
    head: str | None = None
    token_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    any_processor: bool = False


@dataclass(frozen=True)
class WorkerOptions:
    """The settings of a worker: the address of its driver, and how many tasks it serves at once."""

    address: str
    slots: int
    token_file: Path | None
    tls_ca: Path | None
    patience_s: float


class DialIn(Protocol):
    """Both sides of a connection. Each raises `UserError`."""

    def listening(self, options: DriverOptions, badge: Badge) -> AbstractContextManager[WorkerListener]:
        """Let workers dial in within the block."""

    def serve(self, options: WorkerOptions) -> bool:
        """Serve until the user interrupts it. Return whether it has served a driver."""


_PACKAGES = Registry[DialIn](
    "marless.dial_in", {}, lambda name: "dialling in", error=UserError, extras={"workers": "cluster"}
)


def dial_in() -> DialIn:
    """Return the package. Raises `UserError` if it is not installed."""
    return _PACKAGES.lookup("workers")
