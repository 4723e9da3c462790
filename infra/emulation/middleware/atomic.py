"""Serialises writes: WSGI middleware that makes moto's conditional writes atomic, as on S3 and DynamoDB.

On AWS a conditional write looks and writes at once (S3 user guide, "Conditional requests"; DynamoDB developer guide,
"Condition expressions"). moto looks first and writes later, and its server runs requests on threads, so several writers
can find the same condition true. Reads pass freely.
"""

from collections.abc import Iterable
from contextlib import ExitStack
from threading import Lock
from urllib.parse import parse_qs
from zlib import crc32

from infra.emulation.wsgi import App, Environ, Start, operation, service

# Writers of different keys rarely meet on one of so many locks.
_LOCKS = 64
_TABLE_READS = frozenset({"GetItem", "BatchGetItem", "TransactGetItems", "Query", "Scan"})


class Atomic:
    """Lets writes to one object, and writes to tables, through to `app` one after the other.

    An object has the lock of its key. Tables share one lock: their writes take no turns anyway, because moto is Python
    and holds the interpreter while it works on them.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._objects = [Lock() for _ in range(_LOCKS)]
        self._tables = Lock()

    def __call__(self, environ: Environ, start: Start) -> Iterable[bytes]:
        with ExitStack() as held:
            for lock in self._needed(environ):
                held.enter_context(lock)
            # Moto may do its work only when the answer is taken.
            return list(self._app(environ, start))

    def _needed(self, environ: Environ) -> list[Lock]:
        meant_for, name = service(environ), operation(environ)
        if meant_for == "dynamodb":
            return [] if name in _TABLE_READS or name.startswith(("Describe", "List")) else [self._tables]
        if meant_for != "s3" or name in ("GET", "HEAD"):
            return []
        if name == "POST" and "delete" in parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True):
            return self._objects  # of many keys at once, always in the same order
        return [self._objects[crc32(environ["PATH_INFO"].encode()) % _LOCKS]]
