"""Arguments of commands that use workers on other machines, and of the workers there."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import msgspec

from marless.backends import registry
from marless.backends.base import WorkerDemand, WorkerListener
from marless.backends.dial_in import DriverOptions, dial_in
from marless.coordinator.config.loading import read_toml
from marless.coordinator.config.schema import ConfigError, RunConfig
from marless.coordinator.errors import UserError
from marless.functions.encoding import mismatch


def machines(parser: ArgumentParser) -> None:
    """Add the address for workers that dial in, and the credentials of driver and workers."""
    parser.add_argument(
        "--machines",
        default=DriverOptions(),
        metavar="HOST:PORT|FILE",
        type=_profile,
        help="where `marless worker` of other machines dial in, or a file with listen, head (of Ray), token_file,"
        " tls_cert, tls_key and any_processor",
    )


def _profile(text: str) -> DriverOptions:
    """Return the profile of an address, or of a TOML file (paths relative to its folder). Raises `ConfigError`."""
    path = Path(text)
    if path.suffix != ".toml":
        return DriverOptions(listen=text)
    try:
        return msgspec.convert(read_toml(path), DriverOptions, dec_hook=lambda kind, name: kind(path.parent, name))
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {mismatch(error)}") from error


def serving(options: Namespace, demand: WorkerDemand) -> AbstractContextManager[WorkerListener | None]:
    """Within the block, let workers that dial in serve runs of this machine, if the command listens or names a cluster.
    The cluster is asked for this `demand`. Raises `UserError` if they cannot."""
    is_here = options.backend in (None, registry.DEFAULT)
    if is_here and not options.machines.head:
        return listening(options, demand.runs, demand.more_follow)
    _refuse_unless_listening(options.machines)
    if options.machines.listen and not is_here:
        raise UserError(
            f"--machines is for workers that somebody starts, and --backend {options.backend} starts them; give one"
        )
    return registry.listening(options.backend, options.machines.head, demand)


@contextmanager
def listening(
    options: Namespace, runs: Iterable[RunConfig], more_follow: bool = False
) -> Iterator[WorkerListener | None]:
    """Within the block, workers may dial in that can serve the runs and later runs, if the command listens. Raises
    `UserError` if it cannot."""
    if options.machines.listen is None:
        _refuse_unless_listening(options.machines)
        yield None
        return
    from marless.backends.badge import driver_badge

    with dial_in().listening(options.machines, driver_badge(runs, more_follow)) as listener:
        yield listener


def _refuse_unless_listening(profile: DriverOptions) -> None:
    for name in ("token_file", "tls_cert", "tls_key", "any_processor"):
        if getattr(profile, name) and not profile.listen:
            raise UserError(f"{name} needs `listen`, the HOST:PORT where workers dial in")
