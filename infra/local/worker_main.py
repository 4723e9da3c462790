"""A worker process: serves calls one after the other until its coordinator ends.

A fork of `marless.infra.local.processes.zygote`, or started by the pool as ``python -m marless.infra.local.worker_main
REQUESTS REPLIES LIFELINE STARTED MEMORY_MB OUTLIVES_S``. These are three pipe descriptors, the pool's monotonic clock
at the start, and the most memory to allocate (0: without limit). The last are the seconds to end a task when the pool
is gone.
"""

import importlib
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from io import BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from typing import Any

from marless.functions.encoding import MessagePackDecoder
from marless.functions.isolation.arithmetic import ARITHMETIC
from marless.functions.isolation.foreign_files import FOREIGN_FILES
from marless.functions.isolation.foreign_imports import IMPORTS
from marless.functions.isolation.process_guard import process_is_modified, state_of_process
from marless.functions.resources.port import RESOURCES
from marless.functions.storage_port import Blobs
from marless.functions.text.redaction import redact
from marless.functions.text.tracebacks import show_traceback
from marless.infra.local.file_storage import FileStorage
from marless.infra.local.own_process import expendable, limit_memory, peak_mb, resident_mb, share_freed_memory
from marless.infra.local.pipe_messages import Inbox, Loaded, Offer, Ready, TaskCall, TaskEnded, frame
from marless.infra.local.processes.import_folders import add_last_folders
from marless.infra.local.processes.lifeline import end_with
from marless.infra.local.processes.process_tree import adopt_orphans
from marless.infra.local.processes.remote_objects import RemoteObjects
from marless.infra.local.resources.upcalls import Answer, Upcalls, heard

Handler = Callable[[bytes, Blobs], bytes]

_LONGEST_ERROR = 4096


def main() -> None:
    requests, replies, lifeline = (int(text) for text in sys.argv[1:4])
    for descriptor in (requests, replies, lifeline):
        os.set_inheritable(descriptor, False)
    add_last_folders()
    serve(requests, replies, lifeline, float(sys.argv[4]), int(sys.argv[5]), float(sys.argv[6]))


def serve(
    requests: int, replies: int, lifeline: int, started_at: float, memory_mb: int, shutdown_grace_s: float = 0.0
) -> None:
    """Serves the pool's calls until it has closed its ends. `started_at`: the monotonic clock at the process's
    start."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):  # the coordinator decides on them
        signal.signal(number, signal.SIG_IGN)
    ARITHMETIC.write(ARITHMETIC.standard)
    end_with(lifeline, shutdown_grace_s)
    adopt_orphans()
    expendable()
    share_freed_memory()
    limit_memory(memory_mb)
    # A log is read after a crash, and takes any output of an environment. The zygote's streams belong to a file.
    sys.stdout, sys.stderr = (
        TextIOWrapper(
            BufferedWriter(_Log(number, "w", closefd=False)), "utf-8", "backslashreplace", line_buffering=True
        )
        for number in (1, 2)
    )
    with suppress(ConnectionError):  # the pool is gone
        WorkerLoop(requests, replies, started_at).serve()


class _Log(FileIO):
    """A stream that may lose its reader before the process ends: later output is lost without an error."""

    def write(self, data: Any, /) -> int:
        with suppress(BrokenPipeError):
            return super().write(data)
        return memoryview(data).nbytes


class _Here(FileStorage):
    tell: Callable[[], None]

    def put(self, key: str, body: bytes) -> None:
        """See `FileStorage.put`."""
        self.tell()
        super().put(key, body)


class _There(RemoteObjects):
    tell: Callable[[], None]

    def put(self, key: str, body: bytes) -> None:
        """See `RemoteObjects.put`."""
        self.tell()
        super().put(key, body)


class WorkerLoop:
    """The modules imported so far, and the loop that calls them."""

    def __init__(self, requests: int, replies: int, started_at: float) -> None:
        self._inbox = Inbox(requests)
        self._replies = replies
        self._started: float | None = started_at
        self._blobs: dict[bytes, _Here] = {}
        self._offers: dict[str, bytes] = {}
        self._handlers: dict[str, Handler] = {}
        self._upcalls = RESOURCES.host = Upcalls(self._inbox, self._send)
        RESOURCES.restart_clock = self._upcalls.restart_clock
        IMPORTS.expect()
        FOREIGN_FILES.watch()
        self._state = state_of_process()

    def serve(self) -> None:
        """Returns when the coordinator has closed its end."""
        decoder = MessagePackDecoder[TaskCall | Offer | Answer](TaskCall | Offer | Answer)
        while self._inbox.fill():
            for header, body in self._inbox.frames():
                match heard(decoder, header, body):  # a task may end before its questions
                    case Offer(key):
                        self._offers[key] = body
                    case TaskCall() as call:
                        self._answer(call, body)
                        self._offers = {}

    def _answer(self, call: TaskCall, body: bytes) -> None:
        error = "" if call.module in self._handlers else self._import(call)
        if call.warm:
            return
        start, processor = time.perf_counter(), time.process_time()
        answer = b""
        if not error:
            try:
                tell = partial(self._tell_files, call)
                blobs = self._storage(call, tell)
                with self._upcalls.serving(call.token):
                    answer = self._handlers[call.module](body, blobs)
                tell()
                if not isinstance(answer, bytes):
                    raise TypeError(f"{call.module}.handle must return bytes, not {type(answer).__name__}")
            except BaseException as problem:  # SystemExit too: the worker outlives its tasks
                answer, error = b"", _describe(problem)
        duration_ms = (time.perf_counter() - start) * 1000
        end = TaskEnded(
            duration_ms=duration_ms,
            processor_ms=(time.process_time() - processor) * 1000,
            peak_mb=peak_mb(),
            resident_mb=resident_mb(),
            token=call.token,
            error=error,
            third_party_code=IMPORTS.look(),
            process_is_modified=IMPORTS.foreign and (process_is_modified() or state_of_process() != self._state),
        )
        self._send(frame(end, answer))

    def _tell_files(self, call: TaskCall) -> None:
        """The pool hears of files before anything is stored that comes from them."""
        if code := FOREIGN_FILES.news(os.fsdecode(call.root)):
            with suppress(BrokenPipeError):  # the pool is gone. A kept answer names its files itself
                self._send(frame(Loaded(code, call.token)))

    def _storage(self, call: TaskCall, tell: Callable[[], None]) -> Blobs:
        """Return the objects below the call's folder, or the pool's objects. Each `put` first calls `tell`."""
        if not call.root:
            there = _There(self._upcalls, self._offers, call.ahead)
            there.tell = tell
            return there
        if call.root not in self._blobs:
            objects = Path(os.fsdecode(call.root))
            FOREIGN_FILES.ignore(str(objects.parent))
            self._blobs[call.root] = _Here(objects)
        storage = self._blobs[call.root]
        storage.tell = tell
        return storage

    def _import(self, call: TaskCall) -> str:
        """Imports the module and reports the duration to the pool. Returns the error."""
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
    """The error in one line, cut and without secrets. Its traceback goes to the log."""
    show_traceback(error)
    try:
        return redact(f"{type(error).__name__}: {error}")[:_LONGEST_ERROR]
    except Exception:  # the error has no text
        return type(error).__name__


if __name__ == "__main__":
    main()
