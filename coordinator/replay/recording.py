"""A run's team at play, written to a file."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from coordinator import extras
from coordinator.config.schema import RANDOM
from coordinator.errors import UserError
from coordinator.replay import animation
from coordinator.replay.animation import Panel, Still
from coordinator.replay.episodes import play, random_team
from coordinator.reports.files import replace
from coordinator.reports.policy import TeamPolicy
from coordinator.runs.folder import REPLAY, RunFolder
from coordinator.runs.policies import find_policies, load_team
from functions.contract import BadRequest
from functions.environments.base import EnvironmentFault, Unsupported
from infra.local import ffmpeg


def record(folder: RunFolder, path: Path | None, episodes: int, beside: str | None = None) -> Path:
    """Draws greedy episodes of the run's newest policies; returns the file's path, `REPLAY` in the run's folder by
    default.

    Beside them, on the same start states, those of another run or file, or of random agents (`RANDOM`). Raises
    `UserError`.
    """
    extras.require("report", "marless replay")
    if episodes < 1:
        raise UserError(f"episodes is {episodes}; at least 1 is needed")
    path = path or folder.path / REPLAY
    encode = _encoder(path)
    found, team = load_team(folder)
    teams = {f"{found.plan.run}, round {found.kept.round:,}": team}
    if beside is not None:
        teams[beside] = _other(beside, team)
    seed = found.plan.config.seed
    try:
        panels = [Panel(name, play(playing, episodes, seed)) for name, playing in teams.items()]
    except (BadRequest, EnvironmentFault, Unsupported, UserError) as error:
        raise UserError(f"{team.task.name}: {error}") from error
    try:
        replace(path, encode(panels))
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from error
    return path


def _other(text: str, team: TeamPolicy) -> TeamPolicy:
    return random_team(team) if text == RANDOM else find_policies(text, team.task, "--beside")


def _encoder(path: Path) -> Callable[[Sequence[Panel]], bytes]:
    """What makes the file's bytes; raises `UserError` for a path that cannot be written."""
    if path.suffix not in _ENCODERS:
        raise UserError(f"{path}: the file's name has to end in {' or '.join(_ENCODERS)}")
    if not path.parent.is_dir():
        raise UserError(f"{path}: there is no folder {path.parent}")
    if path.suffix == ".mp4" and not ffmpeg.installed():
        raise UserError(f"{path}: the program ffmpeg, which makes .mp4, is not on the path; install it or write a .gif")
    return _ENCODERS[path.suffix]


def _mp4(panels: Sequence[Panel]) -> bytes:
    images = animation.stills(panels)
    first = next(images)
    try:
        return ffmpeg.mp4(_repeated(chain((first,), images)), first.image.size, animation.FRAME_MS)
    except ffmpeg.EncodingFailed as error:
        raise UserError(f"ffmpeg: {error}") from error


def _repeated(images: Iterator[Still]) -> Iterator[bytes]:
    for still in images:
        yield from [still.image.tobytes()] * still.frames


_ENCODERS: dict[str, Callable[[Sequence[Panel]], bytes]] = {".gif": animation.gif, ".mp4": _mp4}
