"""The logs of a run: loggers get points from its journal and its files."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from marless.coordinator.config.nested_tables import flatten
from marless.coordinator.config.schema import RunConfig
from marless.coordinator.core.state import RoundLine
from marless.coordinator.errors import UserError, one_line
from marless.functions.text.redaction import redact_settings
from marless.loggers import registry
from marless.loggers.background import Background
from marless.loggers.base import LoggedRun, Point
from marless.loggers.scalars import evaluation_point, points
from marless.loggers.valid_names import renaming_text
from marless.program import program_name
from marless.runs.folder import CURVE, POLICIES, REPLAY, Identity, RunFolder, sha256
from marless.runs.summary import Summary

# How many seconds the end of a run waits for unfinished writes, such as an upload.
PATIENCE_S = 60.0
# And how long a command waits that fails or is stopped at once.
LEAST_PATIENCE_S = 1.0


class RunLog:
    """Logs a run in the background, by `log.to`. A failure is reported once, by `remark`, and has no other effect."""

    def __init__(self, folder: RunFolder, identity: Identity, config: RunConfig, remark: Callable[[str], None]) -> None:
        self._folder, self._identity, self._config, self._remark = folder, identity, config, remark
        self._logs: dict[str, Background] = {}
        # Problems by logger.
        self.failed: dict[str, str] = {}

    def begin(self) -> None:
        """Open the logs. The caller then adds the rounds so far, from the first on."""
        if names := dict.fromkeys(self._config.log.to):
            run = logged_run(self._folder, self._identity, self._config)
            self._logs = {name: Background(name, run) for name in names}

    def add(self, lines: Iterable[RoundLine], agents: Callable[[], Sequence[str]]) -> None:
        """Log finished rounds. `agents` gives the names of the agents."""
        for line in lines if self._logs else ():
            self._write(points(line, agents()))
        self._report_problems()

    def finish(self, summary: Summary, wait: bool = True) -> None:
        """Log the results at the end of the command. With `wait` it ends all logs and waits for them."""
        self._write(final_points(summary))
        for log in self._logs.values():
            log.finish(artefacts(self._folder), summary.status)
        if wait:
            self.close(PATIENCE_S)

    def stop(self) -> None:
        """Stop logging. Call `close` next, which does not wait once all is `written`."""
        for log in self._logs.values():
            log.stop()

    @property
    def written(self) -> bool:
        """True if all was written, or logging has stopped."""
        return all(log.is_done for log in self._logs.values())

    def close(self, patience_s: float = LEAST_PATIENCE_S) -> None:
        """End all logs. Repeated calls are allowed."""
        for log in self._logs.values():
            log.close(patience_s)
        self._report_problems()
        self._logs = {}

    def _write(self, new: Sequence[Point]) -> None:
        for log in self._logs.values():
            log.write(new)

    def _report_problems(self) -> None:
        for name, log in self._logs.items():
            if new_names := log.take_replacements():
                self._remark(renaming_text(name, new_names))
            if problem := log.problem():
                self.failed[name] = problem
                again = f"{program_name()} log {self._folder.argument} --to {name}"
                self._remark(f"no log in {name} any more: {problem}; training goes on, and afterwards: {again}")


def write_log(
    name: str,
    folder: RunFolder,
    identity: Identity,
    config: RunConfig,
    lines: Sequence[RoundLine],
    agents: Sequence[str],
    summary: Summary | None,
) -> tuple[str, Mapping[str, str]]:
    """Log all rounds of a run so far. Returns the place, and a logger's replacements of our metric names. Raises
    `UserError` when the logger fails."""
    logger = registry.logger(name)
    try:
        writer = logger.open(logged_run(folder, identity, config))
        try:
            final = final_points(summary) if summary else []
            # A run that continues was evaluated at an outdated end.
            last = [point for point in final if point.env_steps >= lines[-1].env_steps]
            for point in (*(point for line in lines for point in points(line, agents)), *last):
                writer.write(point)
            writer.finish(artefacts(folder), summary.status if summary else "running")
            where, renamed_names = writer.where, getattr(writer, "renamed", {})
        finally:
            writer.close()
    # A logger's package may raise anything.
    except (Exception, SystemExit) as error:
        raise UserError(f"{folder.name} could not be logged in {name}: {one_line(error)}") from error
    return where, renamed_names


def logged_run(folder: RunFolder, identity: Identity, config: RunConfig) -> LoggedRun:
    """Return the properties of a run that loggers get. A run in the folder of a study is of its group."""
    parents = folder.path.resolve().parents
    study = parents[1] if parents[0].name == "runs" and (parents[1] / "study.json").is_file() else None
    unique = "\n".join([identity.run, identity.created, identity.code_sha256, *identity.configs[:1]])
    return LoggedRun(
        name=folder.path.resolve().name,
        id=sha256(unique.encode())[:16],
        folder=folder.path,
        created=datetime.fromisoformat(identity.created).timestamp(),
        group=study.name if study else "",
        # An option of a task may be a key, of this machine's environment or by its name.
        settings=redact_settings(flatten(msgspec.to_builtins(config))),
    )


def final_points(summary: Summary) -> list[Point]:
    """Return the point of the evaluations that end a run, if there are any."""
    if summary.final_return is None:
        return []
    absolute = summary.absolute_return
    return [
        evaluation_point(
            summary.rounds,
            summary.env_steps,
            summary.train_seconds,
            summary.final_return.mean,
            summary.final_sides,
            summary.final_env_metrics,
            absolute.mean if absolute else None,
        )
    ]


def artefacts(folder: RunFolder) -> list[Path]:
    """The run's files that loggers keep: its final policies and its pictures, as far as there are any."""
    return [path for path in (folder.path / name for name in (POLICIES, CURVE, REPLAY)) if path.is_file()]
