"""Serialises writes: WSGI middleware that makes moto's conditional writes atomic, as on S3 and DynamoDB.

On AWS a conditional write checks and writes atomically (S3 user guide, "Conditional requests", and DynamoDB developer
guide, "Condition expressions"). moto checks first and writes later. Its server runs requests on threads, so several
writers can find the same condition true. Reads take no lock.
"""

from collections.abc import Iterable
from contextlib import ExitStack
from threading import Lock
from urllib.parse import parse_qs
from zlib import crc32

from aws_emulator.wsgi import App, Environ, Start, operation, service

# With this many locks, writers of different keys rarely share one.
_LOCKS = 64
_TABLE_READS = frozenset({"GetItem", "BatchGetItem", "TransactGetItems", "Query", "Scan"})


class Atomic:
    """Forwards writes to one object, and all writes to tables, to `app` one at a time.

    An object's lock is chosen by its key. All tables share one lock: moto's writes to them do not run in parallel
    anyway, because they hold the GIL.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._objects = [Lock() for _ in range(_LOCKS)]
        self._tables = Lock()

    def __call__(self, environ: Environ, start: Start) -> Iterable[bytes]:
        with ExitStack() as locks:
            for lock in self._locks(environ):
                locks.enter_context(lock)
            # moto may do its work only while the answer is iterated.
            return list(self._app(environ, start))

    def _locks(self, environ: Environ) -> list[Lock]:
        meant_for, name = service(environ), operation(environ)
        if meant_for == "dynamodb":
            return [] if name in _TABLE_READS or name.startswith(("Describe", "List")) else [self._tables]
        if meant_for != "s3" or name in ("GET", "HEAD"):
            return []
        if name == "POST" and "delete" in parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True):
            return self._objects  # many keys: all locks, always in the same order
        return [self._objects[crc32(environ["PATH_INFO"].encode()) % _LOCKS]]
