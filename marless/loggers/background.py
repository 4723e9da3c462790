"""A log that is written next to the training, which never waits for it and outlives its failure."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

from marless.coordinator.errors import one_line
from marless.loggers import registry
from marless.loggers.base import LoggedRun, Point, Writer


class Background:
    """A thread that opens the log of `run` in the logger `name` and writes its input in order."""

    def __init__(self, name: str, run: LoggedRun) -> None:
        self._name, self._run = name, run
        self._tasks: SimpleQueue[Callable[[Writer], None] | None] = SimpleQueue()
        self._problem = ""
        self._replacements: Mapping[str, str] = {}
        self._told = False
        # A daemon, so that an unresponsive server cannot hold up the end of the process.
        self._thread = Thread(target=self._serve, name=f"log {name}", daemon=True)
        self._thread.start()

    def write(self, points: Sequence[Point]) -> None:
        """Logs the points, soon."""
        for point in points if self._thread.is_alive() else ():
            self._tasks.put(lambda writer, point=point: writer.write(point))  # type: ignore[misc]

    def finish(self, artefacts: Sequence[Path], status: str) -> None:
        """Logs the run's files, soon. See `Writer.finish`."""
        self._tasks.put(lambda writer: writer.finish(artefacts, status))

    def stop(self) -> None:
        """Ends the log. May be called twice."""
        self._tasks.put(None)

    @property
    def is_done(self) -> bool:
        """Return True if all was written, or writing has stopped."""
        return not self._thread.is_alive()

    def close(self, patience_s: float) -> None:
        """Returns once all is written, or after `patience_s`."""
        self.stop()
        self._thread.join(patience_s)
        if self._thread.is_alive():
            self._problem = f"it has not taken everything within {patience_s:.3g} s"

    def problem(self) -> str:
        """Return why nothing more is logged, '' if all is well. Every problem is reported once."""
        problem, self._problem = self._problem, ""
        return problem

    def take_replacements(self) -> Mapping[str, str]:
        """The names that the store has in the place of ours, given once, when there are some."""
        new_names = {} if self._told else self._replacements
        self._told = self._told or bool(new_names)
        return new_names

    def _serve(self) -> None:
        try:
            writer = registry.logger(self._name).open(self._run)
            try:
                while (task := self._tasks.get()) is not None:
                    task(writer)
                    self._replacements = self._replacements or getattr(writer, "renamed", {})
            finally:
                writer.close()
        # A package may even want to end the process.
        except (Exception, SystemExit) as error:
            self._problem = f"{type(error).__name__}: {one_line(error)}"
