"""Rows of lists of runs: one per run, from its ledger, or from an index if the ledger has not changed.

A list must change nothing in folders of runs, so the index is a file in the user's cache for each such folder. It holds
rows with size, time and inode of their source files, and the hash of the program that made them. It only saves time. A
row with any difference in its files is made again, and so is an unreadable index. If it cannot be written, the next
list takes longer.
"""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from marless.coordinator.config.schema import ConfigError
from marless.coordinator.core import budget
from marless.coordinator.drive.ledger_items import Unresumable
from marless.coordinator.errors import UserError, one_line
from marless.coordinator.file_reading import UnreadableFile, read_json
from marless.functions.encoding import to_json
from marless.functions.errors import StorageFault
from marless.infra.local.sqlite_ledger import LEDGER_FILE
from marless.program import cache_folder
from marless.reports import atomic_files, statistics
from marless.reports.provenance import source_sha256
from marless.reports.statistics import FinalReturn
from marless.runs.folder import CONFIG, IDENTITY, RunFolder, sha256
from marless.runs.stored_run import Stored, look
from marless.runs.upkeep.disk_space import size_of

_FILES = (IDENTITY, CONFIG, LEDGER_FILE, f"{LEDGER_FILE}-wal")
# A file that changes within the clock's resolution may look as before.
_SETTLED_S = 2.0

_Status = tuple[int, int, int] | None
"""Size in bytes, time of the last change in ns, and inode of a file; None without it."""


class RunRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run's progress, and the bytes that its folder takes. For a run that cannot be read, `problem` says why."""

    run: str
    folder: str
    status: str
    rounds: int | None = None
    env_steps: int | None = None
    final_return: FinalReturn | None = None
    train_seconds: float | None = None
    dollars: float | None = None
    created: str = ""
    task: str = ""
    bytes: int = 0
    problem: str = ""


class _Known(msgspec.Struct, frozen=True):
    files: tuple[_Status, ...]
    row: RunRow


class _Index(msgspec.Struct, frozen=True):
    source_sha256: str
    runs: dict[str, _Known]


def rows(folders: Iterable[RunFolder]) -> list[RunRow]:
    """Return a row for every run: first unreadable runs, then the others, the oldest first."""
    by_parent: dict[Path, list[RunFolder]] = {}
    for folder in folders:
        by_parent.setdefault(folder.path.parent, []).append(folder)
    # Sizes are left out of the index: they also change with other files than its rows.
    all_rows = [
        msgspec.structs.replace(row, bytes=size_of(Path(row.folder)))
        for parent, folders_beside in by_parent.items()
        for row in _beside(parent, folders_beside)
    ]
    return sorted(all_rows, key=lambda row: (row.created, row.run))


def row_of(stored_run: Stored, **fields: Any) -> RunRow:
    """The row of a readable run. `fields` say where it is, and how many bytes it has."""
    state = stored_run.state
    return RunRow(
        **fields,
        status=stored_run.standing,
        rounds=state.round,
        env_steps=state.env_steps,
        final_return=statistics.summary(state.final) if state.final else None,
        train_seconds=state.seconds,
        dollars=float(budget.dollars(stored_run.plan, state.meter)),
        created=stored_run.identity.created,
        task=stored_run.plan.config.task.name,
    )


def _beside(parent: Path, folders: Iterable[RunFolder]) -> list[RunRow]:
    """The rows of runs in one folder, by its index, which is written where it was not right."""
    code = source_sha256()
    index = cache_folder() / f"runs-{sha256(str(parent.resolve()).encode(errors='surrogateescape'))[:16]}.json"
    before = _read(index, code)
    now: dict[str, _Known] = {}
    rows_beside: list[RunRow] = []
    for folder in folders:
        files = tuple(_status(folder.path / name) for name in _FILES)
        known_row = before.get(folder.path.name)
        if known_row is None or known_row.files != files or folder.driven():
            row, lasts = _row(folder)
            known_row = _Known(files, row) if lasts and _has_settled(files) else None
        else:
            row = msgspec.structs.replace(known_row.row, run=folder.name, folder=str(folder.path))
        rows_beside.append(row)
        if known_row is not None:
            now[folder.path.name] = known_row
    if now != {name: before[name] for name in now if name in before}:
        there = {name: known_row for name, known_row in before.items() if (parent / name).is_dir()}
        atomic_files.cache(index, to_json(_Index(code, there | now)))
    return rows_beside


def _row(folder: RunFolder) -> tuple[RunRow, bool]:
    """Return a row from the ledger, because summary.json may be older, and whether it holds until a file changes."""
    fields: dict[str, Any] = {"run": folder.name, "folder": str(folder.path)}
    try:
        with look(folder) as stored_run:
            lasts = stored_run.identity.deployment_ref is None and not stored_run.driven
            return row_of(stored_run, **fields), lasts
    except (UserError, ConfigError, Unresumable, StorageFault) as error:
        return RunRow(**fields, status="unreadable", problem=one_line(error)), False


def _read(path: Path, code: str) -> dict[str, _Known]:
    try:
        index = read_json(path, _Index)
    except UnreadableFile:
        return {}
    return index.runs if index.source_sha256 == code else {}


def _status(path: Path) -> _Status:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino


def _has_settled(files: Iterable[_Status]) -> bool:
    newest = max((status[1] for status in files if status is not None), default=0)
    return time.time() - newest / 1e9 > _SETTLED_S
