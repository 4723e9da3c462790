"""The local back-end without worker processes: a function runs in this process, at the moment it is asked for."""

import time
from importlib import import_module

from coordinator.backends.base import FUNCTION_MODULES, Connection
from functions.contract import Platform, Report
from infra.local.files import FileStorage
from infra.local.sqlite import LEDGER_FILE, SqliteLedger


class InProcess:
    """Invokes by a call; what a function raises beyond its own promises reaches the test."""

    def __init__(self, blobs):
        self._blobs, self._reports = blobs, []

    def invoke(self, function, id, attempt, body, timeout_s):
        handle = import_module(FUNCTION_MODULES[function]).handle
        began = time.perf_counter()
        answer = handle(body, self._blobs)
        duration_ms = (time.perf_counter() - began) * 1000
        self._reports.append(
            Report(
                id=id,
                attempt=attempt,
                function=function,
                outcome="answered",
                body=answer,
                duration_ms=duration_ms,
                init_ms=0.0,
            )
        )

    def wait(self, timeout_s):
        reports, self._reports = self._reports, []
        return reports

    def close(self):
        self._reports.clear()


def in_process(folder, workers):
    """A back-end as `LocalBackend.open` gives it."""
    storage = FileStorage(folder / "objects")
    return Connection(storage, SqliteLedger(folder / LEDGER_FILE), InProcess(storage), Platform(concurrency=workers))
