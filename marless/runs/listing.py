"""What lists say of runs: a row for each, from its ledger, or from an index where the ledger is as it was.

The index, a file in the user's cache for each folder of runs, as a list changes nothing where runs are, holds rows with
size, time and inode of the files that they were made of, and the hash of the program that made them. It is a saving
alone: a row whose files differ by anything is made anew, an index that cannot be read is none, and where it cannot be
written the next list takes longer.
"""

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from coordinator.config.schema import ConfigError
from coordinator.core import budget
from coordinator.drive.ledger_items import Unresumable
from coordinator.errors import UserError, one_line
from coordinator.file_reading import UnreadableFile, read_json
from functions.contract import StorageFault
from functions.encoding import to_json
from infra.local.sqlite_ledger import LEDGER_FILE
from marless.reports import statistics
from marless.reports.atomic_files import replace
from marless.reports.provenance import code_sha256
from marless.reports.statistics import FinalReturn
from marless.runs.folder import CONFIG, IDENTITY, RunFolder, sha256
from marless.runs.stored_run import look

_FILES = (IDENTITY, CONFIG, LEDGER_FILE, f"{LEDGER_FILE}-wal")
# A file that changes within the clock's resolution may look as before.
_SETTLED_S = 2.0

_Status = tuple[int, int, int] | None
"""Size in bytes, time of the last change in ns, and inode of a file; None without it."""


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run's progress. For a run that cannot be read, only `problem` is set and says why."""

    run: str
    folder: str
    status: str
    rounds: int | None = None
    env_steps: int | None = None
    final_return: FinalReturn | None = None
    train_seconds: float | None = None
    dollars: float | None = None
    created: str = ""
    problem: str = ""


class _Known(msgspec.Struct, frozen=True):
    files: tuple[_Status, ...]
    row: Row


class _Index(msgspec.Struct, frozen=True):
    code_sha256: str
    runs: dict[str, _Known]


def rows(folders: Iterable[RunFolder]) -> list[Row]:
    """A row for every run: those that cannot be read, then the others, the oldest first."""
    by_parent: dict[Path, list[RunFolder]] = {}
    for folder in folders:
        by_parent.setdefault(folder.path.parent, []).append(folder)
    found = [row for parent, own in by_parent.items() for row in _beside(parent, own)]
    return sorted(found, key=lambda row: (row.created, row.run))


def _beside(parent: Path, folders: Iterable[RunFolder]) -> list[Row]:
    """The rows of runs in one folder, by its index, which is written where it was not right."""
    code = code_sha256()
    index = _index_of(parent)
    before = _read(index, code)
    now: dict[str, _Known] = {}
    found: list[Row] = []
    for folder in folders:
        files = tuple(_status(folder.path / name) for name in _FILES)
        known = before.get(folder.path.name)
        if known is None or known.files != files or folder.driven():
            row, lasts = _row(folder)
            known = _Known(files, row) if lasts and _settled(files) else None
        else:
            row = msgspec.structs.replace(known.row, run=folder.name, folder=str(folder.path))
        found.append(row)
        if known is not None:
            now[folder.path.name] = known
    if now != {name: before[name] for name in now if name in before}:
        there = {name: known for name, known in before.items() if (parent / name).is_dir()}
        with suppress(OSError):
            index.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace(index, to_json(_Index(code, there | now)))
    return found


def _row(folder: RunFolder) -> tuple[Row, bool]:
    """From the ledger, as summary.json may be older than a resume; and whether it holds until a file changes."""
    known: dict[str, Any] = {"run": folder.name, "folder": str(folder.path)}
    try:
        with look(folder) as found:
            state = found.state
            row = Row(
                **known,
                status=found.standing,
                rounds=state.round,
                env_steps=state.env_steps,
                final_return=statistics.summary(state.final) if state.final else None,
                train_seconds=state.seconds,
                dollars=float(budget.dollars(found.plan, state.meter)),
                created=found.identity.created,
            )
            return row, found.identity.deployment_ref is None and not found.driven
    except (UserError, ConfigError, Unresumable, StorageFault) as error:
        return Row(**known, status="unreadable", problem=one_line(error)), False


def _index_of(parent: Path) -> Path:
    """The index of the runs in a folder (XDG Base Directory Specification)."""
    # Where nobody is at home, `~` is a folder that is not there.
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))  # noqa: PTH111
    return cache / "marless" / f"runs-{sha256(str(parent.resolve()).encode(errors='surrogateescape'))[:16]}.json"


def _read(path: Path, code: str) -> dict[str, _Known]:
    try:
        found = read_json(path, _Index)
    except UnreadableFile:
        return {}
    return found.runs if found.code_sha256 == code else {}


def _status(path: Path) -> _Status:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


def _settled(files: Iterable[_Status]) -> bool:
    newest = max((status[1] for status in files if status is not None), default=0)
    return time.time() - newest / 1e9 > _SETTLED_S
