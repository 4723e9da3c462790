"""Files of records, one JSON document per line."""

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import msgspec

from marless.coordinator.file_reading import UnreadableFile
from marless.reports.atomic_files import replace

T = TypeVar("T")


def read(path: Path, of: type[T]) -> list[T]:
    """Return the records in the file. A missing file holds no records. Raise `UnreadableFile`."""
    decoder = msgspec.json.Decoder(of)
    records = []
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be read: {error}") from error
    for number, line in enumerate(lines, start=1):
        try:
            records.append(decoder.decode(line))
        except msgspec.MsgspecError as error:
            raise UnreadableFile(f"{path}, line {number}, is no record: {error}; delete it to measure again") from error
    return records


def write(path: Path, records: Iterable[object]) -> None:
    """Replace the file durably. Raise `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, msgspec.json.Encoder().encode_lines(records), durable=True)
