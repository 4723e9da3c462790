"""The interface for your back-ends: their base classes, the ports behind them, and the adapters of this machine.

A package offers a back-end by an entry point of the group ``marless.backends`` with a `Backend` object as its value.

Examples:
    >>> from marless.backends import Backend, Connection, LocalBackend
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from marless.backends.base import Backend, Connection, Part, Readiness, RemoteBackend
    from marless.backends.local import LocalBackend
    from marless.backends.registry import backend, names
    from marless.coordinator.drive.ports import Invoker, Ledger, Storage
    from marless.coordinator.platform import Platform
    from marless.functions.messages.exchange import Report
    from marless.infra.local.file_storage import FileStorage
    from marless.infra.local.single_run_pool import WorkerPool
    from marless.infra.local.sqlite_ledger import SqliteLedger

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

_MODULES = {
    "marless.coordinator.drive.ports": ("Invoker", "Ledger", "Storage"),
    "marless.coordinator.platform": ("Platform",),
    "marless.functions.messages.exchange": ("Report",),
    "marless.infra.local.file_storage": ("FileStorage",),
    "marless.infra.local.sqlite_ledger": ("SqliteLedger",),
    "marless.infra.local.single_run_pool": ("WorkerPool",),
    "marless.backends.base": ("Backend", "Connection", "Part", "Readiness", "RemoteBackend"),
    "marless.backends.local": ("LocalBackend",),
    "marless.backends.registry": ("backend", "names"),
}


def __getattr__(name: str) -> Any:
    """Import only the requested name, so that only commands with workers load the pool."""
    for module, public in _MODULES.items():
        if name in public:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__dir__ = __all__.copy
