"""Training and resuming from Python: the same functions that the commands call."""

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from coordinator.config.loading import convert, read_toml
from coordinator.config.schema import ConfigError, RunConfig
from coordinator.errors import USER_ERROR, Ending, UserError
from infra.local.own_process import cores
from marless.backends import registry
from marless.run import Run
from marless.runs import training
from marless.runs.drive_settings import DriveSettings, RunLocation
from marless.runs.folder import RunFolder
from marless.runs.integrity.origin import require_trust
from marless.runs.view import View

__all__ = ["RunFailed", "configuration", "overrides", "playable", "resume", "train"]


class RunFailed(Exception):
    """A run began and failed; `run` is what there is of it."""

    def __init__(self, message: str, run: Run) -> None:
        super().__init__(message)
        self.run = run


def configuration(config: str | os.PathLike[str] | Mapping[str, Any] | None, settings: Mapping[str, Any]) -> RunConfig:
    """The configuration of a file or a mapping with `settings` over it; raises `ConfigError`."""
    if config is None or isinstance(config, Mapping):
        document, where = dict(config or {}), "the configuration"
    else:
        document, where = read_toml(Path(config)), os.fspath(config)
    return convert(_merged(document, settings), where)


def train(
    config: str | os.PathLike[str] | Mapping[str, Any] | None,
    settings: Mapping[str, Any],
    backend: str,
    workers: int | None,
    run: str | None,
    quiet: bool,
) -> Run:
    """See `marless.train`."""
    location = RunLocation(registry.backend(backend))
    folder, ending = training.train(configuration(config, settings), location, _drive(workers, quiet), run)
    return _ended(folder, ending)


def resume(
    run: str | os.PathLike[str] | Run, settings: Mapping[str, Any], workers: int | None, quiet: bool, trust: bool
) -> Run:
    """See `marless.resume`."""
    folder = playable(run, trust)
    return _ended(folder, training.resume(folder, list(overrides(settings)), _drive(workers, quiet)))


def playable(run: str | os.PathLike[str] | Run, trust: bool) -> RunFolder:
    """The folder of a run that is to be played; raises `UserError` where it may run code that nobody trusts."""
    folder = RunFolder.find(os.fspath(run.path if isinstance(run, Run) else run))
    require_trust(folder, trust, "pass trust=True")
    return folder


def _drive(workers: int | None, quiet: bool) -> DriveSettings:
    return DriveSettings(workers or cores(), View if quiet else _view, time.monotonic())


def _view() -> View:
    from marless.views import choose_view

    return choose_view(json=False)


def _ended(folder: RunFolder, ending: Ending) -> Run:
    """The run, unless it came to nothing or failed."""
    if not ending.kept:
        raise UserError(ending.line)
    run = Run(folder.path)
    if ending.code == USER_ERROR or (ending.code and run.summary.status == "failed"):
        raise RunFailed(ending.line, run)
    return run


def _merged(document: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """`settings` over `document`, table by table."""
    merged = dict(document)
    for key, value in settings.items():
        below = merged.get(key)
        merged[key] = _merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged


def overrides(settings: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Nested settings as the command line's ``key=value``; raises `ConfigError`."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from overrides(value, f"{prefix}{key}.")
        elif isinstance(value, int | float | str | list):
            yield f"{prefix}{key}={value}"
        else:
            raise ConfigError(f"{prefix}{key}: {value!r} is no number, text or list")
