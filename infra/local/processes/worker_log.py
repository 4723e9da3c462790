"""Write a worker's output into a file of bounded size: its beginning and its end."""

import os
from pathlib import Path

from marless.infra.local.file_storage import at_once

# The beginning names versions and first warnings, the end names errors.
_HEAD, _TAIL = 1 << 18, 1 << 18
_LIMIT = 1 << 20
# The most to read at once, so that a worker that prints for ever does not block others.
_CHUNK, _CHUNKS = 1 << 16, 16
_LAST_WORDS = 4096


class WorkerLog:
    """The reading end of a pipe that a worker prints into, written to a new file `path`."""

    def __init__(self, path: Path) -> None:
        """Raises `OSError` when the file or the pipe cannot be made."""
        self.path = path
        path.unlink(missing_ok=True)  # a pipe at this path would wait for a reader
        path.write_bytes(b"")
        self.descriptor, self.far = os.pipe()
        os.set_blocking(self.descriptor, False)
        self._size = self._left_out = 0

    def take(self) -> bool:
        """Writes the output so far, or a part of it. Returns False when all writers have closed the pipe."""
        output, at_end = bytearray(), False
        try:
            for _ in range(_CHUNKS):
                chunk = os.read(self.descriptor, _CHUNK)
                output += chunk
                if at_end := not chunk:
                    break
        except BlockingIOError:
            pass
        if output:
            self._write(bytes(output))
        return not at_end

    def started(self) -> None:
        """The worker has its end of the pipe."""
        os.close(self.far)

    def close(self) -> None:
        """Takes the last words. Descriptors of the worker's own children may still be open."""
        self.take()
        os.close(self.descriptor)

    def last_words(self) -> str:
        """The most informative line of a dead worker, with the path of its log: the fatal error, else the last line."""
        try:
            with open(self.path, "rb", opener=at_once) as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_WORDS))
                tail = file.read()
        except OSError:
            tail = b""
        lines = [line.strip() for line in tail.decode(errors="replace").splitlines() if line.strip()]
        if not lines:
            return f"it printed nothing ({self.path} is empty)"
        line = next((line for line in lines if line.startswith("Fatal Python error")), lines[-1])
        return f"last line of {self.path}: {line}"

    def _write(self, output: bytes) -> None:
        try:
            with open(self.path, "ab", opener=at_once) as file:
                file.write(output)
            self._size += len(output)
            if self._size > _LIMIT:
                self._shorten()
        except OSError:  # a full disk: a log is no reason to end a run
            return

    def _shorten(self) -> None:
        with open(self.path, "r+b", opener=at_once) as file:
            file.seek(-_TAIL, os.SEEK_END)
            tail = file.read()
            self._left_out += self._size - _HEAD - _TAIL
            file.seek(_HEAD)
            file.truncate()
            file.write(b"\n[about %d bytes are left out here]\n" % self._left_out)
            file.write(tail)
            self._size = file.tell()
