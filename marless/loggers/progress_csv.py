"""progress.csv: a row for every number of environment steps, a column for every scalar."""

from collections.abc import Sequence
from pathlib import Path

from marless.loggers.base import LoggedRun, Logger, Point
from marless.reports.atomic_files import replace
from marless.reports.text import csv_text

FILE = "progress.csv"


class _ProgressFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._columns = ["env_steps"]
        self._rows: list[dict[str, float]] = []
        self._last_at = 0
        self._rewrite()

    @property
    def where(self) -> str:
        return str(self._path)

    def write(self, point: Point) -> None:
        """An evaluation belongs to the row of the round that trained the policies it played."""
        if not self._rows or self._rows[-1]["env_steps"] != point.env_steps:
            self._last_at = self._path.stat().st_size
            self._rows.append({"env_steps": point.env_steps})
        self._rows[-1].update(point.scalars)
        new = [name for name in point.scalars if name not in self._columns]
        self._columns += new
        if new:
            self._rewrite()
        else:
            self._write_last_row()

    def finish(self, artefacts: Sequence[Path], status: str) -> None:
        """They are in the same folder."""

    def close(self) -> None:
        """Every row is written at once."""

    def _rewrite(self) -> None:
        *earlier, last = [self._columns, *map(self._values, self._rows)]
        begin = csv_text(earlier).encode()
        self._last_at = len(begin)
        replace(self._path, begin + csv_text([last]).encode())

    def _write_last_row(self) -> None:
        with self._path.open("r+b") as file:
            file.seek(self._last_at)
            file.write(csv_text([self._values(self._rows[-1])]).encode())
            file.truncate()

    def _values(self, row: dict[str, float]) -> list[object]:
        return [row.get(name, "") for name in self._columns]


class _Csv(Logger):
    name = "csv"
    summary = f"a file of comma-separated values, {FILE} in the run's folder"

    def open(self, run: LoggedRun) -> _ProgressFile:
        """See `Logger`."""
        return _ProgressFile(run.folder / FILE)


LOGGER = _Csv()
