"""A running program, spoken to in lines through pipes."""

import fcntl
import os
import select
import signal
import subprocess
import termios
import time
from contextlib import suppress

from marless.functions.resources.port import MOST_BYTES
from marless.functions.resources.serving.kinds.kind import NoAnswer, Start
from marless.functions.system_errors import signal_name

# The default capacity of a pipe on Linux.
_CHUNK = 1 << 16
# So long a program that ends still has no exit code although its pipes are closed.
_ENDING_S = 1.0


class Program:
    """A program that is begun when this is made, which raises `OSError`.

    Methods with a deadline raise `TimeoutError` when it has passed, by the monotonic clock.
    """

    def __init__(self, start: Start) -> None:
        # This process keeps the reading end of the input too, to see afterwards how much of it was read.
        self._unread, self._requests = os.pipe()
        try:
            self._process = subprocess.Popen(
                start.words,
                stdin=self._unread,
                stdout=subprocess.PIPE,
                stderr=start.errors,
                bufsize=0,
                env=start.environment,
                pass_fds=start.descriptors,
                start_new_session=True,
            )
        except BaseException:
            os.close(self._unread)
            os.close(self._requests)
            raise
        assert self._process.stdout is not None
        self._replies = self._process.stdout.fileno()
        for descriptor in (self._requests, self._replies):
            os.set_blocking(descriptor, False)
        self.is_asked = False
        """Whether something was said to it."""
        self._unsent, self._input_ends, self._input_is_open = b"", False, True
        # The output that was not taken. So much of it has no line's end.
        self._printed, self._searched, self._is_over = bytearray(), 0, False
        # Bytes that it has printed since something was said to it.
        self._size = 0

    def say(self, data: bytes) -> None:
        """Write to its input, while it is listened to."""
        self._unsent += data
        self.is_asked, self._size = True, 0

    def end_input(self) -> None:
        """Close its input, once everything is written."""
        self._input_ends = True
        if not self._unsent and self._input_is_open:
            self._input_is_open = False
            os.close(self._requests)

    def line(self, deadline: float) -> bytes | None:
        """Return its next line without the line's end, or None at its end.

        Raises `NoAnswer` if it prints too much.
        """
        while (end := self._printed.find(b"\n", self._searched)) < 0 and not self._is_over:
            self._searched = len(self._printed)
            if time.monotonic() > deadline:  # it may print for ever
                raise TimeoutError
            self._exchange(deadline)
        if end < 0 and not self._printed:
            return None
        line = bytes(self._printed if end < 0 else self._printed[:end])
        del self._printed[: len(line) + 1]
        self._searched = 0
        return line

    def has_printed(self) -> bool:
        """Return True if it has ended, or has printed lines that were not taken."""
        with suppress(TimeoutError):
            self._exchange(time.monotonic())
        return bool(self._printed) or self._is_over

    def has_ended(self) -> bool:
        """Return True if it has ended."""
        return self._process.poll() is not None

    def unread(self) -> int:
        """Return how many bytes of its input it has not read."""
        return len(self._unsent) + int.from_bytes(fcntl.ioctl(self._unread, termios.FIONREAD, bytes(4)), "little")

    def status(self, deadline: float) -> int:
        """Return its exit status, negative for a signal, once it has ended."""
        try:
            return self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            raise TimeoutError from error

    def ending(self) -> NoAnswer:
        """Return the error of a program that prints nothing more."""
        try:
            status = self.status(time.monotonic() + _ENDING_S)
        except TimeoutError:
            return NoAnswer("it has ended: it closed its output")
        return NoAnswer(f"it has ended: {ending(status)}")

    def close(self) -> None:
        """End it and all processes that it has started. Called once."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        os.close(self._unread)
        self._unsent = b""
        self.end_input()

    def _exchange(self, deadline: float) -> None:
        """Write while reading, as a program may answer before it has read everything."""
        poll = select.poll()
        poll.register(self._replies, select.POLLIN)
        if self._unsent:
            poll.register(self._requests, select.POLLOUT)
        if not (ready := dict(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))):
            raise TimeoutError
        if self._requests in ready and self._unsent:
            self._write()
        if self._replies in ready:
            self._read()

    def _write(self) -> None:
        with suppress(BlockingIOError):
            self._unsent = self._unsent[os.write(self._requests, self._unsent) :]
        if self._input_ends:
            self.end_input()

    def _read(self) -> None:
        with suppress(BlockingIOError):
            chunk = os.read(self._replies, _CHUNK)
            self._is_over = not chunk
            self._printed += chunk
            self._size += len(chunk)
        if self._size > MOST_BYTES:
            raise NoAnswer(f"its answer has more than {MOST_BYTES >> 20} MiB")


def ending(status: int) -> str:
    """Return how a program has ended, by its exit status."""
    return f"killed by {signal_name(-status)}" if status < 0 else f"exit status {status}"
