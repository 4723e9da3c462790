"""Start a pool's workers: as new interpreters, or as forks of a zygote that has imported the functions."""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple, Protocol

from marless.functions.encoding import MessagePackDecoder, Undecodable, to_message_pack
from marless.functions.resources.settings import is_token
from marless.infra.local.processes.import_folders import last_folders
from marless.infra.local.processes.process_tree import end_process, start_time
from marless.infra.local.processes.zygote import Died, Fork, Forked

Pipes = tuple[int, int, int]
"""The worker's ends: requests, replies, lifeline."""

# How long a killed worker may take to end. More is the zygote's import, or a machine that is out of memory.
_END_S = 20.0
# The longest time for a zygote to end its descendants.
_LAST_S = 6.0
_PYTHON = (sys.executable, "-P", "-X", "faulthandler", "-m")
"""-P: the current folder comes last on PYTHONPATH, so its files hide no module of ours."""


class Child(Protocol):
    """A worker's process."""

    @property
    def pid(self) -> int:
        """0 until it is known, and for one of another machine."""

    @property
    def place(self) -> str:
        """The name of its machine, or '' for this one."""

    @property
    def agent(self) -> str:
        """Return that machine's agent that keeps it, or ''."""

    def alive(self) -> bool:
        """Return True unless it is known to have ended."""

    def end(self) -> int | None:
        """Kills the process with its group. Returns its exit code like `subprocess`, or None if it is unknown."""


class Starter(Protocol):
    """Starts workers."""

    def start(self, pipes: Pipes, log: int, memory_mb: int) -> Child:
        """A worker that may allocate `memory_mb` (0: without limit). Raises `OSError` if it cannot be started."""

    def close(self) -> None:
        """Starts no more. Workers have ended before, or end by themselves after their tasks. Idempotent."""


class Started(NamedTuple):
    """A worker and the ends of its pipes that its starter keeps."""

    child: Child
    requests: int
    replies: int
    lifeline: int


def start_with_pipes(starter: Starter, log: int, memory_mb: int) -> Started:
    """Starts a worker that prints into `log`. Reading and writing its pipes does not block. Raises `OSError`."""
    far_requests, requests = os.pipe()
    replies, far_replies = os.pipe()
    far_lifeline, lifeline = os.pipe()
    far = (far_requests, far_replies, far_lifeline)
    try:
        child = starter.start(far, log, memory_mb)
    except OSError:
        for descriptor in (requests, replies, lifeline):
            os.close(descriptor)
        raise
    finally:
        for descriptor in far:
            os.close(descriptor)
    os.set_blocking(requests, False)
    os.set_blocking(replies, False)
    return Started(child, requests, replies, lifeline)


class Spawned:
    """A worker with its own interpreter."""

    place = agent = ""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process, self.pid = process, process.pid

    def alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> int:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        return self._process.wait()


class Spawner:
    """Starts an interpreter for each worker. See `Forker` for `shutdown_grace_s`."""

    def __init__(self, environment: Mapping[str, str], shutdown_grace_s: float = 0.0) -> None:
        self._environment, self._shutdown_grace_s = environment, shutdown_grace_s

    def prepare(self) -> None:
        """There is nothing to start."""

    def start(self, pipes: Pipes, log: int, memory_mb: int) -> Spawned:
        """Does not wait for the interpreter."""
        arguments = [*map(str, pipes), repr(time.monotonic()), str(memory_mb), str(self._shutdown_grace_s)]
        return Spawned(_interpreter("marless.infra.local.worker_main", arguments, pipes, self._environment, log))

    def close(self) -> None:
        """There is nothing to end."""


class ForkedWorker:
    """A worker that a zygote forked."""

    place = agent = ""

    def __init__(self, zygote: "Forker", number: int) -> None:
        self._zygote, self._number = zygote, number

    @property
    def pid(self) -> int:
        if self._number not in self._zygote.pids:
            self._zygote.listen(0.0)
        return self._zygote.pids.get(self._number, 0)

    def alive(self) -> bool:
        self._zygote.listen(0.0)
        return self._number not in self._zygote.exit_codes

    def end(self) -> int | None:
        self._zygote.end(self._number)
        return self._zygote.wait_for(self._number)


