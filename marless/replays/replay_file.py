"""Writes episodes of a run's team to a file: a picture, an animation or a video."""

from base64 import b64encode
from collections.abc import Callable
from html import escape
from itertools import chain
from pathlib import Path, PosixPath

from marless import extras
from marless.coordinator.errors import UserError
from marless.infra.local.pictures import ffmpeg
from marless.replays import animation
from marless.replays.animation import Animation
from marless.replays.teams import on_stage
from marless.reports.atomic_files import write_for_user
from marless.runs.folder import REPLAY, RunFolder

Encoder = Callable[[Animation], bytes]


class ReplayFile(PosixPath):
    """The path of an animation, which a notebook shows below its cell. It shows an ``.mp4`` as its path alone."""

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        bundle = {"text/plain": repr(self)}
        if self.suffix == ".gif" and self.is_file():
            # Saved pages show HTML and no image/gif.
            picture = b64encode(self.read_bytes()).decode()
            bundle["text/html"] = f'<img src="data:image/gif;base64,{picture}" alt="{escape(self.name)}">'
        return bundle


def record(
    folder: RunFolder, path: Path | None, episodes: int, beside: str | None = None, agents: int | None = None
) -> ReplayFile:
    """Draw greedy episodes of the run's newest policies.

    Returns its path, by default `REPLAY` in the run's folder. See `on_stage`. Raises `UserError`.
    """
    extras.require("report", "marless replay")
    path = path or folder.path / REPLAY
    encode = encoder(path)
    with on_stage(folder, episodes, beside, agents=agents) as animation:
        body = encode(animation)
    write_for_user(path, body)
    return ReplayFile(path)


def encoder(path: Path) -> Encoder:
    """Return the encoder of the file's bytes. Raises `UserError` for a path that cannot be written."""
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
    frames = (still.image.tobytes() for still in chain((first,), images) for _ in range(still.frames))
    try:
        return ffmpeg.mp4(frames, first.image.size, animation.frame_ms)
    except ffmpeg.EncodingFailed as error:
        raise UserError(f"ffmpeg: {error}") from error


_ENCODERS: dict[str, Encoder] = {".gif": animation.gif, ".mp4": _mp4}
