"""One process serves a lab. The pool is in its main thread, and the application is in another thread."""

import os
import socket
import ssl
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import anyio
import uvicorn

from marless.backends.base import FUNCTION_MODULES
from marless.coordinator.errors import UserError, one_line
from marless.functions.algorithms.engine import MODULES
from marless.functions.errors import StorageFault
from marless.functions.resources.settings import is_token
from marless.functions.text.redaction import is_secret
from marless.infra.local.available_cores import cores
from marless.infra.local.dispatch import GPUS, Capacity
from marless.infra.local.task_pool import TaskPool
from marless.infra.local.workers import local_workers
from marless.output import note
from marless.runs.folder import RunFolder
from marless.signals import Signals
from marless_server.pool.archives import ArchiveClaims, remove_leftovers
from marless_server.pool.deletion import delete_expired
from marless_server.pool.driver import Board, PoolDriver, Queue
from marless_server.store.database import FILE, Database
from marless_server.store.owners import Owners
from marless_server.store.runs import Runs
from marless_server.web.app import application
from marless_server.web.connections import MOST_CONNECTIONS, BoundedConnection
from marless_server.web.resources import Lab

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_KEEP_ALIVE_S, _HEADER_BYTES, _BACKLOG, _RETENTION_S = 5, 1 << 14, 128, 600.0


@dataclass(frozen=True)
class Settings:
    """The settings of a server.

    Attributes:
        data: folder of the server's file, key and runs
        slots: worker processes
        most: runs that train at once
        host: address to listen on
        port: its port. 0: any free one
        names: other values of the header Host, such as lab.example.org:443 of a proxy
        tls: files of a certificate with its chain and of its private key (PEM), for https
        unencrypted: whether it may listen where other machines reach it, although it has no TLS
        memory_mb: memory of all workers together, in MB. 0: no limit
        gpus: learners that compute on a GPU at once
    """

    data: Path
    slots: int
    most: int
    host: str
    port: int
    names: Collection[str] = ()
    tls: tuple[Path, Path] | None = None
    unencrypted: bool = False
    memory_mb: float = 0.0
    gpus: int = 0


@contextmanager
def stored(data: Path) -> Iterator[tuple[Database, Owners]]:
    """Open the folder of a server, which is made where there is none. Raises `StorageFault`."""
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    database = Database(data / FILE)
    try:
        yield database, Owners(database, data)
    finally:
        database.close()


def serve(settings: Settings, stopping: Signals, announce: Callable[[str], None]) -> None:
    """Serve until `stopping`, and hand the address to `announce` when it answers. Raises `UserError` for a folder or an
    address that is in use, and `StorageFault`."""
    if settings.host not in _LOOPBACK and not settings.tls and not settings.unencrypted:
        raise UserError(
            f"--address {settings.host}: other machines would send tokens unencrypted. Pass --tls-cert and --tls-key,"
            " put a proxy with TLS in front of 127.0.0.1 (and --host its name), or pass --allow-unencrypted"
        )
    if settings.tls:
        _require_certificate(*settings.tls)
    with (
        stored(settings.data) as (database, owners),
        RunFolder(settings.data).driving(),
        closing(_listener(settings)) as listener,
    ):
        runs, claims, root = Runs(database), ArchiveClaims(), settings.data / "runs"
        root.mkdir(mode=0o700, exist_ok=True)
        remove_leftovers(root)
        runs.queue_again()
        board = Board(settings.slots, settings.most, settings.gpus)
        queue = Queue(runs, owners, board)
        lab = Lab(owners, runs, queue, board, claims, root)
        _forget_secrets()
        with _pool(settings) as pool, _answers(lab, settings, listener), _retention(lab):
            announce(f"http{'s' if settings.tls else ''}://{_host(settings.host)}:{listener.getsockname()[1]}")
            PoolDriver(queue, board, root, pool, claims, stopping).drive()


def _require_certificate(certificate: Path, key: Path) -> None:
    """Raise `UserError` for files that TLS cannot use."""
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key, _no_password)
    except (OSError, ValueError) as error:  # an `ssl.SSLError` is an `OSError`
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UserError(f"--tls-cert {certificate}, --tls-key {key}: {reason}") from error


def _no_password() -> str:
    raise ValueError("the key has a password. Store it without one, readable by this user only")


def _forget_secrets() -> None:
    """Remove secrets from the environment, which workers inherit. A token of a service goes to this service alone."""
    for name in [name for name in os.environ if is_secret(name) and not is_token(name)]:
        del os.environ[name]


def _pool(settings: Settings) -> TaskPool:
    gpus = {GPUS: float(settings.gpus)} if settings.gpus else {}
    capacity, logs = Capacity(settings.slots, cores(), others=gpus), settings.data / "workers"
    modules = [*FUNCTION_MODULES.values(), MODULES["native"]]
    workers = local_workers(settings.slots, modules, logs, settings.memory_mb / settings.slots)
    return TaskPool(capacity, FUNCTION_MODULES, logs, workers)


def _listener(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise UserError(f"--address {settings.host}:{settings.port}: {error.strerror or error}") from error


@contextmanager
def _answers(lab: Lab, settings: Settings, listener: socket.socket) -> Iterator[None]:
    """Within the block another thread answers requests."""
    port = listener.getsockname()[1]
    names = {settings.host, *(_LOOPBACK if settings.host in _LOOPBACK else ())}
    hosts = [*(f"{_host(name)}:{port}" for name in names), *(name.lower() for name in settings.names)]
    certificate, key = settings.tls or (None, None)
    config = uvicorn.Config(
        application(lab, hosts),
        ssl_certfile=certificate,
        ssl_keyfile=key,
        http=BoundedConnection,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_KEEP_ALIVE_S,
        h11_max_incomplete_event_size=_HEADER_BYTES,
    )
    # The first request would load these modules otherwise.
    anyio.run(anyio.sleep, 0)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), name="requests", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def _retention(lab: Lab) -> Iterator[None]:
    """Within the block another thread deletes old runs by the `keep_days` of each owner."""
    end = threading.Event()

    def _delete() -> None:
        while not end.is_set():
            try:
                delete_expired(lab.runs, lab.claims, lab.root, lab.owners.all(), datetime.now(UTC))
            except (OSError, StorageFault) as error:
                note(f"old runs cannot be deleted: {one_line(error)}")
            end.wait(_RETENTION_S)

    thread = threading.Thread(target=_delete, name="retention", daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def _host(name: str) -> str:
    return f"[{name}]" if ":" in name else name
