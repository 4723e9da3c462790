"""Arguments of commands whose tasks are served by machines that dial in, and of the workers there."""

import os
import socket
from argparse import ArgumentParser, Namespace, _ArgumentGroup
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from marless.backends import registry
from marless.backends.base import WorkerDemand
from marless.coordinator.config.schema import RunConfig
from marless.coordinator.errors import UserError
from marless.output import note
from marless.program import program_name

if TYPE_CHECKING:
    import ssl

    from marless.infra.remote.handshake import Badge
    from marless.infra.remote.listener import Listener


def listen(parser: ArgumentParser) -> None:
    """Whether workers dial in, and how they and the driver know each other."""
    group = parser.add_argument_group("workers of other machines")
    group.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="let `marless worker` processes of other machines run the functions, in place of this machine",
    )
    group.add_argument(
        "--address",
        metavar="HOST:PORT",
        help="head of the Ray cluster (default: RAY_ADDRESS, or the head on this machine)",
    )
    token_file(group)
    group.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate that encrypts connections")
    group.add_argument("--tls-key", type=Path, metavar="FILE", help="private key of the certificate")
    group.add_argument(
        "--any-processor",
        action="store_true",
        help="take workers even if their processors round differently from this one",
    )


def token_file(parser: ArgumentParser | _ArgumentGroup) -> None:
    """Where the token is that a driver and its workers share."""
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="token that driver and workers share (default: MARLESS_TOKEN, or ~/.config/marless/token)",
    )


def serving(options: Namespace, demand: WorkerDemand) -> "AbstractContextManager[Listener | None]":
    """Within the block workers that dial in serve runs of this machine, if the command is to listen or names a cluster,
    which is asked for this `demand`; raises `UserError` where they cannot."""
    is_here = options.backend in (None, registry.DEFAULT)
    if is_here and not options.address:
        return listening(options, demand.runs, demand.more_follow)
    _refuse_unless_listening(options)
    if options.listen and not is_here:
        raise UserError(
            f"--listen is for workers that somebody starts, and --backend {options.backend} starts them; give one"
        )
    return registry.listening(options.backend, options.address, demand)


@contextmanager
def listening(options: Namespace, runs: Iterable[RunConfig], more_follow: bool = False) -> "Iterator[Listener | None]":
    """Within the block workers that can serve the runs, and those that may follow, may dial in, if the command is to
    listen; raises `UserError` where it cannot."""
    if options.listen is None:
        _refuse_unless_listening(options)
        yield None
        return
    from marless.backends.badge import driver_badge

    with remote_errors():
        listener = _listener(options, driver_badge(runs, more_follow))
    try:
        yield listener
    finally:
        listener.close()


def _refuse_unless_listening(options: Namespace) -> None:
    for name in ("token_file", "tls_cert", "tls_key", "any_processor"):
        if getattr(options, name) and not options.listen:
            raise UserError(f"--{name.replace('_', '-')} needs --listen HOST:PORT")


def token(path: Path | None, make: bool) -> bytes:
    """The token; where nobody names one, it is in a file of the user, which the driver may `make`. Raises
    `DialInError`."""
    from marless.infra.remote import tokens

    text = os.environ.get(tokens.VARIABLE)
    if path is None and text is not None:
        return tokens.token_in(text, tokens.VARIABLE)
    path = path or tokens.token_file(os.environ)
    if make:
        tokens.make_token(path)
        note(f"the token is in {path}; workers need the same file, or its text in {tokens.VARIABLE}")
    return tokens.read_token(path)


@contextmanager
def remote_errors() -> Iterator[None]:
    """What goes wrong between driver and workers is the user's to mend: raises `UserError`."""
    from marless.infra.remote.faults import DialInError

    try:
        yield
    except DialInError as error:
        raise UserError(str(error)) from None


def _listener(options: Namespace, badge: "Badge") -> "Listener":
    from marless.infra.remote.addresses import address_of
    from marless.infra.remote.listener import Listener

    address, tls = address_of(options.listen), _tls(options)
    secret = token(options.token_file, make=True)
    listener = Listener(address, secret, badge, tls, options.any_processor)
    host = listener.address.host
    here = socket.gethostname() if host in ("", "0.0.0.0", "::") else host
    command = f"{program_name()} worker {listener.address._replace(host=here)}"
    note(f"listens on {listener.address}; on other machines: {command}{' --tls-ca FILE' if tls else ''}")
    if tls is None:
        note("connections are not encrypted: who reads the network reads the run; see --tls-cert")
    return listener


def _tls(options: Namespace) -> "ssl.SSLContext | None":
    if bool(options.tls_cert) != bool(options.tls_key):
        raise UserError("--tls-cert and --tls-key go together")
    if not options.tls_cert:
        return None
    from marless.infra.remote import encryption

    return encryption.of_driver(options.tls_cert, options.tls_key)
