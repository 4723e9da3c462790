"""Writes episodes of a run's team to a file: a picture, an animation or a video."""

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

from marless import extras
from marless.coordinator.errors import UserError
from marless.infra.local.pictures import ffmpeg
from marless.replays import animation
from marless.replays.animation import Animation, Still
from marless.replays.teams import on_stage
from marless.reports.atomic_files import write_for_user
from marless.runs.folder import REPLAY, RunFolder

Encoder = Callable[[Animation], bytes]


def record(folder: RunFolder, path: Path | None, episodes: int, beside: str | None = None) -> Path:
    """Draws greedy episodes of the run's newest policies; returns the file's path, `REPLAY` in the run's folder by
    default.

    `beside` is as in `on_stage`. Raises `UserError`.
    """
    extras.require("report", "marless replay")
    path = path or folder.path / REPLAY
    encode = encoder(path)
    with on_stage(folder, episodes, beside) as animation:
        body = encode(animation)
    write_for_user(path, body)
    return path


def encoder(path: Path) -> Encoder:
    """What makes the file's bytes; raises `UserError` for a path that cannot be written."""
    if path.suffix not in _ENCODERS:
        raise UserError(f"{path}: the file's name has to end in {' or '.join(_ENCODERS)}")
    if not path.parent.is_dir():
        raise UserError(f"{path}: there is no folder {path.parent}")
    if path.suffix == ".mp4" and not ffmpeg.installed():
        raise UserError(f"{path}: the program ffmpeg, which makes .mp4, is not on the path; install it or write a .gif")
    return _ENCODERS[path.suffix]


def _mp4(animation: Animation) -> bytes:
    images = animation.stills()
    first = next(images)
    try:
        return ffmpeg.mp4(_repeat_stills(chain((first,), images)), first.image.size, animation.frame_ms)
    except ffmpeg.EncodingFailed as error:
        raise UserError(f"ffmpeg: {error}") from error


def _repeat_stills(images: Iterator[Still]) -> Iterator[bytes]:
    for still in images:
        yield from [still.image.tobytes()] * still.frames


_ENCODERS: dict[str, Encoder] = {".gif": animation.gif, ".mp4": _mp4}
