"""What a process prints, kept in a file without a name until somebody asks for it."""

import fcntl
import os
import tempfile

# Of one invocation's output no more than this is handed on, its end.
LONGEST = 4 << 20
_TRIM = 1 << 20


class Output:
    """The file behind a process's output: it never fills up like a pipe, and is whole when a process ends."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # closed with the environment
        self.descriptor = self._file.fileno()
        # Processes append, so the file can be emptied under them.
        fcntl.fcntl(self.descriptor, fcntl.F_SETFL, fcntl.fcntl(self.descriptor, fcntl.F_GETFL) | os.O_APPEND)
        self._taken = 0

    def take(self) -> list[str]:
        """The lines since the last time; a line that awslambdaric broke with carriage returns stays one event."""
        size = os.fstat(self.descriptor).st_size
        if size == self._taken:
            return []
        start = max(self._taken, size - LONGEST)
        text = os.pread(self.descriptor, size - start, start).decode(errors="replace")
        self._taken = size
        if size > _TRIM:
            os.ftruncate(self.descriptor, 0)
            self._taken = 0
        return [line.replace("\r", "\n") for line in text.removesuffix("\n").split("\n")]

    def close(self) -> None:
        self._file.close()
