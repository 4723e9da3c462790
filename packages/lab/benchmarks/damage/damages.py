"""Ways to damage a file: the faults of disks, editors, copies and people."""

import os
import random
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

Body = bytearray
_Change = Callable[[random.Random, Body, int], Body]

_NOISE, _HOLE = 30, 64
_DEEP = b'{"a":[' * 50_000
_NUMBERS = (b"9" * 400, b"1e999", b"-1", b"NaN", b"9223372036854775808", b"0.5")
# Half of the damages are at the start, where headers are.
_START = 40


def _bit(rng: random.Random, body: Body, at: int) -> Body:
    if body:
        body[at] ^= 1 << rng.randrange(8)
    return body


def _byte(rng: random.Random, body: Body, at: int) -> Body:
    if body:
        body[at] = rng.randrange(256)
    return body


def _number(rng: random.Random, body: Body, at: int) -> Body:
    """Replace the first number from that place on by another number."""
    found = re.compile(rb"\d+(?:\.\d+)?").search(body, at) or re.compile(rb"\d+(?:\.\d+)?").search(body)
    return body if found is None else body[: found.start()] + rng.choice(_NUMBERS) + body[found.end() :]


BYTES: Mapping[str, _Change] = {
    "bit": _bit,
    "byte": _byte,
    "half": lambda rng, body, at: body[: len(body) // 2],
    "empty": lambda rng, body, at: Body(),
    "appended": lambda rng, body, at: body + rng.randbytes(_NOISE),
    "zeros": lambda rng, body, at: body[:at] + bytes(min(_HOLE, len(body) - at)) + body[at + _HOLE :],
    "not UTF-8": lambda rng, body, at: body[:at] + b'\xff\xfe{["' + body[at:],
    "another encoding": lambda rng, body, at: Body(body.decode("latin-1").encode("utf-16")),
    "a number": _number,
    "deep": lambda rng, body, at: body[:at] + _DEEP + body[at:],
    "doubled": lambda rng, body, at: body + body,
    "line gone": lambda rng, body, at: _without_line(body, at),
}
ENTRIES: Mapping[str, Callable[[Path], object]] = {
    "gone": lambda path: None,
    "a folder": lambda path: path.mkdir(),
    "a dangling link": lambda path: path.symlink_to("nowhere"),
    "a pipe": lambda path: os.mkfifo(path),
    "a device without end": lambda path: path.symlink_to("/dev/zero"),
}


def _without_line(body: Body, at: int) -> Body:
    lines = body.split(b"\n")
    del lines[body.count(b"\n", 0, at)]
    return Body(b"\n".join(lines))


def damage(rng: random.Random, path: Path, kind: str) -> None:
    """Damages the file in place, in a way of `BYTES` or of `ENTRIES`."""
    if kind in ENTRIES:
        path.unlink()
        ENTRIES[kind](path)
        return
    body = Body(path.read_bytes())
    at = rng.randrange(max(1, len(body)))
    path.write_bytes(BYTES[kind](rng, body, min(at, _START) if rng.random() < 0.5 else at))


def kinds_of_files(run: Path) -> dict[str, list[Path]]:
    """The files of a run, relative to its folder, by their names without numbers."""
    found: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(path.relative_to(run) for path in run.rglob("*") if path.is_file()):
        found[re.sub(r"\d+(-\d+)?", "#", str(path))].append(path)
    return dict(found)


def copy(source: Path, target: Path) -> Path:
    """A fresh copy of a folder with its links."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True)
    return target
