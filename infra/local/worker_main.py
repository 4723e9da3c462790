"""A worker process: serves calls one after the other until its coordinator ends.

A fork of `infra.local.processes.zygote`, or started by the pool as ``python -m infra.local.worker_main REQUESTS REPLIES
LIFELINE STARTED MEMORY_MB``: three pipe descriptors, the pool's monotonic clock at the start, and how much the process
may allocate (0: without limit).
"""

import importlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from functions.encoding import MessagePackDecoder
from functions.isolation.foreign_imports import IMPORTS
from functions.isolation.process_guard import spoilt, state_of_process
from functions.storage_port import Blobs
from functions.text.redaction import redact
from functions.text.tracebacks import show_traceback
from infra.local.file_storage import FileStorage
from infra.local.own_process import expendable, limit_memory, peak_mb, resident_mb
from infra.local.pipe_messages import Call, Ended, Inbox, Ready, frame
from infra.local.processes.lifeline import end_with
from infra.local.processes.process_tree import adopt_orphans

Handler = Callable[[bytes, Blobs], bytes]

_LONGEST_ERROR = 4096


def main() -> None:
    requests, replies, lifeline = (int(text) for text in sys.argv[1:4])
    for descriptor in (requests, replies, lifeline):
        os.set_inheritable(descriptor, False)
    serve(requests, replies, lifeline, float(sys.argv[4]), int(sys.argv[5]))


def serve(requests: int, replies: int, lifeline: int, started_at: float, memory_mb: int) -> None:
    """Serves the pool's calls until it has closed its ends. `started_at`: the monotonic clock at the process's
    start."""
    for number in (signal.SIGINT, signal.SIGHUP):  # the coordinator decides what they mean
        signal.signal(number, signal.SIG_IGN)
    end_with(lifeline)
    adopt_orphans()
    expendable()
    limit_memory(memory_mb)
    # A log is read after a crash, and takes whatever an environment prints. The zygote's streams are those of a file.
    sys.stdout, sys.stderr = (
        open(number, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        for number in (1, 2)
    )
    Worker(requests, replies, started_at).serve()


class Worker:
    """The modules imported so far, and the loop that calls them."""

    def __init__(self, requests: int, replies: int, started_at: float) -> None:
        self._inbox = Inbox(requests)
        self._replies = replies
        self._started: float | None = started_at
        self._blobs: dict[bytes, Blobs] = {}
        self._handlers: dict[str, Handler] = {}
        IMPORTS.expect()
        self._state = state_of_process()

    def serve(self) -> None:
        """Returns when the coordinator has closed its end."""
        decoder = MessagePackDecoder(Call)
        while self._inbox.fill():
            for header, body in self._inbox.frames():
                self._answer(decoder.decode(header), body)

    def _answer(self, call: Call, body: bytes) -> None:
        error = "" if call.module in self._handlers else self._import(call)
        if call.warm:
            return
        start, processor = time.perf_counter(), time.process_time()
        answer = b""
        if not error:
            try:
                blobs = self._blobs.setdefault(call.root, FileStorage(Path(os.fsdecode(call.root))))
                answer = self._handlers[call.module](body, blobs)
                if not isinstance(answer, bytes):
                    raise TypeError(f"{call.module}.handle must return bytes, not {type(answer).__name__}")
            except BaseException as problem:  # SystemExit too: the worker outlives its tasks
                answer, error = b"", _describe(problem)
        duration_ms = (time.perf_counter() - start) * 1000
        end = Ended(
            duration_ms=duration_ms,
            processor_ms=(time.process_time() - processor) * 1000,
            peak_mb=peak_mb(),
            resident_mb=resident_mb(),
            token=call.token,
            error=error,
            foreign=IMPORTS.look(),
            spoilt=IMPORTS.foreign and (spoilt() or state_of_process() != self._state),
        )
        self._send(frame(end, answer))

    def _import(self, call: Call) -> str:
        """Imports the module and reports the duration to the pool; returns the error."""
        start, self._started = self._started or time.monotonic(), None
        error = ""
        try:
            self._handlers[call.module] = importlib.import_module(call.module).handle
        except BaseException as problem:
            error = _describe(problem)
        if not IMPORTS.look():
            IMPORTS.expect()
        self._send(frame(Ready(call.module, (time.monotonic() - start) * 1000, call.token)))
        return error

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._replies, view) :]


def _describe(error: BaseException) -> str:
    """The error in one line, cut; its traceback goes to the log."""
    show_traceback(error)
    try:
        return redact(f"{type(error).__name__}: {error}")[:_LONGEST_ERROR]
    except Exception:  # the error has no text
        return type(error).__name__


if __name__ == "__main__":
    main()
