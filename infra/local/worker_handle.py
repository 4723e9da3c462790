"""A pool's view of one worker process: its pipes, its imported modules and its current task."""

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from secrets import randbits
from typing import Generic, TypeVar

from infra.local.own_process import stat_fields
from infra.local.pipe_messages import Inbox, Ready
from infra.local.processes.process_starters import Child, Starter
from infra.local.processes.process_tree import has_ended
from infra.local.processes.worker_log import WorkerLog

# So long a process that ends still has a state although its pipes are closed.
_ENDING_S = 0.1
# Over how long it is measured what a task keeps busy.
_RECENT_S = 0.25
# Bytes of recent objects that it is taken to have at hand.
_AT_HAND = 32 << 20
# /proc/PID/stat counts in these (proc(5), fields 14 and 15).
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")

Pending = TypeVar("Pending")
"""The pool's record of a task."""


class WorkerProcess(Generic[Pending]):
    """One process of ``infra.local.worker_main``, started at once; raises `OSError` when it cannot be started.

    `memory_mb`: the most that it may allocate; 0 is unlimited.
    """

    def __init__(self, number: int, starter: Starter, log: Path, memory_mb: float = 0.0) -> None:
        self.number = number
        self.serves: tuple[str, str] | None = None
        """The lane and the group of its tasks that it serves alone, because of code that is not ours; None: all."""
        self.modules: set[str] = set()
        self.at_hand: dict[str, int] = {}
        """Bytes of the objects that it has read or written lately, by their SHA-256."""
        self.warming = ""
        self.roots: set[bytes] = set()
        self.unpaid: dict[str, float] = {}  # imports not yet metered, milliseconds by module
        self.task: Pending | None = None
        self.token = randbits(63)
        """What its messages repeat until its task has ended, so that what a task writes by itself is told apart."""
        self.init_ms = self.since = self.allowed_s = self.expires = 0.0
        self.idle_since = time.monotonic()
        # When its processor seconds were looked at, what they were, and how many cores it kept busy before that; None
        # while its task is new.
        self._looked = self._processor_s = 0.0
        self._recent: float | None = None
        self.outbox = bytearray()
        self.blocked = False
        self.log = WorkerLog(log)
        try:
            self._child = self._start(starter, int(memory_mb))
        except OSError:
            self.log.close()
            raise
        finally:
            self.log.started()
        self.inbox = Inbox(self.replies)

    def _start(self, starter: Starter, memory_mb: int) -> Child:
        """Makes the pipes and starts the process."""
        far_requests, self.requests = os.pipe()
        self.replies, far_replies = os.pipe()
        far_lifeline, self._lifeline = os.pipe()
        far = (far_requests, far_replies, far_lifeline)
        try:
            child = starter.start(far, self.log.far, memory_mb)
        except OSError:
            self._close()
            raise
        finally:
            for descriptor in far:
                os.close(descriptor)
        os.set_blocking(self.requests, False)
        os.set_blocking(self.replies, False)
        return child

    def alive(self) -> bool:
        return self._child.alive()

    def has(self, module: str) -> bool:
        return module in self.modules or module == self.warming

    def begin(self, task: Pending, module: str, root: bytes, timeout_s: float) -> None:
        """The task, of the run with objects below `root`, is the worker's from now on."""
        self.task = task
        self.roots.add(root)
        self.init_ms = self.unpaid.pop(module, 0.0)
        self._looked, self._processor_s, self._recent = time.monotonic(), self._processor_seconds(), None
        self.allow(timeout_s)

    def ready(self, message: Ready, module: str | None) -> None:
        """A module was imported, for the current task, which is served by `module`, or ahead of one."""
        self.modules.add(message.module)
        if message.module != self.warming:
            self.init_ms = message.init_ms
        elif module == message.module:
            self.warming, self.init_ms = "", message.init_ms
        else:
            self.warming, self.unpaid[message.module] = "", message.init_ms

    def flush(self) -> bool:
        """Writes what is to be sent without blocking; whether something is left."""
        try:
            del self.outbox[: os.write(self.requests, self.outbox)]
        except BlockingIOError:
            pass
        except BrokenPipeError:  # the worker is dead; the end of its reply pipe will report that
            self.outbox.clear()
        return bool(self.outbox)

    def end(self) -> None:
        """The task has ended."""
        self.task, self.token, self.idle_since = None, randbits(63), time.monotonic()

    def remember(self, *objects: Mapping[str, int]) -> None:
        """It has at hand what a task has read and written: bytes by SHA-256."""
        for name, size in (item for some in objects for item in some.items()):
            self.at_hand.pop(name, None)
            self.at_hand[name] = size
        total = sum(self.at_hand.values())
        while total > _AT_HAND:
            total -= self.at_hand.pop(next(iter(self.at_hand)))

    def missing(self, objects: Mapping[str, int]) -> int:
        """Bytes of the objects that it does not have at hand."""
        return sum(size for name, size in objects.items() if name not in self.at_hand)

    def allow(self, seconds: float) -> None:
        """Restarts the clock of the task."""
        self.allowed_s = seconds
        self.since = time.monotonic()
        self.expires = self.since + seconds

    def await_rest(self, pause_s: float) -> None:
        """A part of an answer has arrived, which was finished in time; a task cannot gain more than its time again."""
        self.expires = min(max(self.expires, time.monotonic() + pause_s), self.since + 2 * self.allowed_s + pause_s)

    def overdue(self) -> bool:
        return self.task is not None and time.monotonic() >= self.expires

    def metered(self, duration_ms: float) -> float:
        """The billed run time: capped, because clocks continue while a process is stopped."""
        return min(max(duration_ms, 0.0), max(self.allowed_s * 1000 - self.init_ms, 0.0))

    def busy_cores(self, expected_cores: float) -> float:
        """How many cores the process has kept busy lately; `expected_cores` until the task is old enough to tell."""
        now = time.monotonic()
        if now - self._looked >= _RECENT_S:
            processor_s = self._processor_seconds()
            self._recent = (processor_s - self._processor_s) / (now - self._looked)
            self._looked, self._processor_s = now, processor_s
        return expected_cores if self._recent is None else self._recent

    def _processor_seconds(self) -> float:
        """Of all its threads; 0 where the system does not say."""
        try:
            fields = stat_fields(self._child.pid)
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

    def has_exited(self) -> bool:
        """Whether it has ended by itself, given that its end of a pipe is closed: a task may have closed it."""
        until = time.monotonic() + _ENDING_S
        while not (is_gone := has_ended(self._child.pid)) and time.monotonic() < until:
            time.sleep(_ENDING_S / 10)
        return is_gone

    def kill(self) -> str:
        """Kills the process group and returns how the process ended."""
        self._close()
        status = self._child.end()
        self.log.close()
        if status is None:
            return "ended"
        return f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"

    def _close(self) -> None:
        for descriptor in (self.requests, self.replies, self._lifeline):
            os.close(descriptor)
