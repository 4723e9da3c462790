"""A pool's view of one worker process: its pipes, its imported modules and its current task."""

import os
import time
from collections.abc import Mapping
from math import inf
from pathlib import Path
from secrets import randbits
from typing import Generic, TypeVar

from marless.functions.system_errors import signal_name
from marless.infra.local.pipe_messages import Inbox, Ready
from marless.infra.local.processes.process_starters import Starter, start_with_pipes
from marless.infra.local.processes.process_tree import has_ended
from marless.infra.local.processes.processor_use import ProcessorUse
from marless.infra.local.processes.worker_log import WorkerLog
from marless.infra.local.task_clock import TaskClock

# So long a process that ends still has a state although its pipes are closed.
_ENDING_S = 0.1
# Bytes of recent objects that it is taken to have at hand.
_AT_HAND = 32 << 20

Pending = TypeVar("Pending")
"""The pool's record of a task."""


class WorkerProcess(Generic[Pending]):
    """One process of ``marless.infra.local.worker_main``, started at once. Raises `OSError` if it cannot be started.

    `memory_mb`: the most that it may allocate, or 0 for no limit.
    """

    def __init__(self, number: int, starter: Starter, log: Path, memory_mb: float = 0.0) -> None:
        self.number = number
        self.serves: tuple[str, str] | None = None
        """The only lane and group of tasks that it serves, because of foreign code, or None for all."""
        self.modules, self.roots = set[str](), set[bytes]()
        self.at_hand: dict[str, int] = {}
        """Bytes of the objects that it has read or written lately, by their SHA-256."""
        self.warming, self.init_ms = "", 0.0
        self.unpaid: dict[str, float] = {}  # imports not yet metered, milliseconds by module
        self.task: Pending | None = None
        self.token = randbits(63)
        """Its messages repeat this until its task has ended, which tells them apart from a task's own writes."""
        self.idle_since = time.monotonic()
        self.clock = TaskClock()
        self.processor = ProcessorUse(lambda: self._child.pid)
        self.slot = 0
        """Which of the slots of a pool that numbers them it takes with its task."""
        self.questions: set[int] = set()
        """Numbers of the questions with answers that its task waits for."""
        self._last_question = -1
        self.outbox, self.blocked = bytearray(), False
        self.log = WorkerLog(log)
        try:
            self._child, self.requests, self.replies, self._lifeline = start_with_pipes(
                starter, self.log.far, int(memory_mb)
            )
        except OSError:
            self.log.close()
            raise
        finally:
            self.log.started()
        self.inbox = Inbox(self.replies)

    def alive(self) -> bool:
        """Return whether the process runs."""
        return self._child.alive()

    @property
    def place(self) -> str:
        """As in `Child`."""
        return self._child.place

    @property
    def agent(self) -> str:
        """As in `Child`."""
        return self._child.agent

    def has(self, module: str) -> bool:
        return module in self.modules or module == self.warming

    @property
    def computes(self) -> bool:
        """Return True if it has a task that does not wait for an answer."""
        return self.task is not None and not self.questions

    def begin(self, task: Pending, module: str, root: bytes, timeout_s: float, cores: float) -> None:
        """The task, of the run with objects below `root`, is the worker's from now on. It is expected to keep so many
        `cores` busy."""
        self.task = task
        self.roots.add(root)
        self.init_ms = self.unpaid.pop(module, 0.0)
        self.processor.begin(cores)
        self.clock.start(timeout_s)

    def ask(self, number: int) -> bool:
        """Its task asks, and its clock stops until all its questions are answered. Returns False for an impossible
        number of a question."""
        if self.task is None or number <= self._last_question:
            return False
        self.clock.stop()
        self._last_question = number
        self.questions.add(number)
        return True

    def answer(self, number: int) -> None:
        """The answer is on its way."""
        self.questions.discard(number)
        self._go_on()

    def wrote(self) -> None:
        """The worker takes in its task or answers."""
        if self.clock.expires == inf:
            self._go_on()
        else:
            self.clock.start(self.clock.allowed_s)

    def _go_on(self) -> None:
        if self.task is not None and not self.questions and not self.outbox:
            self.clock.go_on()
            self.processor.renew()

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
        """Writes the output that does not block. Returns True if something is left."""
        try:
            del self.outbox[: os.write(self.requests, self.outbox)]
        except BlockingIOError:
            pass
        except BrokenPipeError:  # the worker is dead. The end of its reply pipe will report that
            self.outbox.clear()
        return bool(self.outbox)

    def end(self) -> None:
        """The task has ended."""
        self.task, self.token, self.idle_since = None, randbits(63), time.monotonic()
        self.questions.clear()

    def remember(self, *objects: Mapping[str, int]) -> None:
        """It has a task's inputs and outputs at hand: bytes by SHA-256."""
        for name, size in (item for some in objects for item in some.items()):
            self.at_hand.pop(name, None)
            self.at_hand[name] = size
        total = sum(self.at_hand.values())
        while total > _AT_HAND:
            total -= self.at_hand.pop(next(iter(self.at_hand)))

    def missing(self, objects: Mapping[str, int]) -> int:
        """Bytes of the objects that it does not have at hand."""
        return sum(size for name, size in objects.items() if name not in self.at_hand)

    def overdue(self) -> bool:
        return self.task is not None and time.monotonic() >= self.clock.expires

    def metered(self, duration_ms: float) -> float:
        """The billed run time: capped, because clocks continue while a process is stopped."""
        return min(max(duration_ms, 0.0), max(self.clock.allowed_s * 1000 - self.init_ms, 0.0))

    def has_exited(self) -> bool:
        """Return True if it has ended by itself, given that its end of a pipe is closed: a task may have closed it."""
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
            return connection_lost(self._child.place) if self._child.place else "ended"
        return f"killed by {signal_name(-status)}" if status < 0 else f"exit status {status}"

    def leave(self) -> None:
        """The process ends by itself after its task."""
        self._close()
        self.log.close()

    def _close(self) -> None:
        for descriptor in (self.requests, self.replies, self._lifeline):
            os.close(descriptor)


def connection_lost(place: str) -> str:
    """Describe the end of a process on a machine that fell silent."""
    return f"the connection to {place} was lost"
