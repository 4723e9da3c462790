"""Training and resuming from Python: what the commands do, as functions."""

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
from marless.runs import train_and_resume
from marless.runs.drive_settings import DriveSettings, RunLocation
from marless.runs.folder import RunFolder
from marless.runs.integrity.trusted_origin import require_trust
from marless.runs.view import View

__all__ = ["Config", "RunFailed", "configuration", "overrides", "playable", "resume", "train"]

Config = str | os.PathLike[str] | Mapping[str, Any] | None
"""The path of a TOML file, or its tables; the defaults without one."""


class RunFailed(Exception):
    """A run began and failed; `run` is what there is of it."""

    def __init__(self, message: str, run: Run) -> None:
        super().__init__(message)
        self.run = run


def configuration(config: Config, settings: Mapping[str, Any]) -> RunConfig:
    """The configuration of a file or a mapping with `settings` over it; raises `ConfigError`."""
    if config is None or isinstance(config, Mapping):
        document, where = dict(config or {}), "the configuration"
    else:
        document, where = read_toml(Path(config)), os.fspath(config)
    return convert(_merge(document, settings), where)


def train(
    config: Config = None,
    *,
    backend: str = "local",
    workers: int | None = None,
    run: str | None = None,
    quiet: bool = False,
    **settings: Any,
) -> Run:
    """Trains a new run under ``runs/`` of the current folder and returns it when it has ended.

    Args:
        config: the path of a TOML file or a mapping of its tables; the defaults without one.
        backend: where functions run: ``local``, ``inline``, ``emulated``, ``aws``, or a plug-in's.
        workers: worker processes; one per core without it.
        run: the run's name; made of task, algorithm, seed and time without it.
        quiet: prints nothing.
        **settings: keys over those of `config`; tables as mappings.

    Raises:
        ConfigError: the configuration cannot be used; the message is one line.
        UserError: nothing could be trained; the message is one line that says what to do.
        RunFailed: the run began and failed; `resume` goes on where it stopped.

    A run that reached a cap, or that Ctrl-C stopped in order, is returned; see `Run.summary` for its status.

    Examples:
        >>> marless.train("my.toml", seed=7, stop={"rounds": 4})
        Run('runs/simple_spread-mappo-s7-20261123-101500')
    """
    location = RunLocation(registry.backend(backend))
    folder, ending = train_and_resume.train(configuration(config, settings), location, _drive(workers, quiet), run)
    return _run_of(folder, ending)


def resume(
    run: str | os.PathLike[str],
    *,
    workers: int | None = None,
    quiet: bool = False,
    trust: bool = False,
    **settings: Any,
) -> Run:
    """Goes on with a run that was stopped, was killed or failed, or that may train on under higher limits.

    `settings` may hold `stop` and the functions' ``timeout_s``. `trust` is as in `evaluate`. Raises as `train`.

    Examples:
        >>> marless.resume("runs/latest", stop={"rounds": 600})
        Run('runs/simple_spread-mappo-s1-20261123-101500')
    """
    folder = playable(run, trust)
    return _run_of(folder, train_and_resume.resume(folder, list(overrides(settings)), _drive(workers, quiet)))


def playable(run: str | os.PathLike[str], trust: bool) -> RunFolder:
    """The folder of a run that is to be played; raises `UserError` where it may run code that nobody trusts."""
    folder = RunFolder.find(os.fspath(run))
    require_trust(folder, trust, "pass trust=True")
    return folder


def _drive(workers: int | None, quiet: bool) -> DriveSettings:
    return DriveSettings(workers or cores(), View if quiet else _view, time.monotonic())


def _view() -> View:
    from marless.views import choose_view

    return choose_view(json=False)


def _run_of(folder: RunFolder, ending: Ending) -> Run:
    """The run, unless it came to nothing or failed."""
    if not ending.keeps_folder:
        raise UserError(ending.line)
    run = Run(folder.path)
    if ending.code == USER_ERROR or (ending.code and run.summary.status == "failed"):
        raise RunFailed(ending.line, run)
    return run


def _merge(document: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """`settings` over `document`, table by table."""
    document_ = dict(document)
    for key, value in settings.items():
        below = document_.get(key)
        document_[key] = _merge(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return document_


def overrides(settings: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Nested settings as the command line's ``key=value``; raises `ConfigError`."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from overrides(value, f"{prefix}{key}.")
        elif isinstance(value, int | float | str | list):
            yield f"{prefix}{key}={value}"
        else:
            raise ConfigError(f"{prefix}{key}: {value!r} is no number, text or list")
