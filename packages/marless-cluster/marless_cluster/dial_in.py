"""Driver and workers on different machines: opens a driver's listener, and serves a driver."""

import logging
import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from marless.backends.badge import Badge, badge
from marless.backends.dial_in import DriverOptions, WorkerOptions
from marless.coordinator.errors import UserError
from marless.program import program_name
from marless.signals import handle_signals
from marless_cluster.remote import encryption, tokens
from marless_cluster.remote.addresses import address_of
from marless_cluster.remote.dial_in_workers import PoolListener
from marless_cluster.remote.faults import DialInError
from marless_cluster.remote.worker_agent import WorkerAgent

_LOGGER = logging.getLogger("marless.cluster")


@contextmanager
def listening(options: DriverOptions, badge: Badge) -> Iterator[PoolListener]:
    """See `DialIn.listening`."""
    with _user_errors():
        listener = _listener(options, badge)
    try:
        yield listener
    finally:
        listener.close()


def serve(options: WorkerOptions) -> bool:
    """See `DialIn.serve`."""
    with _user_errors():
        address = address_of(options.address)
        tls = encryption.of_worker(options.tls_ca) if options.tls_ca else None
        token = _token(options.token_file, make=False)
        agent = WorkerAgent(address, options.slots, token, badge(), _LOGGER.info, options.patience_s, tls)
        with handle_signals(lambda number, frame: agent.stop()):
            return agent.run()


def _token(path: Path | None, make: bool) -> bytes:
    """Return the token. Without a path it is in a file of the user, which the driver may `make`. Raises
    `DialInError`."""
    text = os.environ.get(tokens.VARIABLE)
    if path is None and text is not None:
        return tokens.token_in(text, tokens.VARIABLE)
    path = path or tokens.token_file(os.environ)
    if make:
        tokens.make_token(path)
        _LOGGER.info("the token is in %s; workers need the same file, or its text in %s", path, tokens.VARIABLE)
    return tokens.read_token(path)


@contextmanager
def _user_errors() -> Iterator[None]:
    """Raise faults between driver and workers as `UserError`, because the user can fix them."""
    try:
        yield
    except DialInError as error:
        raise UserError(str(error)) from None


def _listener(options: DriverOptions, badge: Badge) -> PoolListener:
    address, tls = address_of(options.listen or ""), _tls(options)
    secret = _token(options.token_file, make=True)
    listener = PoolListener(address, secret, badge, tls, options.any_processor)
    host = listener.address.host
    here = socket.gethostname() if host in ("", "0.0.0.0", "::") else host
    command = f"{program_name()} worker {listener.address._replace(host=here)}"
    _LOGGER.info("listens on %s; on other machines: %s%s", listener.address, command, " --tls-ca FILE" if tls else "")
    if tls is None:
        _LOGGER.warning("connections are not encrypted: others on the network can read; see `tls_cert` of --machines")
    return listener


def _tls(options: DriverOptions) -> ssl.SSLContext | None:
    if bool(options.tls_cert) != bool(options.tls_key):
        raise UserError("tls_cert and tls_key go together")
    return encryption.of_driver(options.tls_cert, options.tls_key) if options.tls_cert and options.tls_key else None
