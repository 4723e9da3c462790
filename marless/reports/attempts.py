"""attempts.jsonl: one line per attempt that ended while a process drove the run, in order of their ends."""

import time
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from marless.coordinator.drive.attempt_record import AttemptRecord
from marless.coordinator.file_reading import UnreadableFile, read_file
from marless.functions.encoding import JsonDecoder, Undecodable, to_json

# About 50 MB. A longer run keeps its first attempts.
MOST_LINES = 200_000
# In a larger file further attempts lack the times of their actions. An attempt may have thousands of them.
MOST_BYTES = 100_000_000

_DECODER = JsonDecoder(AttemptRecord)


class AttemptLog:
    """Appends records. Their times change from the monotonic clock to seconds since 1970.

    A full disk ends the log but not the run, which can do without it.
    """

    def __init__(self, path: Path, most_lines: int = MOST_LINES, most_bytes: int = MOST_BYTES) -> None:
        self._path = path
        self._since = time.time() - time.monotonic()
        try:
            text = read_file(path) if path.exists() else b""
        except UnreadableFile:
            text, self._left = b"", 0
        else:
            self._left = most_lines - text.count(b"\n")
        self._left_bytes = most_bytes - len(text)
        # A killed writer may have left an incomplete line.
        self._start = b"\n" if text and not text.endswith(b"\n") else b""

    def record(self, records: list[AttemptRecord]) -> None:
        """Appends a line for each record."""
        since, records = self._since, records[: max(0, self._left)]
        if not records:
            return
        self._left -= len(records)
        shortened: dict[str, tuple[()]] = {"actions": ()} if self._left_bytes <= 0 else {}
        lines = [
            to_json(replace(each, asked_at=since + each.asked_at, ended_at=since + each.ended_at, **shortened))
            for each in records
        ]
        self._left_bytes -= sum(map(len, lines))
        try:
            with self._path.open("ab") as file:
                file.write(self._start + b"\n".join([*lines, b""]))
            self._start = b""
        except OSError:
            self._left = 0


def read(path: Path) -> list[AttemptRecord]:
    """The records of a file, without lines that a killed writer left incomplete."""
    records: list[AttemptRecord] = []
    for line in read_file(path).splitlines() if path.exists() else ():
        with suppress(Undecodable):
            records.append(_DECODER.decode(line))
    return records
