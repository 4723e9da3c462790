"""Arguments that several commands share."""

import math
import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from pathlib import Path

from marless.backends import registry
from marless.backends.base import TENANT, Backend, WorkerListener
from marless.cli.mistakes import setting_of, unknown_word
from marless.coordinator.errors import UserError
from marless.functions.setting_limits import MOST_AGENTS
from marless.infra.local.available_cores import cores
from marless.reports.evaluations import METRIC
from marless.runs.drive_settings import DriveSettings
from marless.runs.folder import RunFolder
from marless.runs.run_store import LATEST
from marless.runs.view import View

# Episodes, slots, rounds: a command does something with each of so many within a day.
_MOST_COUNT = 1_000_000

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

_TENANT = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")


def configuration(parser: ArgumentParser) -> None:
    """A TOML file and ``key=value`` settings, in any order."""
    parser.add_argument(
        "settings",
        nargs="*",
        metavar="FILE.toml | TASK | ALGORITHM | key=value",
        help="a configuration file, a task, an algorithm, and settings that override the file",
    )


def run(parser: ArgumentParser) -> None:
    """Add the run of the command."""
    text = f"name of a run under runs/, or path of its folder (default: {LATEST}, the newest)"
    parser.add_argument("run", metavar="RUN", nargs="?", default=LATEST, help=text)


def run_and_settings(options: Namespace) -> tuple[str, list[str]]:
    """The run and the ``KEY=VALUE`` settings of a command that takes both, where the run may be left out."""
    if "=" in options.run and not Path(options.run).is_dir():
        return LATEST, [options.run, *options.settings]
    return options.run, options.settings


def team_size(parser: ArgumentParser) -> None:
    """Add the number of agents."""
    agents = within(1, MOST_AGENTS)
    parser.add_argument("--agents", type=agents, metavar="N", help="number of agents (default: like in training)")


def trust(parser: ArgumentParser) -> None:
    """Add the permission to run code that a foreign run's configuration names."""
    parser.add_argument(
        "--trust", action="store_true", help="trust a run from elsewhere that names code, now and later"
    )


def workers(parser: ArgumentParser) -> None:
    """Add the number of worker processes."""
    parser.add_argument(
        "--workers",
        type=count,
        default=cores(),
        metavar="N",
        help="number of worker processes (default: number of cores, %(default)s here)",
    )


def backend(parser: ArgumentParser) -> None:
    """The back-end of a new run."""
    _backend(parser, registry.names(), registry.DEFAULT, "where functions run (default: %(default)s)")


def chosen_backend(options: Namespace) -> Backend:
    """Return the back-end of a command with `backend` and `machines`. Raises `UserError` if it is unusable."""
    return registry.backend(options.backend or registry.DEFAULT, options.machines.head)


def detach(parser: ArgumentParser) -> None:
    """Add the option that lets the cloud drive the run."""
    parser.add_argument("--detach", action="store_true", help="let the cloud drive the run and return at once")


def elsewhere(parser: ArgumentParser) -> None:
    """The deployment to search for a run that has no folder on this machine."""
    _backend(parser, registry.remote_names(), None, "back-end of a run that was started on another machine")


def remote_backend(parser: ArgumentParser) -> None:
    """The deployment that a command creates or deletes."""
    _backend(parser, registry.remote_names(), registry.DEFAULT_REMOTE, "back-end (default: %(default)s)")


def _backend(parser: ArgumentParser, choices: list[str], default: str | None, text: str) -> None:
    parser.add_argument("--backend", choices=choices, default=default, help=text)
    deployment(parser)


def deployment(parser: ArgumentParser) -> None:
    """Add tenant and region of a deployment. Runs on this machine ignore them."""
    parser.add_argument(
        "--tenant", type=_tenant, default=TENANT, metavar="NAME", help="tenant of the deployment (default: %(default)s)"
    )
    parser.add_argument("--region", metavar="REGION", help="AWS region (default: region of the AWS configuration)")


def _tenant(text: str) -> str:
    if not _TENANT.fullmatch(text):
        raise ArgumentTypeError(
            f"{text!r} is not a tenant: at most 31 lower-case letters, digits and '-', not '-' first"
        )
    return text


