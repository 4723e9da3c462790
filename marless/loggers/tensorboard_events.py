"""TensorBoard's event file, written by tensorboardX, which needs no torch."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from marless.loggers.base import LoggedRun, Logger, Point

FOLDER = "tensorboard"
# TensorBoard shows cards in the order of their names, capitals first, so the team's returns come first.
_FIRST = ("absolute", "eval", "train", "train_sd")
# The tags that the page of hyperparameters shows as results.
_RESULTS = ("Return/eval", "Return/train", "cost/dollars")
_PICTURES = (".png", ".gif")


class _EventFile:
    """One event file of the whole run. Earlier commands' files are emptied.

    A TensorBoard that is open keeps a file's points. The record of a start at step 0 makes it forget them, once it
    continues with the new file. It does so from an empty file but not from a missing one.
    """

    def __init__(self, run: LoggedRun) -> None:
        from tensorboardX import summary
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto.event_pb2 import Event, SessionLog
        from tensorboardX.proto.summary_pb2 import Summary

        self._event, self._summary, self._created = Event, Summary, run.created
        self._folder, self._last = run.folder / FOLDER, Point(0, 0, 0.0, {})
        self._folder.mkdir(exist_ok=True)
        for earlier in self._folder.glob("events.out.tfevents.*"):
            earlier.write_bytes(b"")
        # The thread of its `SummaryWriter` would lose the errors of a full disk. TensorBoard reads files in the order
        # of their names, which have whole seconds.
        self._file = EventsWriter(str(self._folder / "events"), f".{time.time_ns()}")
        self._file.write_event(Event(wall_time=run.created, step=0, session_log=SessionLog(status=SessionLog.START)))
        experiment, start, self._session_end = summary.hparams(_plain(run.settings), dict.fromkeys(_RESULTS, 0.0))
        for settings in (experiment, start, summary.text("config", _table(run.settings))):
            self._add(settings)

    @property
    def where(self) -> str:
        return str(self._folder)

    def write(self, point: Point) -> None:
        values = [self._summary.Value(tag=_tag(name), simple_value=value) for name, value in point.scalars.items()]
        self._last = point
        self._add(self._summary(value=values))

    def finish(self, artefacts: Sequence[Path], status: str) -> None:
        """Shows the pictures. Other files cannot be shown."""
        for path in artefacts:
            if path.suffix in _PICTURES:
                body = path.read_bytes()
                width, height = _size(body)
                image = self._summary.Image(width=width, height=height, colorspace=4, encoded_image_string=body)
                self._add(self._summary(value=[self._summary.Value(tag=path.stem, image=image)]))
        self._add(self._session_end)

    def close(self) -> None:
        self._file.close()

    def _add(self, summary: Any) -> None:
        at = self._created + self._last.seconds
        self._file.write_event(self._event(wall_time=at, step=self._last.env_steps, summary=summary))
        self._file.flush()


class _TensorBoard(Logger):
    name = "tensorboard"
    summary = f"an event file for TensorBoard, {FOLDER}/ in the run's folder"
    extra = "tensorboard"

    def open(self, run: LoggedRun) -> _EventFile:
        """See `Logger`."""
        return _EventFile(run)


def _tag(name: str) -> str:
    group, _, rest = name.partition("/")
    return f"Return/{rest}" if group == "return" and rest.partition("/")[0] in _FIRST else name


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value if isinstance(value, bool | int | float | str) else str(value)
        for key, value in settings.items()
        if value is not None
    }


def _table(settings: Mapping[str, Any]) -> str:
    rows = [f"|{key}|{value}|" for key, value in settings.items()]
    return "\n".join(["|setting|value|", "|-|-|", *rows])


def _size(picture: bytes) -> tuple[int, int]:
    """Width and height in pixels of a PNG or a GIF, at fixed places of their headers."""
    if picture.startswith(b"GIF"):
        return int.from_bytes(picture[6:8], "little"), int.from_bytes(picture[8:10], "little")
    return int.from_bytes(picture[16:20], "big"), int.from_bytes(picture[20:24], "big")


LOGGER = _TensorBoard()
