"""A resource that is a program: ``command = "stockfish"``. It is kept running, and spoken to in lines.

A question is written to it, with a line's end behind it. The answer is the next line, or with `until` all lines to the
first one that starts so; what it has said before a question is no answer to it. A program that does not answer in time,
ends, or says more than an answer may have is ended, and begun anew for the next question. With the setting `sandbox` it
runs in bubblewrap.
"""

import os
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress

from functions.resources.kinds.kind import NoAnswer
from functions.resources.port import MOST_BYTES, Action
from functions.resources.settings import Resource, is_token
from functions.system_errors import signal_name

# The default capacity of a pipe on Linux.
_CHUNK = 1 << 16
# So long a program that ends still has no exit code although its pipes are closed.
_ENDING_S = 1.0

# Within the block a command can be started by these words, with these open files passed on to it.
Isolated = AbstractContextManager[tuple[Sequence[str], Sequence[int]]]


class Command:
    """The program, begun with the first question."""

    def __init__(self, words: Sequence[str], until: str, timeout_s: float, isolate: Callable[[], Isolated]) -> None:
        self._words, self._until, self._timeout_s, self._isolate = words, until.encode(), timeout_s, isolate
        self._program: subprocess.Popen[bytes] | None = None

    def answer(self, action: Action, cores: int) -> bytes:
        """What it says to the question; raises `NoAnswer`."""
        deadline = time.monotonic() + self._timeout_s
        try:
            return self._exchange(self._running(), action.question.rstrip(b"\n") + b"\n", deadline)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends the program and what it has started."""
        if self._program is None:
            return
        program, self._program = self._program, None
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()
        for stream in (program.stdin, program.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._program is not None and self._program.poll() is not None:
            self.close()
        if self._program is None:
            self._program = self._started()
            for stream in (self._program.stdin, self._program.stdout):
                assert stream is not None
                os.set_blocking(stream.fileno(), False)
        return self._program

    def _started(self) -> "subprocess.Popen[bytes]":
        try:
            with self._isolate() as (words, descriptors):
                return subprocess.Popen(
                    words,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    bufsize=0,
                    env={name: value for name, value in os.environ.items() if not is_token(name)},
                    pass_fds=descriptors,
                    start_new_session=True,
                )
        except OSError as error:
            raise NoAnswer(f"command {self._words[0]!r} cannot be started: {error.strerror or error}") from error

    def _exchange(self, program: "subprocess.Popen[bytes]", question: bytes, deadline: float) -> bytes:
        """Writes while it reads, as a program may answer before it has read all."""
        assert program.stdin is not None and program.stdout is not None
        requests, replies = program.stdin.fileno(), program.stdout.fileno()
        while _read(replies):
            pass
        poll, output, start = select.poll(), bytearray(), 0
        poll.register(replies, select.POLLIN)
        poll.register(requests, select.POLLOUT)
        while not ((end := output.find(b"\n", start)) >= 0 and output.startswith(self._until, start)):
            if end >= 0:
                start = end + 1
                continue
            ready = dict(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))
            if not ready:
                raise NoAnswer(f"no answer within {self._timeout_s:g} s")
            if requests in ready and not (question := _write(requests, question)):
                poll.unregister(requests)
            if replies in ready:
                output += _next(program, replies)
            if len(output) > MOST_BYTES:
                raise NoAnswer(f"its answer has more than {MOST_BYTES >> 20} MiB")
        return bytes(output[:end]).removesuffix(b"\r")


def begin(name: str, resource: Resource) -> Command:
    """The program that the resource names."""
    words = shlex.split(resource.command)

    def isolate() -> Isolated:
        if resource.sandbox == "none":
            return nullcontext((words, ()))
        from functions.resources.sandbox import isolated

        return isolated(words, resource.memory_mb)

    return Command(words, resource.until, resource.timeout_s, isolate)


def _read(replies: int) -> bytes | None:
    """What has arrived; None where nothing has, b"" at the end."""
    try:
        return os.read(replies, _CHUNK)
    except BlockingIOError:
        return None


def _next(program: "subprocess.Popen[bytes]", replies: int) -> bytes:
    """What has arrived; raises `NoAnswer` at the end."""
    if (chunk := _read(replies)) == b"":
        raise NoAnswer(f"it has ended: {_ending(program)}")
    return chunk or b""


def _write(requests: int, data: bytes) -> bytes:
    """What is still to be written."""
    try:
        return data[os.write(requests, data) :]
    except BlockingIOError:
        return data
    except BrokenPipeError:  # it has ended; the end of what it says will tell
        return b""


def _ending(program: "subprocess.Popen[bytes]") -> str:
    """How a program has ended whose pipe is closed."""
    try:
        status = program.wait(_ENDING_S)
    except subprocess.TimeoutExpired:
        return "it closed its output"
    return f"killed by {signal_name(-status)}" if status < 0 else f"exit status {status}"