def drive(options: Namespace, listener: WorkerListener | None = None) -> DriveSettings:
    """Return the settings of a command with `workers`, `detach` and `json`. A `listener` brings workers that dial
    in."""

    def view() -> View:
        from marless.views import choose_view

        return choose_view(options.json)

    def on_folder(folder: RunFolder) -> None:
        options.folder = folder.path

    return DriveSettings(options.workers, view, options.started, options.detach, on_folder, listener)


def json(parser: ArgumentParser) -> None:
    """JSON output."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of text, one object per line")


def compared(parser: ArgumentParser) -> None:
    """Add the keys that form arms of compared runs, and the quantities that are compared and equal."""
    from marless.comparison.run_evaluations import AXES

    parser.add_argument(
        "--by",
        type=listed("list of keys such as algorithm.name,algorithm.lr"),
        default=[],
        metavar="KEY,KEY",
        help="keys of config.toml that tell arms apart (default: the settings that a study lists, or all keys that"
        " differ, but not seed, task.name and task.agents)",
    )
    parser.add_argument(
        "--metric",
        type=str.lower,
        default=METRIC,
        metavar="NAME",
        help="a metric of the environment to compare in place of the return, such as win",
    )
    parser.add_argument(
        "--at",
        choices=AXES,
        default="steps",
        help="quantity that is equal when runs are compared (default: %(default)s)",
    )


def listed(what: str) -> Callable[[str], list[str]]:
    """Names between commas. The error says that a text is not `what`."""

    def _names(text: str) -> list[str]:
        parts = [part.strip() for part in text.split(",")]
        if not all(parts):
            raise ArgumentTypeError(f"{text!r} is not a {what}")
        return parts

    return _names


def number(what: str, is_valid: Callable[[float], bool]) -> Callable[[str], float]:
    """A number that `is_valid`. The error says that a text is not `what`."""

    def _value(text: str) -> float:
        try:
            parsed = float(text)
        except ValueError:
            parsed = math.nan
        if not is_valid(parsed):
            raise ArgumentTypeError(f"{text!r} is not {what}")
        return parsed

    return _value


def duration(text: str) -> float:
    """Seconds of a time such as ``10m``."""
    match = re.fullmatch(r"(\d+)([smhd])", text)
    if match is None or int(match[1]) == 0:
        raise ArgumentTypeError(f"{text!r} is not a time such as 30s, 10m, 2h or 1d")
    return float(int(match[1]) * _UNITS_S[match[2]])


def count(text: str) -> int:
    """A positive whole number, at most `_MOST_COUNT`."""
    if not text.isdecimal() or not text.strip("0"):
        raise ArgumentTypeError(f"{text!r} is not a positive whole number")
    return within(1, _MOST_COUNT)(text)


def within(least: int, most: int) -> Callable[[str], int]:
    """A whole number in a range."""

    def number(text: str) -> int:
        # `int` takes no text of thousands of digits.
        if not text.isdecimal() or len(text) > len(str(most)) or not least <= int(text) <= most:
            raise ArgumentTypeError(f"{text[:40]!r} is not a whole number from {least:,} to {most:,}")
        return int(text)

    return number


def split(settings: list[str]) -> tuple[Path | None, list[str]]:
    """Return the configuration file, if any, and the settings. A task or an algorithm may be named alone."""
    # Without a file of this name, the word is a setting.
    names = {
        text: "" if Path(text).suffix == ".toml" or Path(text).exists() else setting_of(text)
        for text in settings
        if "=" not in text
    }
    files = [text for text, setting in names.items() if not setting]
    if len(files) > 1:
        raise UserError(f"{files[1]!r} is not key=value, such as seed=3; one file is allowed, {files[0]}")
    if files and Path(files[0]).suffix != ".toml" and not Path(files[0]).exists():
        raise UserError(unknown_word(files[0]))
    pairs = [*filter(None, names.values()), *(text for text in settings if "=" in text)]
    return Path(files[0]) if files else None, pairs
