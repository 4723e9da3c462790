"""Warm worker processes that run the functions on this machine: the invoker of the local back-end."""

import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from functions.contract import Report
from infra.local.frames import Call, Ended, Inbox, Ready, frame

# An answer that has begun to arrive was finished in time; this is the longest pause between two of its chunks.
_TRANSFER_S = 10.0
_LOG_TAIL = 4096

_decoder = msgspec.msgpack.Decoder(Ready | Ended)


@dataclass(frozen=True, slots=True)
class _Task:
    function: str
    module: str
    id: str
    attempt: int
    body: bytes
    timeout_s: float


class _Worker:
    """The pool's view of one worker process: its pipes, imported modules and current task."""

    def __init__(self, blobs_root: Path, environment: Mapping[str, str], log: Path) -> None:
        self.log = log
        self.modules: set[str] = set()
        self.warming = ""
        self.unpaid: dict[str, float] = {}  # imports not yet metered, milliseconds by module
        self.task: _Task | None = None
        self.init_ms = self.since = self.allowed_s = self.expires = 0.0
        self.outbox = bytearray()
        self.blocked = False
        far_requests, self.requests = os.pipe()
        self.replies, far_replies = os.pipe()
        far_lifeline, self._lifeline = os.pipe()
        far = (far_requests, far_replies, far_lifeline)
        try:
            self.process = _spawn(far, blobs_root, environment, log)
        except OSError:
            self._close()
            raise
        finally:
            for descriptor in far:
                os.close(descriptor)
        os.set_blocking(self.requests, False)
        os.set_blocking(self.replies, False)
        self.inbox = Inbox(self.replies)

    def alive(self) -> bool:
        return self.process.poll() is None

    def has(self, module: str) -> bool:
        return module in self.modules or module == self.warming

    def allow(self, seconds: float) -> None:
        """Restarts the clock of the task."""
        self.allowed_s = seconds
        self.since = time.monotonic()
        self.expires = self.since + seconds

    def overdue(self) -> bool:
        return self.task is not None and time.monotonic() >= self.expires

    def metered(self, duration_ms: float) -> float:
        """The billed run time: capped, because clocks continue while a process is stopped."""
        return min(max(duration_ms, 0.0), max(self.allowed_s * 1000 - self.init_ms, 0.0))

    def kill(self) -> str:
        """Kills the process group and returns how the process ended."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self._close()
        status = self.process.wait()
        return f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"

    def _close(self) -> None:
        for descriptor in (self.requests, self.replies, self._lifeline):
            os.close(descriptor)

    def last_words(self) -> str:
        """The most informative log line of a dead worker: the fatal error, else the last line."""
        tail = b""
        with suppress(OSError), self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - _LOG_TAIL))
            tail = file.read()
        lines = [line.strip() for line in tail.decode(errors="replace").splitlines() if line.strip()]
        return next((line for line in lines if line.startswith("Fatal Python error")), lines[-1] if lines else "silent")


def _spawn(
    pipes: tuple[int, int, int], blobs_root: Path, environment: Mapping[str, str], log: Path
) -> "subprocess.Popen[bytes]":
    log.write_bytes(b"")
    arguments = [*map(str, pipes), repr(time.monotonic()), str(blobs_root)]
    with log.open("ab") as output:
        # -P: the current folder comes last on PYTHONPATH, so its files hide no module of ours.
        return subprocess.Popen(
            [sys.executable, "-P", "-X", "faulthandler", "-m", "infra.local.worker", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            pass_fds=pipes,
            start_new_session=True,  # Ctrl-C in the terminal reaches only the coordinator
        )


class WorkerPool:
    """Runs functions in at most `workers` processes, started when needed and kept warm.

    `modules` maps a function's name to the module whose ``handle(body: bytes, blobs: Blobs) -> bytes`` serves it;
    `threads` is the number of threads numerical libraries use in a worker. What workers print goes to
    ``<logs>/<n>.log``, beside the objects' folder unless `logs` says otherwise. A pool belongs to one thread.
    """

    def __init__(
        self, workers: int, blobs_root: Path, modules: Mapping[str, str], threads: int = 1, logs: Path | None = None
    ) -> None:
        self._limit = workers
        self._blobs_root = blobs_root.absolute()
        self._modules = modules
        self._logs = logs or self._blobs_root.parent / "workers"
        self._environment = _environment(threads)
        self._workers: list[_Worker] = []
        self._started = 0
        self._queue: deque[_Task] = deque()
        self._reports: list[Report] = []
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def prewarm(self, function: str) -> None:
        """Imports the function's module ahead of its first task, in an idle worker or a new one below the limit."""
        module = self._modules[function]
        try:
            worker = self._pick(module)
        except OSError:  # the first task will report the same error
            return
        if worker is not None and not worker.has(module) and not worker.warming:
            worker.warming = module
            self._send(worker, frame(Call(module, warm=True)))

    def invoke(self, function: str, id: str, attempt: int, body: bytes, timeout_s: float) -> None:
        """Hands the task to a worker, or queues it in FIFO order; never waits.

        `timeout_s` counts from the hand-over to a worker, start-up included: no attempt is metered for more than its
        time-out. Raises `KeyError` for a function without a module.
        """
        self._queue.append(_Task(function, self._modules[function], id, attempt, body, timeout_s))
        self._dispatch()

    def wait(self, timeout_s: float) -> list[Report]:
        """Returns the reports that arrived; if there are none, waits for the first one for at most `timeout_s`."""
        until = time.monotonic() + timeout_s
        while True:
            expires = min((worker.expires for worker in self._workers if worker.task), default=until)
            self._pump(0.0 if self._reports else max(0.0, min(until, expires) - time.monotonic()))
            if self._reports or time.monotonic() >= until:
                reports, self._reports = self._reports, []
                return reports

    def close(self) -> None:
        """Kills and reaps all workers with their process groups; drops running tasks. Idempotent."""
        self._queue.clear()
        while self._workers:
            self._workers.pop().kill()
        self._selector.close()

    def _dispatch(self) -> None:
        while self._queue:
            try:
                worker = self._pick(self._queue[0].module)
            except OSError as error:
                task, detail = self._queue.popleft(), f"cannot start a worker: {error}"
                self._reports.append(
                    Report(id=task.id, attempt=task.attempt, function=task.function, outcome="throttled", detail=detail)
                )
                continue
            if worker is None:
                return
            task = worker.task = self._queue.popleft()
            worker.init_ms = worker.unpaid.pop(task.module, 0.0)
            worker.allow(task.timeout_s)
            self._send(worker, frame(Call(task.module), task.body))

    def _pick(self, module: str) -> _Worker | None:
        """A free worker, preferably one with `module`; a new worker rather than one that imports another module."""
        free = (worker for worker in self._workers if worker.task is None and worker.alive())
        best = min(free, key=lambda worker: (not worker.has(module), worker.warming != ""), default=None)
        if best is not None and (best.has(module) or not best.warming):
            return best
        return self._start() if len(self._workers) < self._limit else best

    def _start(self) -> _Worker:
        self._started += 1
        self._logs.mkdir(parents=True, exist_ok=True)
        worker = _Worker(self._blobs_root, self._environment, self._logs / f"{self._started}.log")
        self._selector.register(worker.replies, selectors.EVENT_READ, worker)
        self._workers.append(worker)
        return worker

    def _send(self, worker: _Worker, data: bytes) -> None:
        worker.outbox += data
        self._flush(worker)

    def _flush(self, worker: _Worker) -> None:
        """Writes to the pipe without blocking."""
        try:
            del worker.outbox[: os.write(worker.requests, worker.outbox)]
        except BlockingIOError:
            pass
        except BrokenPipeError:  # the worker is dead; the end of its reply pipe will report that
            worker.outbox.clear()
        blocked = bool(worker.outbox)
        if blocked and not worker.blocked:
            self._selector.register(worker.requests, selectors.EVENT_WRITE, worker)
        elif worker.blocked and not blocked:
            self._selector.unregister(worker.requests)
        worker.blocked = blocked

    def _pump(self, timeout_s: float) -> None:
        self._exchange(timeout_s)
        if any(worker.overdue() for worker in self._workers):
            # This process may have been stopped meanwhile, so answers already in the pipe still count.
            self._exchange(0.0)
            for worker in [worker for worker in self._workers if worker.overdue()]:
                self._bury(worker, "timeout")

    def _exchange(self, timeout_s: float) -> None:
        for key, events in self._selector.select(timeout_s):
            worker: _Worker = key.data
            if worker not in self._workers:
                continue
            if events & selectors.EVENT_WRITE:
                self._flush(worker)
                worker.allow(worker.allowed_s)
            else:
                self._receive(worker)

    def _receive(self, worker: _Worker) -> None:
        try:
            while worker.inbox.fill():
                for header, body in worker.inbox.frames():
                    self._hear(worker, _decoder.decode(header), body)
                if worker.inbox.partial:
                    worker.expires = max(worker.expires, time.monotonic() + _TRANSFER_S)
        except BlockingIOError:
            self._dispatch()
        except msgspec.MsgspecError:  # a task wrote into the pipe, so no later frame is reliable
            self._bury(worker, "crash")
        else:
            self._bury(worker, "crash")

    def _hear(self, worker: _Worker, said: Ready | Ended, body: bytes) -> None:
        task = worker.task
        if isinstance(said, Ready):
            worker.modules.add(said.module)
            if said.module != worker.warming:
                worker.init_ms = said.init_ms
            elif worker.task is not None and worker.task.module == said.module:
                worker.warming, worker.init_ms = "", said.init_ms
            else:
                worker.warming, worker.unpaid[said.module] = "", said.init_ms
        elif task is not None:
            worker.task = None
            self._reports.append(
                Report(
                    id=task.id,
                    attempt=task.attempt,
                    function=task.function,
                    outcome="crash" if said.error else "answered",
                    body=body,
                    duration_ms=worker.metered(said.duration_ms),
                    init_ms=worker.init_ms,
                    peak_mb=said.peak_mb,
                    detail=said.error,
                )
            )

    def _bury(self, worker: _Worker, outcome: Literal["timeout", "crash"]) -> None:
        self._workers.remove(worker)
        self._selector.unregister(worker.replies)
        if worker.blocked:
            self._selector.unregister(worker.requests)
        duration_ms = worker.metered((time.monotonic() - worker.since) * 1000 - worker.init_ms)
        end = worker.kill()
        task = worker.task
        if task is not None:
            why = f"no answer within {worker.allowed_s:g} s" if outcome == "timeout" else end
            self._reports.append(
                Report(
                    id=task.id,
                    attempt=task.attempt,
                    function=task.function,
                    outcome=outcome,
                    duration_ms=duration_ms,
                    init_ms=worker.init_ms,
                    detail=f"{why}; last line of {worker.log}: {worker.last_words()}",
                )
            )
        self._dispatch()


def _environment(threads: int) -> dict[str, str]:
    """The workers' environment variables: they can import this process's modules and those in the current folder."""
    here = str(Path.cwd())
    folders = dict.fromkeys([*(folder or here for folder in sys.path), str(Path(__file__).resolve().parents[2]), here])
    count = str(threads)
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(folders),
        "PYTHONHASHSEED": "0",  # iteration over sets of strings has the same order in every process
        "OMP_NUM_THREADS": count,
        "OPENBLAS_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
    }
