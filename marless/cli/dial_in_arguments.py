"""Arguments of commands whose tasks are served by machines that dial in, and of the workers there."""

from argparse import ArgumentParser, Namespace, _ArgumentGroup
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from marless.backends import registry
from marless.backends.base import WorkerDemand, WorkerListener
from marless.coordinator.config.schema import RunConfig
from marless.coordinator.errors import UserError


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


def serving(options: Namespace, demand: WorkerDemand) -> AbstractContextManager[WorkerListener | None]:
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
def listening(
    options: Namespace, runs: Iterable[RunConfig], more_follow: bool = False
) -> Iterator[WorkerListener | None]:
    """Within the block workers that can serve the runs, and those that may follow, may dial in, if the command is to
    listen; raises `UserError` where it cannot."""
    if options.listen is None:
        _refuse_unless_listening(options)
        yield None
        return
    from marless.backends.badge import driver_badge
    from marless.backends.dial_in import DriverOptions, dial_in

    driver = DriverOptions(options.listen, options.token_file, options.tls_cert, options.tls_key, options.any_processor)
    with dial_in().listening(driver, driver_badge(runs, more_follow)) as listener:
        yield listener


def _refuse_unless_listening(options: Namespace) -> None:
    for name in ("token_file", "tls_cert", "tls_key", "any_processor"):
        if getattr(options, name) and not options.listen:
            raise UserError(f"--{name.replace('_', '-')} needs --listen HOST:PORT")