class Forker:
    """Starts workers as forks of a zygote (`marless.infra.local.processes.zygote`), which starts with the first one.

    With `shutdown_grace_s` workers have so many seconds to end their task after the pool has closed their pipes. Linux
    only.
    """

    def __init__(
        self, environment: Mapping[str, str], modules: Iterable[str], log: Path, shutdown_grace_s: float = 0.0
    ) -> None:
        self._environment, self._modules, self._log = environment, list(dict.fromkeys(modules)), log
        self._shutdown_grace_s = shutdown_grace_s
        self._zygote: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._decoder = MessagePackDecoder[Forked | Died](Forked | Died)
        # How many workers were started, and how many of them by zygotes that were killed.
        self._started = self._orphans = 0
        self.pids: dict[int, int] = {}
        """Of the workers that live, by number."""
        self._began: dict[int, str] = {}
        # Processes to end as soon as they are known.
        self._ending: set[int] = set()
        self.exit_codes: dict[int, int] = {}
        """Exit codes of ended processes that were not waited for."""

    def start(self, pipes: Pipes, log: int, memory_mb: int) -> ForkedWorker:
        """Does not wait for the fork. A zygote that was killed is replaced."""
        zygote = self._living_zygote()
        self._started += 1
        socket.send_fds(zygote, [to_message_pack(Fork(self._started, memory_mb))], [*pipes, log])
        return ForkedWorker(self, self._started)

    def prepare(self) -> None:
        """Starts the zygote ahead of the first worker. Raises `OSError`."""
        self._living_zygote()

    def listen(self, timeout_s: float) -> bool:
        """Takes in the zygote's messages, waiting at most `timeout_s` for one. Returns True while it lives."""
        if self._zygote is not None:
            self._zygote.send_signal(signal.SIGCONT)  # a task may have stopped it
        while self._socket is not None and _is_readable(self._socket, timeout_s):
            with suppress(ConnectionError, Undecodable):
                if data := self._socket.recv(4096):
                    self._handle_message(self._decoder.decode(data))
                    timeout_s = 0.0
                    continue
            self.close()
        return self._socket is not None

    def wait_for(self, number: int) -> int | None:
        """The exit code of a worker that ends now, or None if its zygote is gone or too slow."""
        if number <= self._orphans:
            return self.exit_codes.pop(number, None)
        until = time.monotonic() + _END_S
        while number not in self.exit_codes and (left_s := until - time.monotonic()) > 0 and self.listen(left_s):
            pass
        return self.exit_codes.pop(number, None)

    def end(self, number: int) -> None:
        """Kills a worker by its process. A task may have closed the lifeline that kills its group."""
        self._ending.add(number)
        self.listen(0.0)
        if number in self.pids:
            end_process(self.pids[number], self._began[number])

    def close(self) -> None:
        """Ends the zygote, which ends all that its workers have started. If its workers still run, it does not wait for
        the zygote."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._zygote is not None and not (self._shutdown_grace_s and self.pids):
            with suppress(subprocess.TimeoutExpired):
                self._zygote.wait(_LAST_S)
            self._zygote.kill()
            self._zygote.wait()
        self._zygote = None

    def _handle_message(self, message: Forked | Died) -> None:
        if isinstance(message, Forked):
            self.pids[message.number], self._began[message.number] = message.pid, start_time(message.pid)
            if message.number in self._ending:
                self.end(message.number)
        else:
            for table in (self.pids, self._began):
                table.pop(message.number, None)
            self._ending.discard(message.number)
            self.exit_codes[message.number] = message.exit_code

    def _living_zygote(self) -> socket.socket:
        self.listen(0.0)
        if self._socket is None:
            self._socket, self._orphans = self._start_zygote(), self._started
        return self._socket

    def _start_zygote(self) -> socket.socket:
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if not self._started:  # a pipe at this path would wait for a reader
            self._log.unlink(missing_ok=True)
        with far, self._log.open("ab") as log:
            arguments = [str(far.fileno()), repr(time.monotonic()), str(self._shutdown_grace_s), *self._modules]
            self._zygote = _interpreter(
                "marless.infra.local.processes.zygote", arguments, (far.fileno(),), self._environment, log
            )
        return near


def local_starter(
    environment: Mapping[str, str], modules: Iterable[str], log: Path, shutdown_grace_s: float = 0.0
) -> Forker | Spawner:
    """Return the starter of workers on this system. See `Forker` for the arguments."""
    if sys.platform == "linux":
        return Forker(environment, modules, log, shutdown_grace_s)
    return Spawner(environment, shutdown_grace_s)


def worker_environment(threads: int, token: str = "") -> dict[str, str]:
    """The workers' environment variables: they can import this process's modules and modules in the current folder. Of
    the tokens of services they get the one in the variable `token` alone."""
    here = str(Path.cwd())
    paths, program = [folder or here for folder in sys.path], str(Path(__file__).parents[4].resolve())
    # Files of the user hide no module of Python's own library.
    library = [path for path in paths if path == os.__file__.rpartition(os.sep)[0] or path.endswith("/lib-dynload")]
    folders = dict.fromkeys([*library, *paths, program, here])
    count = str(threads)
    return {
        **{name: value for name, value in os.environ.items() if name == token or not is_token(name)},
        "PYTHONPATH": os.pathsep.join(folder for folder in folders if os.pathsep not in folder),
        **last_folders(folder for folder in folders if os.pathsep in folder),
        "PYTHONHASHSEED": "0",  # iteration over sets of strings has the same order in every process
        "OMP_NUM_THREADS": count,
        "OPENBLAS_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
    }


def _interpreter(
    module: str,
    arguments: list[str],
    descriptors: tuple[int, ...],
    environment: Mapping[str, str],
    log: int | IO[bytes],
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [*_PYTHON, module, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        env=environment,
        pass_fds=descriptors,
        start_new_session=True,  # Ctrl-C in the terminal reaches only the coordinator
    )


def _is_readable(channel: socket.socket, timeout_s: float) -> bool:
    """Return True if data arrives in time. Unlike select(2), poll(2) takes any number of a descriptor."""
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))
