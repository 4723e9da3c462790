"""Arguments that several commands share."""

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from coordinator.backends import registry
from coordinator.backends.base import TENANT
from coordinator.errors import UserError
from coordinator.runs.drive import Drive
from coordinator.runs.view import View
from infra.local.own_process import cores

_TENANT = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")


def configuration(parser: ArgumentParser) -> None:
    """A TOML file and settings, in any order with options."""
    parser.add_argument(
        "settings", nargs="*", metavar="FILE.toml | key=value", help="a configuration file, and settings over it"
    )


def run(parser: ArgumentParser, default: str | None = None) -> None:
    """The run meant."""
    text = "a run's name under runs/, the path of its folder, or latest"
    if default is None:
        parser.add_argument("run", metavar="RUN", help=text)
    else:
        parser.add_argument("run", metavar="RUN", nargs="?", default=default, help=f"{text} (default: {default})")


def workers(parser: ArgumentParser) -> None:
    """How many processes serve functions."""
    parser.add_argument(
        "--workers",
        type=count,
        default=cores(),
        metavar="N",
        help="worker processes (default: cores, %(default)s here)",
    )


def backend(parser: ArgumentParser) -> None:
    """Which back-end a new run gets; it keeps it."""
    parser.add_argument(
        "--backend",
        choices=registry.names(),
        default=registry.DEFAULT,
        help="where functions run (default: %(default)s)",
    )
    deployment(parser)


def detach(parser: ArgumentParser) -> None:
    """Whether this machine goes on being needed."""
    parser.add_argument("--detach", action="store_true", help="let the cloud drive the run and come back at once")


def elsewhere(parser: ArgumentParser) -> None:
    """Where to look for a run that has no folder on this machine."""
    parser.add_argument(
        "--backend", choices=registry.remote_names(), help="where to look for a run that was begun on another machine"
    )
    deployment(parser)


def remote_backend(parser: ArgumentParser) -> None:
    """Which deployment a command makes or removes."""
    parser.add_argument(
        "--backend",
        choices=registry.remote_names(),
        default=registry.DEFAULT_REMOTE,
        help="where (default: %(default)s)",
    )
    deployment(parser)


def deployment(parser: ArgumentParser) -> None:
    """Which deployment is meant; nothing of it matters to runs on this machine."""
    parser.add_argument(
        "--tenant", type=_tenant, default=TENANT, metavar="NAME", help="whose deployment (default: %(default)s)"
    )
    parser.add_argument("--region", metavar="REGION", help="AWS region (default: that of the AWS configuration)")


def _tenant(text: str) -> str:
    if not _TENANT.fullmatch(text):
        raise ArgumentTypeError(f"{text!r} is not a tenant: small letters, digits and '-', at most 31, not '-' first")
    return text


def drive(options: Namespace) -> Drive:
    """How a command with `workers`, `detach` and `json` drives a run."""

    def view() -> View:
        from coordinator.views import choose_view

        return choose_view(options.json)

    def on_folder(path: Path) -> None:
        options.folder = path

    return Drive(options.workers, view, options.started, options.detach, on_folder)


def json(parser: ArgumentParser) -> None:
    """Output for programs."""
    parser.add_argument("--json", action="store_true", help="JSON instead of text, one object per line")


def count(text: str) -> int:
    """A whole number from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def split(settings: list[str]) -> tuple[Path | None, list[str]]:
    """The file, if there is one, and the ``key=value`` settings."""
    files = [text for text in settings if "=" not in text]
    if len(files) > 1:
        raise UserError(f"{files[1]!r} is not key=value, such as seed=3; one configuration file is read, {files[0]}")
    return Path(files[0]) if files else None, [text for text in settings if "=" in text]
