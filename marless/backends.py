"""What a back-end of yours may use: its base classes, the ports behind them, and the adapters of this machine.

A package offers a back-end by an entry point of the group ``marless.backends`` whose value is a `Backend` object.

Examples:
    >>> from marless.backends import Backend, Connection, LocalBackend
"""

from coordinator.backends.base import Backend, Connection, Part, Readiness, RemoteBackend
from coordinator.backends.local import LocalBackend
from coordinator.backends.registry import backend, names
from coordinator.drive.ports import Invoker, Ledger, Storage
from functions.contract import Platform, Report
from infra.local.files import FileStorage
from infra.local.sqlite import SqliteLedger
from infra.local.worker_pool import WorkerPool

__all__ = [
    "Backend",
    "Connection",
    "FileStorage",
    "Invoker",
    "Ledger",
    "LocalBackend",
    "Part",
    "Platform",
    "Readiness",
    "RemoteBackend",
    "Report",
    "SqliteLedger",
    "Storage",
    "WorkerPool",
    "backend",
    "names",
]
