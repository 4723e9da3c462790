"""A process that has imported the functions' modules and forks workers, which share its memory until they write to it.

Started by the pool as ``python -m marless.infra.local.processes.zygote SOCKET STARTED OUTLIVES_S MODULE...``: a socket
of packets, the pool's monotonic clock at the start, and the modules to import. Android's word for such a process. It
leaves a task's environment unimported, because a fork copies neither threads nor connections. It ends when the pool
closes the socket, and kills its workers. With OUTLIVES_S it first gives them so many seconds to end their tasks.
"""

import gc
import importlib
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from contextlib import suppress

import msgspec

from marless.functions.encoding import MessagePackDecoder, to_message_pack
from marless.functions.isolation.arithmetic import ARITHMETIC
from marless.infra.local import worker_main
from marless.infra.local.processes.import_folders import add_last_folders
from marless.infra.local.processes.process_tree import adopt_orphans, end_children

DESCRIPTORS = 4
"""The descriptors of a `Fork`: requests, replies, lifeline and log."""
# A message is far shorter.
_MOST = 4096


class Fork(msgspec.Struct, frozen=True):
    """To the zygote: fork worker `number`, which may allocate `memory_mb` (0: without limit)."""

    number: int
    memory_mb: int = 0


class Forked(msgspec.Struct, frozen=True, tag="forked"):
    """From the zygote: worker `number` is process `pid`."""

    number: int
    pid: int


class Died(msgspec.Struct, frozen=True, tag="died"):
    """From the zygote: worker `number` and its process group have ended. `exit_code` has the form of `subprocess`."""

    number: int
    exit_code: int


def main() -> None:
    """Imports the modules named on the command line, then forks workers on request until the pool is gone."""
    pool = socket.socket(fileno=int(sys.argv[1]))
    pool.set_inheritable(False)
    add_last_folders()
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):  # the coordinator decides on them
        signal.signal(number, signal.SIG_IGN)
    ARITHMETIC.write(ARITHMETIC.standard)
    for module in sys.argv[4:]:
        with suppress(BaseException):  # the worker that is asked for it reports why
            importlib.import_module(module)
    adopt_orphans()
    gc.collect()
    gc.freeze()  # or the collector would write to every object, and so copy it for each worker
    with suppress(ConnectionError):
        Zygote(pool, time.monotonic() - float(sys.argv[2]), float(sys.argv[3])).serve()


class Zygote:
    """Ends the descendants of its workers when these end, and all of them when the pool is gone.

    `start_s` is the time that this process took to start and import. Its workers report it as their own start. For
    `shutdown_grace_s` they continue without the pool, if they have tasks then.
    """

    def __init__(self, pool: socket.socket, start_s: float, shutdown_grace_s: float = 0.0) -> None:
        self._pool, self._start_s, self._shutdown_grace_s = pool, start_s, shutdown_grace_s
        self._workers: dict[int, int] = {}
        self._ended, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(pool, selectors.EVENT_READ)
        self._selector.register(self._ended, selectors.EVENT_READ)
        signal.set_wakeup_fd(self._wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> None:
        """Returns when the pool has closed its end."""
        decoder = MessagePackDecoder(Fork)
        while True:
            ready = {key.fd for key, _ in self._selector.select()}
            if self._ended in ready:
                os.read(self._ended, _MOST)
                self._report_ended()
                _resume()
            if self._pool.fileno() in ready:
                data, descriptors, _, _ = socket.recv_fds(self._pool, _MOST, DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
                if not data:
                    self._end()
                    return
                self._fork(decoder.decode(data), descriptors)

    def _end(self) -> None:
        """The pool is gone: its workers end by themselves after their tasks, and then all other descendants here."""
        self._selector.unregister(self._pool)
        until = time.monotonic() + self._shutdown_grace_s
        while self._workers and (left_s := until - time.monotonic()) > 0:
            if self._selector.select(left_s):
                os.read(self._ended, _MOST)
                self._report_ended()
                _resume()
        end_children()

    def _fork(self, order: Fork, descriptors: list[int]) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            os.write(descriptors[-1], f"cannot fork: {error}\n".encode())
            self._say(Died(order.number, 1))
        else:
            if pid == 0:
                self._become_worker(order, descriptors)
            self._workers[pid] = order.number
            self._say(Forked(order.number, pid))
        for descriptor in descriptors:
            os.close(descriptor)

    def _become_worker(self, order: Fork, descriptors: list[int]) -> None:
        """In the child: serves calls like a separate process, and ends."""
        exit_code = 1
        try:
            os.setsid()  # Ctrl-C in the terminal reaches only the coordinator
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._selector.close()
            self._pool.close()
            requests, replies, lifeline, log = descriptors
            for descriptor in (self._ended, self._wake):
                os.close(descriptor)
            for output in (1, 2):
                os.dup2(log, output)
            os.close(log)
            if "numpy" in sys.modules:
                # The standard library does so for `random`: no two processes draw the same numbers by themselves.
                sys.modules["numpy"].random.seed()
            started = time.monotonic() - self._start_s
            worker_main.serve(requests, replies, lifeline, started, order.memory_mb, self._shutdown_grace_s)
            exit_code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            with suppress(BaseException):
                sys.stdout.flush()
            os._exit(exit_code)

    def _report_ended(self) -> None:
        """Reports the workers that have ended. A worker's programs end with it, while its number is still its own.

        Its descendants in other groups and sessions are the zygote's children then. Others' are not, because workers
        adopt their own orphans.
        """
        while self._workers:
            child = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if child is None:
                return
            if (number := self._workers.pop(child.si_pid, None)) is not None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(child.si_pid, signal.SIGKILL)
            _, status = os.waitpid(child.si_pid, 0)
            if number is not None:
                end_children(spared_pids=self._workers)
                self._say(Died(number, os.waitstatus_to_exitcode(status)))

    def _say(self, message: Forked | Died) -> None:
        """Without effect if the pool is gone. Its socket tells this to `serve`."""
        with suppress(ConnectionError):
            self._pool.send(to_message_pack(message))


def _resume() -> None:
    """Continue stopped workers: a task has stopped them, because no terminal reaches them."""
    with suppress(ChildProcessError):
        while (child := os.waitid(os.P_ALL, 0, os.WSTOPPED | os.WNOHANG)) is not None:
            with suppress(ProcessLookupError):
                os.kill(child.si_pid, signal.SIGCONT)


if __name__ == "__main__":
    main()
