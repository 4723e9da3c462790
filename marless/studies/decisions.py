"""decisions.jsonl: the decisions of a study from its results, so that a resumed study repeats them."""

from pathlib import Path
from typing import Any

import msgspec

from marless.coordinator.file_reading import read_file
from marless.functions.encoding import JsonDecoder, Undecodable, to_json
from marless.runs.folder import RunFolder

FILE = "decisions.jsonl"


class Asked(msgspec.Struct, frozen=True, kw_only=True, tag="asked"):
    """A search picked a setting: its name and its values by key."""

    name: str
    values: dict[str, Any]


class Halved(msgspec.Struct, frozen=True, kw_only=True, tag="halved"):
    """Settings were compared after the round `rung`, by their returns of each seed: some continue, some are stopped."""

    rung: int
    promoted: tuple[str, ...]
    stopped: tuple[str, ...]
    scores: dict[str, dict[int, float]]


_DECODER = JsonDecoder[Asked | Halved](Asked | Halved)


def read(folder: Path) -> list[Asked | Halved]:
    """Return all decisions in order. An incomplete last line, left by a killed writer, is skipped."""
    path, decisions = folder / FILE, []
    for text in read_file(path).splitlines() if path.exists() else ():
        try:
            decisions.append(_DECODER.decode(text))
        except Undecodable:
            break
    return decisions


def write(folder: Path, decisions: list[Asked | Halved]) -> None:
    """Replace the file by the decisions, whole or not at all. Raises `StorageFault`."""
    RunFolder(folder).write(FILE, b"".join(to_json(decision) + b"\n" for decision in decisions), durable=True)
