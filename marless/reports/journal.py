"""metrics.jsonl: one line per finished round, appended as rounds finish."""

from pathlib import Path

from marless.coordinator.core.state import RoundLine
from marless.coordinator.file_reading import UnreadableFile, read_file
from marless.functions.encoding import JsonDecoder, Undecodable, to_json
from marless.reports.atomic_files import replace, storage_errors, sync

_DECODER = JsonDecoder(RoundLine)


class JsonLines:
    """The file of a run's finished rounds. Recording an earlier round, or the last again, rewinds the file to it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last = max((line.round for line in read(path)), default=0)

    def record(self, line: RoundLine) -> None:
        """Append the line. Raises `StorageFault` if the disk refuses it."""
        with storage_errors(self._path):
            if line.round <= self._last or _has_torn_end(self._path):
                earlier_lines = [earlier for earlier in read(self._path) if earlier.round < line.round]
                # Atomically: a writer killed here must not lose the earlier lines.
                replace(self._path, b"".join(map(_encode, earlier_lines)))
            with self._path.open("ab") as file:
                file.write(_encode(line))
        self._last = line.round

    def persist(self) -> None:
        """Return once the lines so far would survive a power loss. Raises `StorageFault`."""
        with storage_errors(self._path):
            if self._path.exists():
                sync(self._path)
                sync(self._path.parent)


def read(path: Path) -> list[RoundLine]:
    """Return the complete lines of a file. An incomplete end, from a killed writer or a power loss, is skipped.

    Raises `UnreadableFile` where a line before others is damaged.
    """
    if not path.exists():
        return []
    lines: list[RoundLine] = []
    damage: Undecodable | None = None
    for number, text in enumerate(read_file(path).split(b"\n"), start=1):
        try:
            line = _DECODER.decode(text, f"{path}, line {number},")
        except Undecodable as error:
            damage = damage or error
            continue
        if damage is not None:
            raise UnreadableFile(str(damage)) from damage
        lines.append(line)
    return lines


def _encode(line: RoundLine) -> bytes:
    return to_json(line) + b"\n"


def _has_torn_end(path: Path) -> bool:
    if not path.exists() or not path.stat().st_size:
        return False
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read(1) != b"\n"
