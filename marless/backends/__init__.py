"""What a back-end of yours may use: its base classes, the ports behind them, and the adapters of this machine.

A package offers a back-end by an entry point of the group ``marless.backends`` whose value is a `Backend` object.

Examples:
    >>> from marless.backends import Backend, Connection, LocalBackend
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coordinator.drive.ports import Invoker, Ledger, Storage
    from coordinator.platform import Platform
    from functions.messages.report import Report
    from infra.local.file_storage import FileStorage
    from infra.local.single_run_pool import WorkerPool
    from infra.local.sqlite_ledger import SqliteLedger
    from marless.backends.base import Backend, Connection, Part, Readiness, RemoteBackend
    from marless.backends.local import LocalBackend
    from marless.backends.registry import backend, names

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
    "coordinator.drive.ports": ("Invoker", "Ledger", "Storage"),
    "coordinator.platform": ("Platform",),
    "functions.messages.report": ("Report",),
    "infra.local.file_storage": ("FileStorage",),
    "infra.local.sqlite_ledger": ("SqliteLedger",),
    "infra.local.single_run_pool": ("WorkerPool",),
    "marless.backends.base": ("Backend", "Connection", "Part", "Readiness", "RemoteBackend"),
    "marless.backends.local": ("LocalBackend",),
    "marless.backends.registry": ("backend", "names"),
}


def __getattr__(name: str) -> Any:
    """Imports what is asked for and no more: commands that start no worker do not load the pool."""
    for module, public in _MODULES.items():
        if name in public:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
